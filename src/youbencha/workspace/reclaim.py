"""Restore a run directory after an agent that could write outside its tree.

No link is followed, and nothing is trusted: a directory is recognised by its device and inode. If nothing was changed,
this costs a few system calls.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.files import open_nofollow, replacing
from youbencha.text import format_path, list_paths
from youbencha.workspace.git import reset_config
from youbencha.workspace.trees import FileCopies, remove_tree

Identity = tuple[int, int]
"""Device and inode, which distinguish a file from another with the same path."""

_UNSAFE_GIT_ENTRIES = (
    "hooks", "config.worktree", "commondir", "modules", "worktrees", "objects/info/alternates",
    "rebase-merge", "rebase-apply", "sequencer",
)  # fmt: skip
"""Entries of a git directory that name other git directories, or programs (`git rebase --continue` runs some, too)."""

_RIGHTS = stat.S_IRWXU
_SET_ID = stat.S_ISUID | stat.S_ISGID

_DEEPEST = 20
"""The harness does not nest directories of logs deeper."""


def identity(path: Path) -> Identity | None:
    about = _look(path)
    return (about.st_dev, about.st_ino) if about else None


@contextmanager
def kept_open(directory: Path) -> Iterator[None]:
    """Keep a directory open, so that no other file gets its identity, even if it is removed."""
    if sys.platform == "win32":  # an open directory could not be removed or moved
        yield
        return
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield
    finally:
        os.close(fd)


def restore_directory(path: Path, made: Identity, found: list[str]) -> Identity:
    """Find the original directory and move it back, or create it again, and return its identity."""
    about = _look(path)
    if about is None or (about.st_dev, about.st_ino) != made or not stat.S_ISDIR(about.st_mode):
        found.append(f"{format_path(path.name)} was {'replaced' if about else 'removed or moved'}")
        remove_tree(path)
        if _moved_back(path, made):
            found[-1] += ", and was found again"
        else:
            path.mkdir(parents=True)
            made = identity(path) or made
    elif about.st_mode & _RIGHTS != _RIGHTS:
        found.append(f"the permissions of {format_path(path.name)} were removed")
    make_accessible(path)
    return made


def restore_tree(tree: Path, found: list[str]) -> None:
    """Make sure that there is a directory for evaluators. It need not be the original one."""
    about = _look(tree)
    if about is None or not stat.S_ISDIR(about.st_mode):
        state = "is missing" if about is None else f"was replaced by {_kind(about.st_mode)}, which was not followed"
        found.append(f"{format_path(tree.name)} {state}: all its files count as deleted")
        remove_tree(tree)
        tree.mkdir()
    make_accessible(tree)


def remove_planted(path: Path, found: list[str]) -> None:
    if (about := _look(path)) is not None:
        found.append(f"{_kind(about.st_mode)} {format_path(path.name)} was planted, and was removed")
        remove_tree(path)


def clean_artifacts(artifacts: Path, kept: Collection[str], found: list[str]) -> None:
    """Remove what is neither `kept` nor a directory that the harness writes to while the agent runs."""
    planted = []
    with os.scandir(artifacts) as entries:
        for entry in list(entries):
            path, is_directory = Path(entry.path), _is_directory(Path(entry.path))
            if is_directory and (entry.name in {*kept, "hooks"} or entry.name.endswith("-logs")):
                planted += _clean(path, artifacts)
            elif not (entry.name in kept and _is_file(path)):
                planted.append(entry.name)
                remove_tree(path)
    if planted:
        found.append(f"planted in the artifacts, and removed: {list_paths(planted)}")


def strip_set_uid(tree: Path) -> str | None:
    """Remove set-uid and set-gid permissions of files: they let others run a program as the harness's user.

    Returns a description of what was removed, if anything was. A directory whose path is too long, or that belongs to
    another user, is skipped: no one else enters the run directory.
    """
    return _sanitize(tree, git=False)


def sanitize_tree(tree: Path) -> str | None:
    """Do the same for a tree that comes from a container, and make every `.git` in it safe to use.

    Their configuration is replaced, and hooks, links and references to other git directories are removed. Otherwise
    `git status`, even in a shell's prompt, would run the programs that these name, with the user's rights.
    """
    return _sanitize(tree, git=True)


def sanitize_bare_repositories(tree: Path) -> None:
    """Make the bare repositories in a tree safe to use, whatever their names.

    Git takes the current directory for a bare repository, and reads its configuration, if it has these entries. Only
    call this when everything is judged: such files may belong to the task, and be changes or an evaluator's input.
    """
    heads = [path for path, _ in _entries_below(tree) if path.name.lower() == "head"]
    for path in dict.fromkeys(head.parent for head in heads):
        with suppress(FileNotFoundError):  # it was inside another one, and was removed with it
            names = {name.lower() for name in os.listdir(path)}  # noqa: PTH208 - only the names are wanted
            if "commondir" in names or {"objects", "refs"} <= names:
                _sanitize_or_remove(path, path.lstat(), bare=path.name.lower() != ".git")


def _sanitize(tree: Path, *, git: bool) -> str | None:
    stripped = []
    for path, about in _entries_below(tree):
        if git and path.name.lower() == ".git":
            _sanitize_or_remove(path, about)
        elif stat.S_ISREG(about.st_mode) and about.st_mode & _SET_ID:
            with suppress(OSError):
                _strip(path, about)
                stripped.append(str(path.relative_to(tree)))
    return f"set-uid or set-gid permissions were removed: {list_paths(stripped)}" if stripped else None


def _sanitize_or_remove(path: Path, about: os.stat_result, *, bare: bool = False) -> None:
    try:
        _sanitize_git_dir(path, about, bare=bare)
    except (OSError, YouBenchaError):  # it is another user's, or the disk is full
        remove_tree(path)


def _sanitize_git_dir(path: Path, about: os.stat_result, *, bare: bool) -> None:
    if not stat.S_ISDIR(about.st_mode):  # a file or a link that points to another git directory
        path.unlink()
        return
    make_accessible(path)
    for inner, kind in _entries_below(path):
        if not stat.S_ISDIR(kind.st_mode) and not stat.S_ISREG(kind.st_mode):
            inner.unlink()
    if (path / "config").is_dir():
        remove_tree(path / "config")
    reset_config(path, bare=bare)
    for name in _UNSAFE_GIT_ENTRIES:
        remove_tree(path / name)


def _entries_below(tree: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield everything below a directory. Directories are made accessible; those that cannot be read are skipped."""
    waiting = [tree]
    while waiting:
        directory = waiting.pop()
        with suppress(OSError):
            make_accessible(directory)
            with os.scandir(directory) as entries:
                found = [(Path(entry.path), entry.stat(follow_symlinks=False)) for entry in entries]
            yield from found
            waiting += [path for path, about in found if stat.S_ISDIR(about.st_mode)]


def _strip(path: Path, about: os.stat_result) -> None:
    try:
        if about.st_nlink > 1:  # another name of it may be a program of the host: only a copy is changed
            with open_nofollow(path.parent, path.name) as source, replacing(path) as copy:
                FileCopies(path.parent, lambda: None).copy(source, os.fspath(copy))
        path.chmod(stat.S_IMODE(about.st_mode) & ~_SET_ID)
    except OSError:  # it is another user's, or the disk is full
        path.unlink()


def make_accessible(directory: Path) -> None:
    """Give the owner all permissions. `directory` must not be a link, which would be followed."""
    mode = directory.stat().st_mode
    if mode & _RIGHTS != _RIGHTS:
        directory.chmod(stat.S_IMODE(mode) | _RIGHTS)


def _clean(top: Path, artifacts: Path) -> list[str]:
    """Remove links, pipes, sockets and the like, which could lead a reader of logs elsewhere, or block it."""
    removed, waiting = [], [(top, 1)]
    while waiting:
        directory, depth = waiting.pop()
        make_accessible(directory)
        for path in list(directory.iterdir()):
            if _is_directory(path) and depth < _DEEPEST:
                waiting.append((path, depth + 1))
            elif not _is_file(path):
                removed.append(str(path.relative_to(artifacts)))
                remove_tree(path)
    return removed


def _moved_back(directory: Path, made: Identity) -> bool:
    """Move the directory back if it was renamed in its parent directory."""
    if not directory.parent.is_dir():
        return False
    for path in list(directory.parent.iterdir()):
        if _is_directory(path) and identity(path) == made:
            make_accessible(path)
            path.rename(directory)
            return True
    return False


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        make_accessible(path.parent)
        return path.lstat() if os.path.lexists(path) else None


def _is_directory(path: Path) -> bool:
    about = path.lstat()
    return stat.S_ISDIR(about.st_mode) and not getattr(about, "st_reparse_tag", 0)


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link"
    return "a directory" if stat.S_ISDIR(mode) else "a file"
