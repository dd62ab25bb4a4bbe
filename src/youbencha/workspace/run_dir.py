"""The directory of a run: `<workspace>/<name>-<time>-<id>/`.

An agent in a container sees only its tree. An agent on the host works in a private directory, and its tree is moved
here at the end: agents read instructions in all directories above the one in which they work, and the run directory is
often in a user's project. While the agent runs, nothing that it is judged by is stored here.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from shutil import disk_usage
from types import TracebackType
from typing import Self

from youbencha.errors import YouBenchaError
from youbencha.files import walk
from youbencha.locks import lock_file
from youbencha.text import format_path
from youbencha.user_dirs import default_cache_dir
from youbencha.workspace.trees import copy_tree, make_accessible, remove_tree

ARTIFACTS, LOCK, PRIVATE_PARENT = "artifacts", ".lock", "private_parent"
_IGNORE_ALL = "# Created by youBencha: git ignores everything in this directory.\n*\n"
_RUNS = "runs"
_TREE = "src-modified"
_LARGE_TEMPORARY = Path("/var/tmp")  # noqa: S108 - only directories with random names are made in it
"""Unlike the system's usual one, which may be in memory, it has room for large trees."""
_PRIVATE_NAME = re.compile(r"(.+)-[0-9a-f]{16}", re.DOTALL)
_OWNER_ONLY = 0o700
_RESERVED_BYTES, _RESERVED_FILES = 64 * 1024**2, 24
_RESULT_BYTES, _RESULT_FILES = 16 * 1024**2, 8
State = frozenset[tuple[object, ...]]

_RANDOM_BYTES = 6
"""Enough for a thousand runs that begin in the same second, in any number of directories, to have unique names."""

_RUN_NAME = re.compile(r".+-(2\d{3}-\d{2}-\d{2}-\d{6})-(?:[0-9a-f]{6}){1,2}")
"""Earlier versions used six random digits."""


class RunDirectory:
    """The directory of one run. It is locked until it is closed, so that `yb prune` does not remove it."""

    def __init__(self, path: Path, private: Path, name: str | None = None, tree: Path | None = None) -> None:
        self.path = path
        self.name = name or path.name
        """Identifies the run. The names of its private directories begin with it."""
        self.modified = tree or path / _TREE
        """Where the agent works; after `settle`, where its tree is."""
        self.owns_tree = tree is None
        """Whether `modified` was created for this run. Otherwise it is the user's own directory."""
        self._around_tree: Path | None = None
        """The private directory of a tree that is not in `path` yet."""
        self.expected = path / "src-expected"
        """The expected result, if there is one; written after the agent has ended."""
        self.artifacts = path / ARTIFACTS
        self.private = private
        """For the harness only. It is outside `path`, and is removed when the run is closed."""
        self._scratch: list[Path] = []
        self._held, self._reserved, self._reserved_for_end = ExitStack(), ExitStack(), ExitStack()
        self._private_state: State | None = None

    @classmethod
    def create(
        cls, root: Path, name: str | None = None, *, cache_dir: Path | None = None, away_from: Sequence[str] = ()
    ) -> Self:
        """Make a directory with a new name in `root`, which is created if needed, with a `.gitignore`.

        Leaves nothing behind if it fails. The private directory is made below `cache_dir`, by default the user's. With
        `away_from`, the agent works in a private directory above which there are no files of these names.
        """
        root = root.absolute()
        with writing_to(root):
            _make_root(root)
            return cls._create(_new_directory(root, name or "run"), cache_dir, away_from=away_from)

    @classmethod
    def create_at(
        cls,
        path: Path | str,
        *,
        name: str | None = None,
        cache_dir: Path | None = None,
        tree: Path | None = None,
        away_from: Sequence[str] = (),
    ) -> Self:
        """Make the directory `path`, which must not exist; otherwise as `create`.

        `name` must be unique; it defaults to the directory's. `tree` is a user's directory in which the agent works: it
        is never created, restored or removed, and may contain `path`.
        """
        path = Path(path).absolute()
        with writing_to(path):
            _make_root(path.parent)
            path.mkdir(mode=_OWNER_ONLY)
            return cls._create(path, cache_dir, name, tree.absolute() if tree else None, away_from)

    @classmethod
    def _create(
        cls,
        path: Path,
        cache_dir: Path | None,
        name: str | None = None,
        tree: Path | None = None,
        away_from: Sequence[str] = (),
    ) -> Self:
        with ExitStack() as undo:
            undo.callback(remove_tree, path)
            parents = parents_without(away_from, cache_dir, near=path) if away_from else None
            run = cls(path, make_private(name or path.name, cache_dir, parents), name, tree)
            undo.callback(run.close)
            if away_from:
                run._around_tree = run.new_scratch()
                run.modified = run._around_tree / _TREE
                with suppress(OSError):  # only for people who look at it meanwhile; not every system has links
                    (path / _TREE).symlink_to(run.modified)
            if not run._hold():
                raise not_writable(path, "another process took its lock")
            for directory in (run.modified, run.artifacts) if run.owns_tree else (run.artifacts,):
                directory.mkdir()
            undo.pop_all()
            return run

    @cached_property
    def scratch(self) -> Path:
        """A directory for files of the adapter (of the agent or a judge) outside the tree: prompts, settings."""
        return self.new_scratch()

    def new_scratch(self) -> Path:
        """Make a directory for what the agent needs outside its tree, such as a home, until the run is closed."""
        path = self.private.parent / _private_name(self.name)  # found by its name if the run dies
        path.mkdir(mode=_OWNER_ONLY)
        self._scratch.append(path)
        return path

    def hand_over(self) -> None:
        """Remember the state of the run right before the agent starts, and set aside room for its results."""
        with writing_to(self.path):
            self._reserved.enter_context(room_set_aside(self.path, self.private))
            self._reserved_for_end.enter_context(room_set_aside(self.path, bytes_=_RESULT_BYTES, files=_RESULT_FILES))
        self._private_state = directory_state(self.private)

    def reclaim(self) -> tuple[str, ...]:
        """Prepare the directory for evaluators and results, after the agent's processes have ended.

        Directories that the agent removed or replaced are made again. If that was its tree, all its files count as
        deleted. Returns descriptions of what was found: usually nothing.
        """
        assert self.owns_tree
        self._reserved.close()
        findings: list[str] = []
        with writing_to(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for directory in (self.path, self.artifacts, self.modified.parent, self.modified):
                _ensure_directory(directory, findings)
            if not (self.path / LOCK).exists():
                self._held.close()
                self._hold()
            self._check_private(findings)
            if "scratch" in vars(self):  # judges use it, too
                remove_tree(self.scratch)
                self.scratch.mkdir(mode=_OWNER_ONLY, parents=True)
        return tuple(findings)

    def release_room(self) -> None:
        """Give back the room for the final results, which evaluators cannot take either."""
        self._reserved_for_end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def settle(self) -> None:
        """Move a tree that is in a private directory to its place in the run directory."""
        target = self.path / _TREE
        if self._around_tree is None or self.modified == target:
            return
        with writing_to(target):
            remove_tree(target)  # the link
            try:
                self.modified.rename(target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._copy_to(target)
        self.modified = target

    def _copy_to(self, target: Path) -> None:
        """Copy the tree to another disk, or leave nothing there: the results need room, too."""
        try:
            copy_tree(self.modified, target, unreadable_ok=True)
        except OSError:
            remove_tree(target)
            raise

    def close(self) -> None:
        """Settle the tree, remove the private directories and unlock the run."""
        self._reserved.close()
        self.release_room()
        with suppress(YouBenchaError):  # the results are complete without it
            self.settle()
        with suppress(YouBenchaError):  # what cannot be removed from the cache does not affect the run
            for directory in (self.private, *self._scratch):
                remove_tree(directory)
        self._held.close()

    def delete_sources(self) -> None:
        """Close the run, and remove everything but its artifacts."""
        self._remove_tree()
        self.close()
        remove_sources(self.path)

    def remove(self) -> None:
        """Close the run and remove all of it, because nothing ran."""
        self._remove_tree()
        self.close()
        remove_tree(self.path)

    def _remove_tree(self) -> None:
        """Remove a tree that is in a private directory, instead of moving it, perhaps to another disk."""
        if self._around_tree is not None:
            remove_tree(self.modified)

    def _hold(self) -> bool:
        """Take the lock. Return False if another process holds it."""
        lock = self._held.enter_context(lock_file(self.path / LOCK))
        # Without the name of the private directory, because an agent can read this. It begins with the run's name.
        return lock.take(**{PRIVATE_PARENT: str(self.private.parent)})

    def _check_private(self, findings: list[str]) -> None:
        if self._private_state is not None and directory_state(self.private) != self._private_state:
            findings.append("files of the harness were changed while the agent ran: the results may be wrong")
        self._private_state = None  # from here on, the harness writes to it
        self.private.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)


@contextmanager
def room_set_aside(*directories: Path, bytes_: int = _RESERVED_BYTES, files: int = _RESERVED_FILES) -> Iterator[None]:
    """Take what results need on the directories' disks, so that an agent cannot. Raises OSError if one is full.

    The files have no names, so that an agent cannot find them, and nothing is left if the harness is killed.
    """
    with ExitStack() as held:
        for directory in {directory.stat().st_dev: directory for directory in directories}.values():
            opened = [held.enter_context(tempfile.TemporaryFile(dir=directory)) for _ in range(files)]
            if hasattr(os, "posix_fallocate"):
                size = min(bytes_, disk_usage(directory).free // 8)
                os.posix_fallocate(opened[0].fileno(), 0, max(1, size))
        yield


@contextmanager
def writing_to(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise not_writable(directory, error.strerror or str(error)) from error


def not_writable(directory: Path, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "WORKSPACE_NOT_WRITABLE",
        f"Cannot write the workspace {directory}: {reason}",
        hint="Free some space, or set `workspace_dir` to a directory that you may write to.",
    )


def remove_sources(run: Path) -> None:
    for name in os.listdir(run):  # noqa: PTH208 - only the names are wanted
        if name != ARTIFACTS:
            remove_tree(run / name)


def _ensure_directory(path: Path, findings: list[str]) -> None:
    if path.is_symlink() or not path.is_dir():
        findings.append(f"{format_path(path.name)} was removed or replaced")
        remove_tree(path)
        path.mkdir(mode=_OWNER_ONLY, parents=True)
    make_accessible(path)


def _new_directory(root: Path, name: str) -> Path:
    """Make a directory with a new run name that is not in use."""
    while True:
        path = root / new_run_name(name)
        with suppress(FileExistsError):
            path.mkdir(mode=_OWNER_ONLY)
            return path


def _make_root(root: Path) -> None:
    if not root.exists():
        root.mkdir(parents=True, exist_ok=True)
        (root / ".gitignore").write_text(_IGNORE_ALL)


def make_private(run: str, cache_dir: Path | None, parents: Sequence[Path] | None = None) -> Path:
    """Make a directory for the harness only, in the first of the parents with room for it, usually the cache.

    It is not next to the agent's tree, which the agent reaches by `..`. An agent that runs as the same user without a
    sandbox can still find it; `directory_state` shows whether anything in it was changed.
    """
    *others, last = _private_parents(cache_dir) if parents is None else parents
    for parent in others:
        with suppress(OSError):
            return _make_private_in(parent, run)
    return _make_private_in(last, run)


def _make_private_in(parent: Path, run: str) -> Path:
    parent.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
    path = parent / _private_name(run)
    path.mkdir(mode=_OWNER_ONLY)
    try:
        with room_set_aside(path, bytes_=1, files=1):  # on a full disk, directories can still be made
            return path
    except OSError:
        path.rmdir()
        raise


def _private_parents(cache_dir: Path | None) -> list[Path]:
    """List where private directories may be, the best place first."""
    temporary = Path(tempfile.gettempdir()).absolute()
    is_chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    parents = [temporary] if is_chosen or not _LARGE_TEMPORARY.is_dir() else [_LARGE_TEMPORARY, temporary]
    with suppress(RuntimeError):  # this user has no home directory
        parents.insert(0, (cache_dir or default_cache_dir()).absolute() / _RUNS)
    return parents


def parents_without(names: Sequence[str], cache_dir: Path | None, *, near: Path) -> list[Path]:
    """List parents of private directories that are not below files of these names, first those on the disk of `near`.

    Raises `INSTRUCTIONS_ABOVE_WORKSPACE` if there is none.
    """
    parents = _private_parents(cache_dir)
    above = {parent: _first_above(parent, names) for parent in parents}
    usable = [parent for parent in parents if above[parent] is None]
    if not usable:
        files = ", ".join(str(path) for path in dict.fromkeys(above.values()))
        raise YouBenchaError(
            "INSTRUCTIONS_ABOVE_WORKSPACE",
            f"Agents on this host would read {files}: it is in a parent of every directory that they could work in "
            f"({', '.join(map(str, parents))}).",
            hint="Move it, set TMPDIR or `cache_dir` in your settings to a directory outside of its directory, or use "
            "`sandbox: docker`.",
        )
    disk = _disk(near)
    return sorted(usable, key=lambda parent: _disk(parent) != disk)


def _first_above(directory: Path, names: Sequence[str]) -> Path | None:
    # Resolved, as a program sees the directory in which it works.
    resolved = directory.resolve()
    paths = (above / name for above in (resolved, *resolved.parents) for name in names)
    return next((path for path in paths if os.path.lexists(path)), None)


def _disk(path: Path) -> int:
    return next(above for above in (path, *path.parents) if above.exists()).stat().st_dev


def find_private(name: str, cache_dir: Path) -> list[Path]:
    """List the private directories of all runs whose names begin with `name`."""
    parents = _private_parents(cache_dir)
    return [path for parent in parents for run, path in private_directories(str(parent)) if run.startswith(name)]


def remove_private(name: str, cache_dir: Path) -> None:
    """Remove the private directories of all runs whose names begin with `name`: their harness was killed."""
    for directory in find_private(name, cache_dir):
        with suppress(YouBenchaError):  # what cannot be removed from the cache does no harm
            remove_tree(directory)


def _private_name(run: str) -> str:
    return f"{run}-{os.urandom(8).hex()}"


def private_directories(parent: str) -> Iterator[tuple[str, Path]]:
    """Yield the private directories in `parent`, each with the name of its run.

    `parent` is not trusted: an agent may have set it.
    """
    try:
        names = os.listdir(parent) if os.path.isabs(parent) else []  # noqa: PTH117, PTH208
    except (OSError, ValueError):
        return
    for name in names:
        path = Path(parent, name)
        if (match := _PRIVATE_NAME.fullmatch(name)) and not path.is_symlink() and path.is_dir():
            yield match[1], path


def directory_state(directory: Path) -> State:
    """Return a value that changes if anything in the directory does. Programs cannot set a file's `ctime`."""
    state: set[tuple[object, ...]] = set()
    for entry in walk(os.fspath(directory)):
        info = entry.stat(follow_symlinks=False)
        # The times of directories change when git creates a temporary file.
        times = () if stat.S_ISDIR(info.st_mode) else (info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        state.add((entry.path, info.st_mode, info.st_ino, *times))
    return frozenset(state)


def new_run_name(kind: str) -> str:
    return f"{kind}-{time.strftime('%Y-%m-%d-%H%M%S')}-{os.urandom(_RANDOM_BYTES).hex()}"


def run_started_at(name: str) -> datetime | None:
    """Return the time in the name of a run, or None if it is not the name of one."""
    match = _RUN_NAME.fullmatch(name)
    try:
        return datetime.fromisoformat(match[1]).astimezone() if match else None
    except ValueError:
        return None
