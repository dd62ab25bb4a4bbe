"""Two trees, file by file, and one number for all of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from youbencha.evaluators.expected_diff.files import file_likeness
from youbencha.evaluators.expected_diff.similarity import Method
from youbencha.evaluators.globs import PathFilter
from youbencha.evaluators.leaving_out import LeavingOut
from youbencha.evaluators.result import printable
from youbencha.evaluators.threads import StillWanted
from youbencha.evaluators.tree import TreeFile, files_below

FileStatus = Literal["matched", "changed", "added", "removed"]


@dataclass(frozen=True, slots=True)
class ComparedFile:
    path: str
    status: FileStatus
    """`added`: not in the reference. `removed`: only there."""
    similarity: float
    method: Method = "exact"

    def as_data(self) -> dict[str, Any]:
        return {
            "path": printable(self.path),
            "similarity": rounded_down(self.similarity),
            "status": self.status,
            "method": self.method,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    files: tuple[ComparedFile, ...]
    """The least similar first, then by path."""

    def count(self, status: FileStatus) -> int:
        return sum(file.status == status for file in self.files)

    @property
    def method(self) -> Method:
        """The least exact of all that were used."""
        used = {file.method for file in self.files}
        return next((method for method in _LEAST_EXACT_FIRST if method in used), "exact")

    @property
    def aggregate(self) -> float:
        """The mean over files in both trees, less the share of those in only one. Two empty trees are alike."""
        if not self.files:
            return 1.0
        shared = [file.similarity for file in self.files if file.status in ("matched", "changed")]
        mean = math.fsum(shared) / len(shared) if shared else 0.0
        return min(1.0, max(0.0, mean - (len(self.files) - len(shared)) / len(self.files)))


_LEAST_EXACT_FIRST: tuple[Method, ...] = ("by_lines", "by_bytes")


def compare_trees(
    ours: Path,
    expected: Path,
    counted: PathFilter,
    still_wanted: StillWanted = lambda: None,
    left_out: LeavingOut | None = None,
) -> Comparison:
    here, there = (_by_path(files_below(tree, left_out), counted) for tree in (ours, expected))
    found = []
    for path in here.keys() | there.keys():
        still_wanted()
        found.append(_compared(path, here.get(path), there.get(path)))
    return Comparison(tuple(sorted(found, key=lambda file: (file.similarity, file.path))))


def rounded_down(similarity: float) -> float:
    """Six digits, and never up: what is not identical must not read 1.0, nor what failed like its threshold."""
    return math.floor(similarity * 1e6) / 1e6


def _by_path(files: Iterable[TreeFile], counted: PathFilter) -> dict[str, TreeFile]:
    return {file.path: file for file in files if counted.lets_through(file.path)}


def _compared(path: str, ours: TreeFile | None, expected: TreeFile | None) -> ComparedFile:
    if ours is None:
        return ComparedFile(path, "removed", 0.0)
    if expected is None:
        return ComparedFile(path, "added", 0.0)
    like = file_likeness(ours, expected)
    return ComparedFile(path, "matched" if like.similarity == 1.0 else "changed", like.similarity, like.method)
