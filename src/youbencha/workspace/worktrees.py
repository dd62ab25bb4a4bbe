"""Linked working trees for loops beside another one: `<repository>-worktrees/<id>`, on the branch `ralph/<id>`.

They are next to the repository: inside, tools would find every file twice; in the cache, work could get lost. No hook
and no filter of the repository is run, so files of Git LFS are pointers there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.workspace.git import GitFailed, git
from youbencha.workspace.store import common_dir
from youbencha.workspace.trees import remove_tree
from youbencha.workspace.working_tree import Location, locate, require_repository

_BRANCH = "refs/heads/ralph/"
_PROGRAMS = r"^filter\..*\.(clean|smudge|process|required)$"


class Worktree(NamedTuple):
    path: Path
    name: str
    merged: bool
    """Whether all its commits are on the branch of the main working tree."""


async def add_worktree(directory: Path, name: str) -> Path:
    """Make a working tree of HEAD, and return the directory in it that corresponds to `directory`."""
    location = require_repository(directory)
    path = _parent(location) / name
    branch = f"ralph/{name}"
    settings = await _settings(location.git_dir)
    try:
        add = ("worktree", "add", "--quiet", "--no-checkout", "-b", branch, str(path), "HEAD")
        await git(location.git_dir, *add, tree=location.top, settings=settings)
    except GitFailed as failed:
        raise YouBenchaError(
            "WORKTREE_FAILED",
            f"A working tree for the loop could not be made in {path}: {failed.reason}",
            hint="The repository needs at least one commit, and its parent directory must be writable.",
        ) from failed
    made = locate(path)
    assert made is not None
    try:
        await git(made.git_dir, "read-tree", "--reset", "-u", "HEAD", tree=path, settings=settings)
    except BaseException:
        remove_tree(path)
        await git(location.git_dir, "worktree", "prune", settings=settings)
        raise
    return path / location.prefix


async def worktrees_of(directory: Path) -> list[Worktree]:
    """The working trees that were made for loops beside the one in `directory`."""
    location = require_repository(directory)
    parent = _parent(location)
    output = await git(
        location.git_dir, "worktree", "list", "--porcelain", "-z", settings=await _settings(location.git_dir)
    )
    found = []
    for record in output.split(b"\0\0"):
        fields = dict(field.partition(b" ")[::2] for field in record.split(b"\0"))
        path = Path(os.fsdecode(fields.get(b"worktree", b"")))
        branch = os.fsdecode(fields.get(b"branch", b""))
        if path.parent == parent and branch == f"{_BRANCH}{path.name}":
            found.append(Worktree(path, path.name, await _is_merged(common_dir(location.git_dir), branch)))
    return found


async def remove_worktree(directory: Path, worktree: Worktree, *, force: bool = False) -> None:
    """Remove a working tree, and its branch if it is merged.

    Raises YouBenchaError if there are changes that are not committed, or commits that are not merged; `force` removes
    the files nevertheless, but keeps such a branch.
    """
    git_dir = require_repository(directory).git_dir
    if not worktree.merged and not force:
        raise _not_removed(worktree, f"its branch ralph/{worktree.name} is not merged")
    settings = await _settings(git_dir)
    try:
        await git(git_dir, "worktree", "remove", *(["--force"] if force else []), str(worktree.path), settings=settings)
    except GitFailed as failed:
        raise _not_removed(worktree, failed.reason) from failed
    if worktree.merged:
        await git(git_dir, "update-ref", "-d", f"{_BRANCH}{worktree.name}", settings=settings)


def _not_removed(worktree: Worktree, why: str) -> YouBenchaError:
    hint = "Commit and merge what you want to keep; `--force` removes it in any case."
    return YouBenchaError("WORKTREE_IN_USE", f"{worktree.path} was not removed: {why}", hint=hint)


async def _is_merged(git_dir: Path, branch: str) -> bool:
    try:
        await git(git_dir, "merge-base", "--is-ancestor", branch, "HEAD")
    except GitFailed:
        return False
    return True


async def _settings(git_dir: Path) -> Mapping[str, str]:
    """Turn off every filter that the repository's configuration names."""
    try:
        names = await git(git_dir, "config", "--name-only", "-z", "--get-regexp", _PROGRAMS)
    except GitFailed:  # there are none
        return {}
    filters = (os.fsdecode(name) for name in names.split(b"\0") if name)
    return {name: "false" if name.endswith(".required") else "" for name in filters}


def _parent(location: Location) -> Path:
    """Next to the main working tree, even if the loop is in a linked one."""
    common = Path(os.path.realpath(common_dir(location.git_dir)))
    main = common.parent if common.name == ".git" else location.top
    return main.with_name(f"{main.name}-worktrees")
