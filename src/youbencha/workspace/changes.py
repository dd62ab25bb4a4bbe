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
    """Lines. None for a binary file, which has none, and for one that is too large to be read."""
    deletions: int | None

    @property
    def is_binary(self) -> bool:
        return self.additions is None

    @property
    def changes(self) -> int:
        return (self.additions or 0) + (self.deletions or 0)


class Changes(NamedTuple):
    """The difference between how a tree was and how it is now. What lies inside any `.git` is not looked at."""

    files: tuple[FileChange, ...]
    """In the order of their paths."""
    patch_file: Path
    """The same as a patch that `git apply` takes: binary files and modes included, but for what is left out of it."""
    base_commit: str | None
    """The commit that the agent started from; None where there was none."""
    current_commit: str | None
    """What the agent's own HEAD names now, if it still has one: it need not be where its files are."""
    left_out_of_patch: tuple[str, ...] = ()
    """Paths of changed files that are too large for a patch, and of what lies deeper than paths can be long. They are
    among the files, as binary ones."""
