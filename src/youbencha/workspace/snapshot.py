"""What an agent changed, told by a git directory of our own beside its workspace.

The agent's own `.git` is never asked: it may have committed, rewritten history, or put commands into its
configuration (filters, hooks, monitors) that would then run on this machine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Self

from youbencha.workspace.changes import Changes, FileChange
from youbencha.workspace.difference import HOW, read_difference
from youbencha.workspace.git import ONLY_RECORDED, GitFailed, git
from youbencha.workspace.git_dir import make_git_dir
from youbencha.workspace.head import current_commit
from youbencha.workspace.ignored import ignored_among, keep_rules
from youbencha.workspace.walk import files_in


class Snapshot(NamedTuple):
    """The state of `tree` at one moment.

    New files that the `.gitignore` files of that moment ignore do not count, as with `git add --all`; with
    `ignored` they do.
    """

    tree: Path
    git_dir: Path
    start: str
    """What git calls that state: a commit or a tree."""
    base_commit: str | None = None
    """Where the tree was checked out from."""
    ignored: bool = False

    @classmethod
    async def take(cls, tree: Path, git_dir: Path, *, base_commit: str | None = None, ignored: bool = False) -> Self:
        """Of a directory as it is: all of it is the start. Reads and hashes every file."""
        tree, git_dir = tree.absolute(), git_dir.absolute()
        make_git_dir(git_dir, base_commit)
        paths = files_in(tree)
        keep_rules(tree, paths, git_dir)
        start = await _recorded(tree, git_dir, paths)
        return cls(tree, git_dir, start, base_commit, ignored)

    async def retake(self) -> Self:
        """The state now, for what was done to the tree before the agent: that is then not the agent's."""
        paths = await self._paths()
        keep_rules(self.tree, paths, self.git_dir)
        return self._replace(start=await _recorded(self.tree, self.git_dir, paths))

    async def changes(self, patch_file: Path) -> Changes:
        """Everything that is different now, whatever was committed; the patch is written to `patch_file`."""
        async with indexed(self.tree, self.git_dir, await self._paths()) as index:
            files = await differences(self.git_dir, self.start, index, patch_file)
        return Changes(files, patch_file, base_commit=self.base_commit, current_commit=current_commit(self.tree))

    async def diff(self) -> bytes:
        """The patch alone."""
        return (await self.changes(self.git_dir / "diff.patch")).patch_file.read_bytes()

    async def _paths(self) -> list[bytes]:
        """The files of the tree that count."""
        paths = files_in(self.tree)
        ignored = set() if self.ignored else await ignored_among(paths, self.git_dir)
        if ignored:
            ignored -= await paths_at(self.git_dir, self.start)
        return [path for path in paths if path not in ignored] if ignored else paths


async def paths_at(git_dir: Path, start: str, *, objects: Path | None = None) -> set[bytes]:
    output = await git(git_dir, "ls-tree", "-r", "-z", "--name-only", "--full-tree", start, objects=objects)
    return set(output.split(b"\0"))


@asynccontextmanager
async def indexed(
    tree: Path,
    git_dir: Path,
    paths: Collection[bytes],
    *,
    objects: Path | None = None,
    settings: Mapping[str, str] | None = None,
    ours: bool = True,
) -> AsyncIterator[Path]:
    """An index of every file anew, not only of those whose times have changed: times can be set."""
    index = _new_file(git_dir, "index")
    names = b"".join(path + b"\0" for path in paths)
    about = {**ONLY_RECORDED, **(settings or {})}

    async def record() -> None:
        how = ("update-index", "--add", "--remove", "-z", "--stdin")
        await git(git_dir, *how, tree=tree, index=index, stdin=names, objects=objects, settings=about)

    try:
        if paths:
            try:
                await record()
            except GitFailed:
                if not ours or not _make_readable(tree, paths):
                    raise
                await record()
        yield index
    finally:
        index.unlink(missing_ok=True)


async def differences(
    git_dir: Path, start: str, index: Path, patch_file: Path, *, objects: Path | None = None
) -> tuple[FileChange, ...]:
    """Between the start and the index. By way of a file: what a process writes is kept in memory."""
    answer = _new_file(git_dir, "answer")
    try:
        await git(git_dir, "diff-index", "--cached", *HOW, f"--output={answer}", start, index=index, objects=objects)
        return read_difference(answer, patch_file)
    finally:
        answer.unlink(missing_ok=True)


async def _recorded(tree: Path, git_dir: Path, paths: Collection[bytes]) -> str:
    async with indexed(tree, git_dir, paths) as index:
        return (await git(git_dir, "write-tree", index=index)).decode().strip()


def _new_file(git_dir: Path, what: str) -> Path:
    """One that nobody else has: a git that was killed leaves its lock beside it."""
    return git_dir / f"{what}-{os.urandom(4).hex()}"


def _make_readable(tree: Path, paths: Collection[bytes]) -> bool:
    """Whether there was any file that its owner could not read: agents leave such in tests of theirs."""
    changed = False
    for path in paths:
        file = os.fsencode(tree) + b"/" + path
        mode = os.lstat(file).st_mode
        if stat.S_ISREG(mode) and not mode & stat.S_IRUSR:
            os.chmod(file, stat.S_IMODE(mode) | stat.S_IRUSR)  # noqa: PTH101 - names need not be text
            changed = True
    return changed
