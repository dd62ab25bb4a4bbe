"""Checkpoints of a user's working tree, as commits on private refs.

The user's branch, index, stash and files are never touched; no program that the repository names is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

REFS = "refs/youbencha/loops"


class Checkpoint(NamedTuple):
    number: int
    commit: str
    files_changed: int
    """Compared with the checkpoint before it."""


class Checkpoints:
    """The checkpoints of one loop: `refs/youbencha/loops/<loop>/<number>`. Number 0 is the tree before the loop."""

    @classmethod
    async def open(cls, tree: Path, loop_id: str) -> Self:
        """Open those of a loop. Raises YouBenchaError if the directory is not in a git repository."""
        raise NotImplementedError

    async def take(self, number: int, message: str) -> Checkpoint:
        """Record the tree, ignored files excluded. If nothing has changed, it is the commit before."""
        raise NotImplementedError

    async def diff(self, since: int, until: int | None = None) -> str:
        """The patch between two checkpoints; `until` None: the tree as it is now."""
        raise NotImplementedError

    async def restore(self, number: int) -> tuple[str, ...]:
        """Make the files as they were; first take a checkpoint of how they are. Returns the changed paths."""
        raise NotImplementedError

    async def list(self) -> list[Checkpoint]:
        raise NotImplementedError
