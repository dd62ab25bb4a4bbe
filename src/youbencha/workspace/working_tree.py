"""A user's own working tree: find it, compare it with a commit without changing it, and make linked ones beside it.

Linked working trees are for loops: `<repository>-worktrees/<id>`, on the branch `ralph/<id>`. They are next to the
repository: inside, tools would find every file twice; in the cache, work could get lost. No hook and no filter of the
repository is run, so files of Git LFS are pointers there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.workspace.changes import Changes, entries_at
from youbencha.workspace.git import ANY_NAME, GitDir, GitFailed, git, make_git_dir, users_settings
from youbencha.workspace.listing import TreeFiles, ignored_at_start, list_files, save_gitignores_at
from youbencha.workspace.mirror import commit_at, common_dir, git_dir_of_tree
from youbencha.workspace.recording import compare_tree
from youbencha.workspace.run_dir import ARTIFACTS
from youbencha.workspace.trees import remove_tree

_ATTRIBUTES = "* !filter !diff\n"
"""Allows line ends to differ from the recorded ones; but no program is run on the files."""

_USERS_SETTINGS = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode)$"
_OURS = (b".youbencha-workspace", b".youbencha-eval")
_ANY_FILE = b"any-file"

_BRANCH = "refs/heads/ralph/"
_PROGRAMS = r"^filter\..*\.(clean|smudge|process|required)$"


class Location(NamedTuple):
    """A directory in a working tree."""

    git_dir: Path
    top: Path
    prefix: str
    """Its path relative to the top of the tree, with a slash at the end; empty for the top itself."""


def locate(directory: Path) -> Location | None:
    """Find the working tree that a resolved directory is in."""
    for top in (directory, *directory.parents):
        if git_dir := git_dir_of_tree(top):
            below = directory.relative_to(top).as_posix()
            return Location(git_dir, top, "" if below == "." else f"{below}/")
    return None


def require_repository(directory: Path) -> Location:
    """Find the working tree that a directory is in. Raises YouBenchaError if there is none."""
    location = locate(Path(os.path.realpath(directory)))
    if location is None:
        raise YouBenchaError(
            "REPO_NOT_FOUND",
            f"{directory} is not in a git repository, which checkpoints and working trees need.",
            hint="Create one with `git init`, or turn checkpoints off in ralph.yml:"
            " `event_loop: {checkpoint_interval: 0}`.",
        )
    return location


async def uncommitted_changes(
    directory: Path, git_dir: Path, patch_file: Path, *, since: str | None = None, left_out: Sequence[Path] = ()
) -> Changes | None:
    """Compare a directory with HEAD, or with `since`, a commit of this directory alone. None if there is nothing to
    compare it with.

    Neither the user's index nor their files are changed; `git_dir` is created. New files that the commit's
    `.gitignore` files ignore do not count, nor do youBencha's workspaces and what is `left_out`.
    """
    directory, git_dir = directory.resolve(), git_dir.resolve()
    location = locate(directory)
    commit = since or await commit_at(location.git_dir, "HEAD") if location else None
    if location is None or commit is None:
        return None
    make_git_dir(git_dir, commit, attributes=_ATTRIBUTES)
    settings = {**ANY_NAME, **await users_settings(location.git_dir, _USERS_SETTINGS)}
    ours = GitDir(git_dir, common_dir(location.git_dir) / "objects", settings)
    above = await commit_at(location.git_dir, "HEAD") if since and location.prefix else None  # has rules for it, too
    await save_gitignores_at(above or commit, ours)
    start = await _start_tree(commit, location._replace(prefix="") if since else location, ours)
    if start is None:
        return None
    hidden = [*_OURS, *_paths_below(directory, [*left_out, git_dir, _our_root(patch_file.resolve(), directory)])]
    files = await _not_ignored(list_files(directory, skip=hidden), start, location, ours)
    changes = await compare_tree(directory, files, ours, start, patch_file)
    return changes._replace(base_commit=commit, current_commit=commit, recorded=None)


async def _start_tree(commit: str, location: Location, git_dir: GitDir) -> str | None:
    """Return the tree of the directory in HEAD: an empty one if it is new, None if it is ignored."""
    try:
        name = f"{commit}:{location.prefix.rstrip('/')}"
        return (await git_dir.git("rev-parse", "--verify", "--quiet", name)).decode().strip()
    except GitFailed:
        if await ignored_at_start(TreeFiles([os.fsencode(location.prefix) + _ANY_FILE]), git_dir.path):
            return None
        return (await git_dir.git("mktree", stdin=b"")).decode().strip()


async def _not_ignored(files: TreeFiles, start: str, location: Location, git_dir: GitDir) -> TreeFiles:
    ignored = await ignored_at_start(files, git_dir.path, os.fsencode(location.prefix))
    if ignored:
        ignored -= (await entries_at(git_dir, start)).keys()
    return files.without(ignored)


def _our_root(patch_file: Path, directory: Path) -> Path:
    """Return the workspace that contains the patch; only the run, if the workspace contains the directory."""
    if patch_file.parent.name != ARTIFACTS:
        return patch_file
    run = patch_file.parent.parent
    return run if directory.is_relative_to(run.parent) else run.parent


def _paths_below(directory: Path, paths: Sequence[Path]) -> list[bytes]:
    resolved = (path.resolve() for path in paths)
    return [os.fsencode(path.relative_to(directory)) for path in resolved if path.is_relative_to(directory)]


# Linked working trees


class Worktree(NamedTuple):
    path: Path
    name: str
    merged: bool
    """Whether all its commits are on the branch of the main working tree."""


async def add_worktree(directory: Path, name: str) -> Path:
    """Make a working tree of HEAD, and return the directory in it that corresponds to `directory`."""
    location = require_repository(directory)
    path = _worktrees_dir(location) / name
    branch = f"ralph/{name}"
    settings = await _settings(location.git_dir)
    try:
        add = ("worktree", "add", "--quiet", "--no-checkout", "-b", branch, str(path), "HEAD")
        await git(location.git_dir, *add, tree=location.top, settings=settings)
    except GitFailed as failed:
        raise YouBenchaError(
            "WORKTREE_FAILED",
            f"Cannot create a working tree for the loop in {path}: {failed.reason}",
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


async def list_worktrees(directory: Path) -> list[Worktree]:
    """List the working trees that were made for loops beside the one in `directory`."""
    location = require_repository(directory)
    parent = _worktrees_dir(location)
    output = await git(
        location.git_dir, "worktree", "list", "--porcelain", "-z", settings=await _settings(location.git_dir)
    )
    worktrees = []
    for record in output.split(b"\0\0"):
        fields = dict(field.partition(b" ")[::2] for field in record.split(b"\0"))
        path = Path(os.fsdecode(fields.get(b"worktree", b"")))
        branch = os.fsdecode(fields.get(b"branch", b""))
        if path.parent == parent and branch == f"{_BRANCH}{path.name}":
            worktrees.append(Worktree(path, path.name, await _is_merged(common_dir(location.git_dir), branch)))
    return worktrees


async def remove_worktree(directory: Path, worktree: Worktree, *, force: bool = False) -> None:
    """Remove a working tree, and its branch if it is merged.

    Raises YouBenchaError if there are uncommitted changes, or unmerged commits; `force` removes
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
    hint = "Commit and merge the changes you want to keep; `--force` removes it in any case."
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


def _worktrees_dir(location: Location) -> Path:
    """Return the parent of linked working trees: next to the main one, even if the loop is in a linked one."""
    common = Path(os.path.realpath(common_dir(location.git_dir)))
    main = common.parent if common.name == ".git" else location.top
    return main.with_name(f"{main.name}-worktrees")
