"""What changed in a directory of the user's own since its last commit, without touching anything of theirs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.workspace.changes import Changes
from youbencha.workspace.git import GitFailed, git, users_settings
from youbencha.workspace.git_dir import make_git_dir
from youbencha.workspace.ignored import ignored_among, keep_rules_of
from youbencha.workspace.layout import PRIVATE
from youbencha.workspace.local import common_dir, git_dir_of_tree
from youbencha.workspace.objects import commit_at
from youbencha.workspace.snapshot import differences, indexed, paths_at
from youbencha.workspace.walk import files_in

_ATTRIBUTES = "* !filter !diff\n"
"""The user's files may be written with other line ends than are recorded; but no program is run on them."""
_SETTINGS = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode)$"
_OURS = (b".youbencha-workspace", b".youbencha-eval")
_ANY_FILE = b"any-file"


class _Place(NamedTuple):
    """A directory in a working tree."""

    git_dir: Path
    prefix: str
    """Of the directory below the top of the tree, with its slash; empty for the top itself."""


async def changes_in_repository(
    directory: Path, git_dir: Path, patch_file: Path, *, left_out: Sequence[Path] = ()
) -> Changes | None:
    """A directory compared with what HEAD holds of it. None if there is nothing to compare it with.

    Neither index nor files of the user are touched; `git_dir` is a new one of our own. New files that the commit's
    own `.gitignore` files ignore do not count; nor do workspaces of ours, and what is `left_out`.
    """
    directory, git_dir = directory.resolve(), git_dir.resolve()
    place = _find(directory)
    commit = await commit_at(place.git_dir, "HEAD") if place else None
    if place is None or commit is None:
        return None
    make_git_dir(git_dir, commit, attributes=_ATTRIBUTES)
    objects = common_dir(place.git_dir) / "objects"
    await keep_rules_of(commit, git_dir, objects)
    start = await _tree_of(commit, place, git_dir, objects)
    if start is None:
        return None
    hidden = [*_OURS, *_below(directory, [*left_out, _our_root(git_dir, directory)])]
    paths = await _that_count(files_in(directory, ours=False, left_out=hidden), start, place, git_dir, objects)
    settings = await users_settings(place.git_dir, _SETTINGS)
    async with indexed(directory, git_dir, paths, objects=objects, settings=settings, ours=False) as index:
        files = await differences(git_dir, start, index, patch_file, objects=objects)
    return Changes(files, patch_file, base_commit=commit, current_commit=commit)


def _find(directory: Path) -> _Place | None:
    for top in (directory, *directory.parents):
        if found := git_dir_of_tree(top):
            below = directory.relative_to(top).as_posix()
            return _Place(found, "" if below == "." else f"{below}/")
    return None


async def _tree_of(commit: str, place: _Place, git_dir: Path, objects: Path) -> str | None:
    """What HEAD holds of the directory. If that is nothing, and the directory is ignored, git knows nothing of it."""
    try:
        name = f"{commit}:{place.prefix.rstrip('/')}"
        return (await git(git_dir, "rev-parse", "--verify", "--quiet", name, objects=objects)).decode().strip()
    except GitFailed:
        if await ignored_among([os.fsencode(place.prefix) + _ANY_FILE], git_dir):
            return None
        return (await git(git_dir, "write-tree", index=git_dir / "no.index")).decode().strip()


async def _that_count(paths: list[bytes], start: str, place: _Place, git_dir: Path, objects: Path) -> list[bytes]:
    prefix = os.fsencode(place.prefix)
    ignored = {path[len(prefix) :] for path in await ignored_among([prefix + path for path in paths], git_dir)}
    if ignored:
        ignored -= await paths_at(git_dir, start, objects=objects)
    return [path for path in paths if path not in ignored]


def _our_root(git_dir: Path, directory: Path) -> Path:
    """The directory of all runs that `git_dir` is in; the run itself where that is the very directory to look at."""
    if git_dir.parent.name != PRIVATE:
        return git_dir
    run = git_dir.parent.parent
    return run if directory.is_relative_to(run.parent) else run.parent


def _below(directory: Path, paths: Sequence[Path]) -> list[bytes]:
    resolved = (path.resolve() for path in paths)
    return [os.fsencode(path.relative_to(directory)) for path in resolved if path.is_relative_to(directory)]
