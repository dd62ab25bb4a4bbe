"""What an agent changed, told by a git directory of our own beside its workspace.

The agent's own `.git` is never asked: it may have committed, rewritten history, or put commands into its
configuration (filters, hooks, monitors) that would then run on this machine.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

from youbencha.workspace.changes import Changes
from youbencha.workspace.comparison import Comparison, entries_at, indexed
from youbencha.workspace.git import git
from youbencha.workspace.git_dir import make_git_dir
from youbencha.workspace.head import current_commit
from youbencha.workspace.ignored import ignored_among, keep_rules
from youbencha.workspace.large import Entries, entries_of
from youbencha.workspace.walk import Found, files_in


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
    apart: Entries = MappingProxyType({})
    """What was there at the start, but not in what git holds of it: it is too large."""

    @classmethod
    async def take(cls, tree: Path, git_dir: Path, *, base_commit: str | None = None, ignored: bool = False) -> Self:
        """Of a directory as it is: all of it is the start. Reads and hashes every file."""
        tree, git_dir = tree.absolute(), git_dir.absolute()
        make_git_dir(git_dir, base_commit)
        found = files_in(tree)
        keep_rules(tree, found.files, git_dir)
        start, apart = await _recorded(tree, git_dir, found)
        return cls(tree, git_dir, start, base_commit, ignored, apart)

    async def retake(self) -> Self:
        """The state now, for what was done to the tree before the agent: that is then not the agent's."""
        found = await self._found()
        keep_rules(self.tree, found.files, self.git_dir)
        start, apart = await _recorded(self.tree, self.git_dir, found)
        return self._replace(start=start, apart=apart)

    async def changes(self, patch_file: Path) -> Changes:
        """Everything that is different now, whatever was committed; the patch is written to `patch_file`.

        If the tree is gone, or is a link now, everything was deleted. What lies inside any `.git` is not looked at.
        """
        comparison = Comparison(self.tree, self.git_dir, self.start, self.apart)
        files, left_out = await comparison.run(await self._found(), patch_file)
        current = current_commit(self.tree)
        return Changes(files, patch_file, self.base_commit, current_commit=current, left_out_of_patch=left_out)

    async def diff(self) -> bytes:
        """The patch alone."""
        return (await self.changes(self.git_dir / "diff.patch")).patch_file.read_bytes()

    async def _found(self) -> Found:
        """The files of the tree that count."""
        found = files_in(self.tree)
        ignored = set() if self.ignored else await ignored_among(found, self.git_dir)
        if ignored:
            ignored -= self.apart.keys() | (await entries_at(self.git_dir, self.start)).keys()
        return found.without(ignored)


async def _recorded(tree: Path, git_dir: Path, found: Found) -> tuple[str, Entries]:
    async with indexed(tree, git_dir, found.files) as index:
        start = (await git(git_dir, "write-tree", index=index.file)).decode().strip()
    return start, await entries_of(tree, index.large, found.too_deep, start)
