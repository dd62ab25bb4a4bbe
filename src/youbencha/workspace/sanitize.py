"""Make a tree that an agent left safe to keep on this machine, above all one that comes from a container.

No link is followed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.files import is_directory, open_nofollow, replacing
from youbencha.text import list_paths
from youbencha.workspace.git import reset_config
from youbencha.workspace.trees import FileCopies, remove_tree, walk_accessible

_UNSAFE_GIT_ENTRIES = (
    "hooks", "config.worktree", "commondir", "modules", "worktrees", "objects/info/alternates",
    "rebase-merge", "rebase-apply", "sequencer",
)  # fmt: skip
"""Entries of a git directory that name other git directories, or programs (`git rebase --continue` runs some, too)."""

_SET_ID = stat.S_ISUID | stat.S_ISGID


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
    heads = [Path(entry.path) for entry in walk_accessible(tree) if entry.name.lower() == "head"]
    for path in dict.fromkeys(head.parent for head in heads):
        with suppress(FileNotFoundError):  # it was inside another one, and was removed with it
            names = {name.lower() for name in os.listdir(path)}  # noqa: PTH208 - only the names are wanted
            if "commondir" in names or {"objects", "refs"} <= names:
                _sanitize_or_remove(path, path.lstat(), bare=path.name.lower() != ".git")


def _sanitize(tree: Path, *, git: bool) -> str | None:
    stripped = []
    for entry in walk_accessible(tree):
        with suppress(OSError):
            path, info = Path(entry.path), entry.stat(follow_symlinks=False)
            if git and entry.name.lower() == ".git":
                _sanitize_or_remove(path, info)
            elif stat.S_ISREG(info.st_mode) and info.st_mode & _SET_ID:
                _strip(path, info)
                stripped.append(str(path.relative_to(tree)))
    return f"set-uid or set-gid permissions were removed: {list_paths(stripped)}" if stripped else None


def _sanitize_or_remove(path: Path, info: os.stat_result, *, bare: bool = False) -> None:
    try:
        _sanitize_git_dir(path, info, bare=bare)
    except (OSError, YouBenchaError):  # it is another user's, or the disk is full
        remove_tree(path)


def _sanitize_git_dir(path: Path, info: os.stat_result, *, bare: bool) -> None:
    if not stat.S_ISDIR(info.st_mode):  # a file or a link that points to another git directory
        path.unlink()
        return
    for entry in walk_accessible(path):
        if not is_directory(entry) and not entry.is_file(follow_symlinks=False):
            Path(entry.path).unlink()
    if (path / "config").is_dir():
        remove_tree(path / "config")
    reset_config(path, bare=bare)
    for name in _UNSAFE_GIT_ENTRIES:
        remove_tree(path / name)


def _strip(path: Path, info: os.stat_result) -> None:
    try:
        if info.st_nlink > 1:  # another name of it may be a program of the host: only a copy is changed
            with open_nofollow(path.parent, path.name) as source, replacing(path) as copy:
                FileCopies(path.parent, lambda: None).copy(source, os.fspath(copy))
        path.chmod(stat.S_IMODE(info.st_mode) & ~_SET_ID)
    except OSError:  # it is another user's, or the disk is full
        path.unlink()
