"""Writes the tree of a commit, with nothing around it that an agent could learn from, or that could run.

Files are the very bytes that the repository holds: no filter, no conversion, no large file from elsewhere.
Directories of submodules stay empty.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.workspace.git import GitFailed, git
from youbencha.workspace.git_dir import make_agents_git_dir, scratch_git_dir
from youbencha.workspace.layout import not_writable
from youbencha.workspace.removal import remove_tree

_SUBMODULE = 0o160000
_ENOUGH = 65536
_REFUSED = r"(?i)invalid path|malformed"
_NO_ROOM = (
    r"(?i)unable to (write|create|append)|cannot (create|write|mkdir)|could not write|write error"
    r"|No space left|File too large|Disk quota|Read-only file system"
)


async def check_out(objects: Path, commit: str, branch: str, directory: Path) -> None:
    """A repository of that one commit in `directory`: no remotes, no other refs, no objects but its own.

    What was there before is removed.
    """
    _make_fresh(directory)
    agents = directory / ".git"
    keeps = make_agents_git_dir(agents, commit, branch)
    index = agents / "index"
    links = {} if keeps.links else {"core.symlinks": "false"}
    with scratch_git_dir(directory, commit) as scratch:
        writing = git(
            scratch, "read-tree", "-u", "--reset", commit, tree=directory, index=index, objects=objects, settings=links
        )
        # Without its parents (`--shallow`), so that no object of theirs comes along; and deltas only as they are.
        packing = git(
            scratch,
            *("pack-objects", "--revs", "--quiet", "--window=0", "--compression=1", "--delta-base-offset"),
            str(agents / "objects" / "pack" / "pack"),
            objects=objects,
            stdin=f"--shallow {commit}\n{commit}\n".encode(),
        )
        try:
            await _both(writing, packing)
        except GitFailed as failed:
            raise _told(failed, commit, directory) from failed


async def write_tree(objects: Path, commit: str, directory: Path) -> None:
    """The files alone, in place of whatever was there."""
    _make_fresh(directory)
    with scratch_git_dir(directory, commit) as scratch:
        try:
            how = ("read-tree", "-u", "--reset", commit)
            await git(scratch, *how, tree=directory, index=scratch / "index", objects=objects)
        except GitFailed as failed:
            raise _told(failed, commit, directory) from failed


def _make_fresh(directory: Path) -> None:
    """Never into something that is there, least of all by way of a link."""
    if os.path.lexists(directory):
        remove_tree(directory)
    directory.mkdir(parents=True)


async def _both(first: Coroutine[Any, Any, bytes], second: Coroutine[Any, Any, bytes]) -> None:
    """At the same time. If one fails or we are cancelled, the other is ended too."""
    tasks = [asyncio.ensure_future(first), asyncio.ensure_future(second)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _told(failed: GitFailed, commit: str, directory: Path) -> YouBenchaError:
    """What git says about the place it writes to, or about names that it will not write: `.git/config`, say."""
    if re.search(_NO_ROOM, failed.reason):
        return not_writable(directory, failed.reason)
    if re.search(_REFUSED, failed.reason):
        return YouBenchaError(
            "REPO_HOSTILE",
            f"git refuses to write the files of commit {commit[:12]}: {failed.reason}",
            hint="Its tree holds names that would be dangerous on this machine.",
        )
    return failed


async def submodules_in(directory: Path) -> list[str]:
    """Right after `check_out`: the paths of submodules. Only where one may be, git is asked."""
    agents = directory / ".git"
    index = agents / "index"
    if not index.exists() or _SUBMODULE.to_bytes(4, "big") not in index.read_bytes():
        return []
    listed = await git(agents, "ls-files", "--stage", "-z", tree=directory)
    entries = (entry.partition(b"\t") for entry in listed.split(b"\0"))
    return [os.fsdecode(path) for about, _, path in entries if about.startswith(b"%o " % _SUBMODULE)]


def uses_large_files(directory: Path) -> bool:
    """Whether the repository keeps files elsewhere, so that only pointers to them are here."""
    try:
        with (directory / ".gitattributes").open("rb") as file:
            return b"filter=lfs" in file.read(_ENOUGH)
    except OSError:
        return False
