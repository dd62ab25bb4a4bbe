"""Files that a user gives to an agent: list them within limits, hash them, copy them, put them over a tree for a time.

In a directory of them, a link is used only if it leads to a file in the same directory, and becomes that file. Anything
called `.git` is left out: a skill or a plugin is often a clone.

Paths of files that are put over a tree belong to the harness: whatever is there at the end is removed, and a file that
was there before is restored. Paths of files that are removed belong to the agent: they are restored only where it made
nothing of its own. Nothing else is touched, and no link is followed: the agent may have put one in place of any
directory. No program may run in the tree meanwhile, and its directories must be accessible.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import is_directory, nofollow_directory, open_file, replacing, walk
from youbencha.text import format_path
from youbencha.workspace.git import GitFailed, scratch_git_dir
from youbencha.workspace.trees import is_real_directory, remove_tree

MAX_FILES = 10_000
MAX_BYTES = 256 * 1024**2
"""Limits of one directory. Larger ones belong into an image or into the repository."""

_GIT = ".git"


class GivenFile(NamedTuple):
    path: str
    """Where it belongs, with forward slashes."""
    source: Path
    size: int
    mode: int
    """Permissions. The owner can always read and write it."""

    @property
    def is_program(self) -> bool:
        return bool(self.mode & stat.S_IXUSR)

    def write(self, target: Path) -> None:
        """Copy it in place of whatever file or link is there. The directory must exist. Raises `OSError`."""
        with open_file(self.source) as source, replacing(target) as partial:
            with partial.open("xb") as copy:
                shutil.copyfileobj(source, copy)
            partial.chmod(self.mode)


def given_file(source: Path, path: str) -> GivenFile:
    """Describe one file that belongs to `path`. Raises `AGENT_FILES_INVALID`."""
    try:
        info = source.stat()
    except (OSError, ValueError) as error:  # ValueError: it contains a NUL character
        raise invalid(f"{format_path(source)} cannot be read: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(info.st_mode):
        raise invalid(f"{source} is not a file")
    if not os.access(source, os.R_OK):
        raise invalid(f"{source} cannot be read: you have no permission")
    _check_limits(source, 1, info.st_size)
    return GivenFile(path, source, info.st_size, stat.S_IMODE(info.st_mode) & 0o777 | 0o600)


def given_files(top: Path, *, git_refused: bool = False) -> list[GivenFile]:
    """List the files of a directory, in the order of their paths. Raises `AGENT_FILES_INVALID`.

    `git_refused`: anything called `.git` is an error.
    """
    if not top.is_dir():
        raise invalid(f"{top} is not a directory" if top.exists() else f"there is no directory {top}")
    top = Path(os.path.realpath(top))
    files: list[GivenFile] = []
    size = 0
    for entry in walk(os.fspath(top), enter=lambda entry: entry.name.lower() != _GIT, on_error=_raise_unreadable):
        if entry.name.lower() == _GIT:
            if git_refused:
                raise invalid(f"{format_path(entry.path)} would change the repository itself", "remove it")
        elif not is_directory(entry):
            source = _inside(top, Path(entry.path)) if entry.is_symlink() else Path(entry.path)
            files.append(given_file(source, Path(entry.path).relative_to(top).as_posix()))
            size += files[-1].size
            _check_limits(top, len(files), size)
    return sorted(files, key=lambda file: file.path.encode("utf-8", "surrogateescape"))


def _raise_unreadable(error: OSError) -> None:
    raise invalid(f"{error.filename} cannot be read: {error.strerror or error}") from error


def _inside(top: Path, link: Path) -> Path:
    """Return the file of `top` that a link leads to."""
    target = Path(os.path.realpath(link))
    if target.is_relative_to(top) and target.is_file() and _GIT not in map(str.lower, target.relative_to(top).parts):
        return target
    raise invalid(
        f"{format_path(link)} is a link that does not lead to a file in {top}", "put a copy of the file there instead"
    )


def copy_given(files: Iterable[GivenFile], directory: Path) -> None:
    """Copy files into a directory of the harness. Raises `AGENT_FILES_NOT_WRITABLE`."""
    try:
        for file in files:
            target = directory / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            file.write(target)
    except OSError as error:
        raise not_writable(directory, error) from error


def hash_given(files: Iterable[GivenFile]) -> str:
    """Hash paths, contents and whether they are programs: the same on every machine, unlike times and modes."""
    digest = hashlib.sha256()
    for file in files:
        with open_file(file.source) as source:
            content = hashlib.file_digest(source, "sha256").hexdigest()
        line = f"{file.path}\0{int(file.is_program)}\0{content}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


class Overlay:
    """Files that are put over one tree while an agent works in it, and files that are removed from it."""

    def __init__(self, tree: Path, private: Path) -> None:
        """`private` is a directory for copies of replaced and removed files, which an agent cannot change."""
        self._tree, self._private = tree, private
        self._originals: dict[str, GivenFile | str | None] = {}
        """Each path that was put there, and what was there before: a file, with a copy, or a link's target."""
        self._made: list[Path] = []
        """Directories that were made, outer ones first."""
        self._removed: dict[str, GivenFile | str] = {}
        """Each path that was removed, and what was there, as in `_originals`."""

    def check(self, files: Sequence[GivenFile]) -> None:
        """Raise `AGENT_FILES_INVALID` if something in the tree is in the way."""
        for file in files:
            target = self._tree / file.path
            obstacle = self._obstacle_above(target)
            if obstacle is None and os.path.lexists(target) and not _can_be_restored(target):
                obstacle = target
            if obstacle is not None:
                name = format_path(obstacle.relative_to(self._tree))
                raise invalid(
                    f"{format_path(file.path)} cannot be overlaid on the checkout: {name} is in the way",
                    "rename the file, or remove it from `files`",
                )

    def apply(self, files: Sequence[GivenFile]) -> None:
        """Put the files into the tree. Raises YouBenchaError; `revert` undoes what was done until then."""
        self.check(files)
        try:
            self._private.mkdir(mode=0o700, exist_ok=True)
            for file in files:
                self._put(file)
        except OSError as error:
            raise not_writable(self._tree, error) from error

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files and directories of the tree, before `apply`. What does not exist is ignored."""
        try:
            self._private.mkdir(mode=0o700, exist_ok=True)
            for path in paths:
                target = self._tree / path
                if self._obstacle_above(target) is None and os.path.lexists(target):
                    for file in _files_in(target):
                        self._removed[file.relative_to(self._tree).as_posix()] = self._keep(file)
                    remove_tree(target)
        except OSError as error:
            raise not_writable(self._tree, error) from error

    def _put(self, file: GivenFile) -> None:
        target = self._tree / file.path
        for directory in self._above(target):
            if not os.path.lexists(directory):
                directory.mkdir()
                self._made.append(directory)
        self._originals[file.path] = self._keep(target) if os.path.lexists(target) else None
        file.write(target)

    def _keep(self, target: Path) -> GivenFile | str:
        if target.is_symlink():
            return str(target.readlink())
        original = given_file(target, target.name)
        copy = self._private / str(len(self._originals) + len(self._removed))
        original.write(copy)
        return original._replace(source=copy)

    def revert(self) -> list[str]:
        """Remove the files, and put back what was there before. May be called again.

        Returns the paths where the agent had put a directory, which was removed with everything in it. A file whose
        directory the agent replaced, by a link for example, is not put back: it counts as deleted by the agent.
        """
        replaced = []
        try:
            for path, original in self._originals.items():
                target = self._tree / path
                if self._obstacle_above(target) is not None:
                    continue
                if is_real_directory(target):
                    replaced.append(path)
                remove_tree(target)
                if original is not None:
                    _restore(original, target)
            for directory in reversed(self._made):
                if self._obstacle_above(directory) is None:
                    with suppress(OSError):  # it is not empty, because the agent's own files stay, or it is a link
                        directory.rmdir()
            for path, original in self._removed.items():
                target = self._tree / path
                if self._obstacle_above(target) is None and not os.path.lexists(target):
                    _restore(original, target)
        except OSError as error:
            raise YouBenchaError(
                "AGENT_FILES_NOT_REMOVABLE",
                f"Cannot remove the agent's files from {self._tree}: {error.filename} {error.strerror}",
            ) from error
        self._originals, self._made, self._removed = {}, [], {}
        return replaced

    async def hide_from_git(self, commit: str) -> None:
        """Hide the files from `git status` in the tree's own repository: they would only distract the agent.

        `commit` is any id of the repository. A tree whose `.git` is unusual stays as it is.
        """
        git_dir = self._tree / ".git"
        if not is_real_directory(git_dir):
            return
        with suppress(OSError, GitFailed):
            tracked = await self._skip_tracked(git_dir / "index", commit)
            excluded = b"".join(_as_pattern(path) for path in self._originals if path not in tracked)
            await asyncio.to_thread(_exclude, git_dir, excluded)

    async def _skip_tracked(self, index: Path, commit: str) -> Collection[str]:
        """Mark the files that are in the index, and return them."""
        with scratch_git_dir(self._private, commit) as scratch:
            listed = await scratch.git("ls-files", "-z", index=index)
            tracked = {os.fsdecode(path) for path in listed.split(b"\0")} & {*self._originals, *self._removed}
            if tracked:
                names = b"".join(os.fsencode(path) + b"\0" for path in sorted(tracked))
                arguments = ("update-index", "--skip-worktree", "-z", "--stdin")
                await scratch.git(*arguments, tree=self._tree, index=index, stdin=names)
        return tracked

    def _obstacle_above(self, target: Path) -> Path | None:
        """Return the outermost link or file where a directory above the target must be."""
        above = self._above(target)
        return next((path for path in above if os.path.lexists(path) and not is_real_directory(path)), None)

    def _above(self, target: Path) -> Iterator[Path]:
        """Return the directories between the tree and a file, outer ones first."""
        return reversed([above for above in target.parents if self._tree in above.parents])


def _files_in(target: Path) -> list[Path]:
    """List the files and links in a directory, or the one file."""
    if not is_real_directory(target):
        return [target]
    return sorted(Path(entry.path) for entry in walk(os.fspath(target)) if not is_directory(entry))


def _restore(original: GivenFile | str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(original, str):
        target.symlink_to(original)
    else:
        original.write(target)


def _can_be_restored(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _as_pattern(path: str) -> bytes:
    """Return a line of an exclude file for exactly this path. `?` stands for a line end, which cannot be written."""
    return b"/" + re.sub(rb"[\\*?\[\] \t]", rb"\\\g<0>", os.fsencode(path)).replace(b"\n", b"?") + b"\n"


def _exclude(git_dir: Path, lines: bytes) -> None:
    if lines:
        with nofollow_directory(git_dir, "info") as info:
            info.append("exclude", lines)


def invalid(message: str, hint: str | None = None) -> YouBenchaError:
    return YouBenchaError("AGENT_FILES_INVALID", message, hint=hint)


def not_writable(directory: Path, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_FILES_NOT_WRITABLE",
        f"Cannot copy the agent's files to {directory}: {error.filename or ''} {error.strerror or error}",
        hint="Check the free disk space, and that no file is where a directory must be.",
    )


def _check_limits(top: Path, count: int, size: int) -> None:
    if count > MAX_FILES:
        raise invalid(f"{top} has more than {MAX_FILES:,} files", "give the agent fewer, or use an image that has them")
    if size > MAX_BYTES:
        raise invalid(f"{top} has more than {MAX_BYTES // 1024**2} MiB", "give the agent less")
