"""Determine what changed in a user's directory since a commit, without changing anything there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.workspace.diff import Changes
from youbencha.workspace.git import GitFailed, git, users_settings
from youbencha.workspace.git_dir import make_git_dir
from youbencha.workspace.run_dir import ARTIFACTS
from youbencha.workspace.snapshot import TreeComparison, entries_at
from youbencha.workspace.store import commit_at, common_dir, git_dir_of_tree
from youbencha.workspace.walk import TreeFiles, files_in, ignored_among, keep_rules_of

_ATTRIBUTES = "* !filter !diff\n"
"""Allows line ends to differ from the recorded ones; but no program is run on the files."""

_SETTINGS = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode)$"
_OURS = (b".youbencha-workspace", b".youbencha-eval")
_ANY_FILE = b"any-file"


class Location(NamedTuple):
    """A directory in a working tree."""

    git_dir: Path
    top: Path
    prefix: str
    """Its path relative to the top of the tree, with a slash at the end; empty for the top itself."""


async def changes_in_repository(
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
    objects = common_dir(location.git_dir) / "objects"
    above = await commit_at(location.git_dir, "HEAD") if since and location.prefix else None  # has rules for it, too
    await keep_rules_of(above or commit, git_dir, objects)
    start = await _tree_of(commit, location._replace(prefix="") if since else location, git_dir, objects)
    if start is None:
        return None
    hidden = [*_OURS, *_below(directory, [*left_out, git_dir, _our_root(patch_file.resolve(), directory)])]
    found = await _that_count(
        files_in(directory, is_workspace=False, left_out=hidden), start, location, git_dir, objects
    )
    settings = await users_settings(location.git_dir, _SETTINGS)
    comparison = TreeComparison(directory, git_dir, start, objects=objects, settings=settings, is_workspace=False)
    files, left_out_of_patch, _ = await comparison.run(found, patch_file)
    return Changes(files, patch_file, commit, current_commit=commit, left_out_of_patch=left_out_of_patch)


def locate(directory: Path) -> Location | None:
    """Find the working tree that a resolved directory is in."""
    for top in (directory, *directory.parents):
        if found := git_dir_of_tree(top):
            below = directory.relative_to(top).as_posix()
            return Location(found, top, "" if below == "." else f"{below}/")
    return None


def require_repository(directory: Path) -> Location:
    """Find the working tree that a directory is in. Raises YouBenchaError if there is none."""
    location = locate(Path(os.path.realpath(directory)))
    if location is None:
        raise YouBenchaError(
            "REPO_NOT_FOUND",
            f"{directory} is not in a git repository, which checkpoints and working trees need.",
            hint="Make it one (`git init`), or do without: `event_loop: {checkpoint_interval: 0}` in ralph.yml.",
        )
    return location


async def _tree_of(commit: str, location: Location, git_dir: Path, objects: Path) -> str | None:
    """Return the tree of the directory in HEAD: an empty one if it is new, None if it is ignored."""
    try:
        name = f"{commit}:{location.prefix.rstrip('/')}"
        return (await git(git_dir, "rev-parse", "--verify", "--quiet", name, objects=objects)).decode().strip()
    except GitFailed:
        if await ignored_among(TreeFiles([os.fsencode(location.prefix) + _ANY_FILE]), git_dir):
            return None
        return (await git(git_dir, "write-tree", index=git_dir / "no.index")).decode().strip()


async def _that_count(found: TreeFiles, start: str, location: Location, git_dir: Path, objects: Path) -> TreeFiles:
    ignored = await ignored_among(found, git_dir, os.fsencode(location.prefix))
    if ignored:
        ignored -= (await entries_at(git_dir, start, objects=objects)).keys()
    return found.without(ignored)


def _our_root(patch_file: Path, directory: Path) -> Path:
    """The workspace that contains the patch; only the run, if the workspace contains the directory to compare."""
    if patch_file.parent.name != ARTIFACTS:
        return patch_file
    run = patch_file.parent.parent
    return run if directory.is_relative_to(run.parent) else run.parent


def _below(directory: Path, paths: Sequence[Path]) -> list[bytes]:
    resolved = (path.resolve() for path in paths)
    return [os.fsencode(path.relative_to(directory)) for path in resolved if path.is_relative_to(directory)]
