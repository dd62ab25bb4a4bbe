"""Determine what an agent changed, with a separate git directory outside its workspace.

The agent's own `.git` is not used: it may have committed, rewritten history, or put commands into its configuration
(filters, hooks, monitors) that would then run on this machine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

from youbencha.workspace.diff import (
    DIFF_OPTIONS,
    Changes,
    Entries,
    Entry,
    FileChange,
    StoredTree,
    changes_of,
    entries_of,
    large_among,
    read_difference,
)
from youbencha.workspace.git import ONLY_RECORDED, GitFailed, git
from youbencha.workspace.git_dir import current_commit, make_git_dir
from youbencha.workspace.walk import TreeFiles, files_in, ignored_among, keep_rules, open_up_to


class Snapshot(NamedTuple):
    """The state of `tree` at one time.

    New files that are ignored by the `.gitignore` files of that time do not count, as with `git add --all`, and neither
    do new files in caches of tools.
    """

    tree: Path
    git_dir: Path
    start: str
    """The id of that state: a commit or a tree."""
    base_commit: str | None = None
    """The commit that was checked out."""
    apart: Entries = MappingProxyType({})
    """Files at the start that are too large for git."""

    @classmethod
    async def take(cls, tree: Path, git_dir: Path) -> Self:
        """Take a snapshot of a directory. `git_dir` must not exist."""
        make_git_dir(git_dir)
        return await cls(tree.absolute(), git_dir.absolute(), start="").retake()

    async def retake(self) -> Self:
        """Take a snapshot of the current state, so that earlier changes do not count as the agent's.

        Reads and hashes every file.
        """
        found = await self._found()
        keep_rules(self.tree, found.files, self.git_dir)
        async with indexed(self.tree, self.git_dir, found.files) as index:
            start = (await git(self.git_dir, "write-tree", index=index.file)).decode().strip()
        return self._replace(start=start, apart=await entries_of(self.tree, index.large, found.too_deep, start))

    async def changes(self, patch_file: Path) -> Changes:
        """Return all changes, whatever was committed, and write the patch to `patch_file`.

        If the tree is missing or a link, everything was deleted. Anything inside a `.git` is ignored.
        """
        comparison = TreeComparison(self.tree, self.git_dir, self.start, self.apart)
        files, left_out, tree = await comparison.run(await self._found(), patch_file)
        return Changes(
            files,
            patch_file,
            self.base_commit,
            current_commit=current_commit(self.tree),
            left_out_of_patch=left_out,
            recorded=StoredTree(self.git_dir, tree) if tree else None,
        )

    async def _found(self) -> TreeFiles:
        """Return the files of the tree that count. Before the first snapshot, all of them do."""
        found = files_in(self.tree)
        ignored = await ignored_among(found, self.git_dir) if self.start else set()
        if ignored:
            ignored -= self.apart.keys() | (await entries_at(self.git_dir, self.start)).keys()
        return found.without(ignored)


class TreeDifference(NamedTuple):
    files: tuple[FileChange, ...]
    """All changes, sorted by path."""
    left_out_of_patch: tuple[str, ...]
    tree: str | None
    """The id of the tree with the changes that are in the patch. None for a user's directory."""


class TreeComparison(NamedTuple):
    """Compares a tree with a recorded state. Files that are too large for git are compared separately."""

    tree: Path
    git_dir: Path
    start: str
    """A commit or a tree."""
    apart: Entries = MappingProxyType({})
    """Files at the start that are too large for git."""
    objects: Path | None = None
    """An additional object store to read from."""
    settings: Mapping[str, str] | None = None
    is_workspace: bool = True
    """Whether the tree is a run's workspace, in which unreadable files may be made readable, not a user's directory."""

    async def run(self, found: TreeFiles, patch_file: Path) -> TreeDifference:
        """Write the patch to `patch_file`, and return what was found."""
        too_large = self.apart.keys() & set(found.files) if self.apart else set()
        paths = found.without(too_large).files
        async with indexed(
            self.tree, self.git_dir, paths, objects=self.objects, settings=self.settings, is_workspace=self.is_workspace
        ) as index:
            before = await self._at_start(index.large)
            await _put(self.git_dir, index.file, before)  # unchanged, so that git finds no difference in them
            files = await _differences(self.git_dir, self.start, index.file, patch_file, objects=self.objects)
            tree = (await git(self.git_dir, "write-tree", index=index.file)).decode() if self.is_workspace else ""
        then = {**self.apart, **before}
        now = await entries_of(
            self.tree, too_large | index.large, found.too_deep, self.start, known=then, is_workspace=self.is_workspace
        )
        not_in_patch = changes_of(then, now)
        left_out = tuple(change.path for change in _in_order(*not_in_patch))
        return TreeDifference(_in_order(*files, *not_in_patch), left_out, tree.strip() or None)

    async def _at_start(self, paths: Collection[bytes]) -> dict[bytes, Entry]:
        if not paths:
            return {}
        entries = await entries_at(self.git_dir, self.start, objects=self.objects)
        return {path: entries[path] for path in paths if path in entries}


def _in_order(*changes: FileChange) -> tuple[FileChange, ...]:
    return tuple(sorted(changes, key=lambda change: os.fsencode(change.path)))


async def entries_at(git_dir: Path, start: str, *, objects: Path | None = None) -> dict[bytes, Entry]:
    """Return all files of a commit or a tree."""
    output = await git(git_dir, "ls-tree", "-r", "-z", "--full-tree", start, objects=objects)
    lines = (line.partition(b"\t") for line in output.split(b"\0") if line)
    entries = ((path, entry.decode().split(" ")) for entry, _, path in lines)
    return {path: Entry(mode, name) for path, (mode, _, name) in entries}


class Index(NamedTuple):
    file: Path
    large: frozenset[bytes]
    """Files that are too large to be in it."""


@asynccontextmanager
async def indexed(
    tree: Path,
    git_dir: Path,
    paths: Collection[bytes],
    *,
    objects: Path | None = None,
    settings: Mapping[str, str] | None = None,
    is_workspace: bool = True,
) -> AsyncIterator[Index]:
    """Make an index of all files, not only of those whose times have changed: programs can set times."""

    large = large_among(tree, paths, is_workspace=is_workspace)
    names = b"".join(path + b"\0" for path in paths if path not in large)

    async def record(index: Path) -> None:
        arguments = ("update-index", "--add", "--remove", "-z", "--stdin")
        options = {**ONLY_RECORDED, **(settings or {})}
        if names:
            await git(git_dir, *arguments, tree=tree, index=index, stdin=names, objects=objects, settings=options)

    index = _new_file(git_dir, "index")
    try:
        try:
            await record(index)
        except GitFailed:
            if not is_workspace:
                raise
            _make_readable(tree, paths)
            index = _new_file(git_dir, "index")  # the lock of the other may still exist
            await record(index)
        yield Index(index, large)
    finally:
        index.unlink(missing_ok=True)


async def _put(git_dir: Path, index: Path, entries: Entries) -> None:
    if entries:
        lines = (f"{entry.mode} {entry.id} 0\t".encode() + path + b"\0" for path, entry in entries.items())
        known = b"".join(lines)
        await git(git_dir, "update-index", "-z", "--index-info", index=index, stdin=known, settings=ONLY_RECORDED)


async def _differences(
    git_dir: Path, start: str, index: Path, patch_file: Path, *, objects: Path | None = None
) -> tuple[FileChange, ...]:
    """Compare the start with the index. The output goes through a file, because the output of `git` is in memory."""
    answer = _new_file(git_dir, "answer")
    try:
        await git(
            git_dir, "diff-index", "--cached", *DIFF_OPTIONS, f"--output={answer}", start, index=index, objects=objects
        )
        return read_difference(answer, patch_file)
    finally:
        answer.unlink(missing_ok=True)


def _new_file(git_dir: Path, what: str) -> Path:
    """Return a new name: a killed git leaves its lock next to the file."""
    return git_dir / f"{what}-{os.urandom(4).hex()}"


def _make_readable(tree: Path, paths: Collection[bytes]) -> None:
    """Make files readable for their owner: an agent's tests may leave unreadable files."""
    top = os.fsencode(tree)
    for path in paths:
        file = top + b"/" + path
        try:
            mode = os.lstat(file).st_mode
        except PermissionError:
            open_up_to(top, path.rpartition(b"/")[0])
            mode = os.lstat(file).st_mode
        if stat.S_ISREG(mode) and not mode & stat.S_IRUSR:
            os.chmod(file, stat.S_IMODE(mode) | stat.S_IRUSR)  # noqa: PTH101 - names need not be text
