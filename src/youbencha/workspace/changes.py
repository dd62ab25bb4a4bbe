"""What an agent changed, as data."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

ChangeKind = Literal["added", "modified", "deleted", "type_changed"]


class FileChange(NamedTuple):
    path: str
    """Below the tree, with forward slashes; bytes that are no UTF-8 are surrogate-escaped."""
    kind: ChangeKind
    additions: int | None
    """Lines. None for a binary file, which has none."""
    deletions: int | None

    @property
    def is_binary(self) -> bool:
        return self.additions is None

    @property
    def changes(self) -> int:
        return (self.additions or 0) + (self.deletions or 0)


class Changes(NamedTuple):
    """The difference between how a tree was and how it is now."""

    files: tuple[FileChange, ...]
    """In the order of their paths."""
    patch_file: Path
    """The same as a patch that `git apply` takes: binary files and modes included."""
    base_commit: str | None
    """The commit that the agent started from; None where there was none."""
    current_commit: str | None
    """What the agent's own HEAD names now, if it still has one: it need not be where its files are."""
