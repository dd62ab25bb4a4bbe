"""Changes as numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from youbencha.evaluators.result import printable
from youbencha.workspace import FileChange

MOST_LISTED = 1_000
"""An agent that installs packages changes a hundred thousand files; the patch has them all."""


def change_metrics(files: Sequence[FileChange]) -> dict[str, Any]:
    added = sum(file.additions or 0 for file in files)
    removed = sum(file.deletions or 0 for file in files)
    listed = _largest(files)
    return {
        "files_changed": len(files),
        "lines_added": added,
        "lines_removed": removed,
        "total_changes": added + removed,
        "change_entropy": change_entropy(file.changes for file in files),
        "binary_files": sum(file.is_binary for file in files),
        "changed_files": [_as_data(file) for file in listed],
        "changed_files_omitted": len(files) - len(listed),
    }


def change_entropy(changes: Iterable[int]) -> float:
    """How evenly the changed lines are spread over the files, in bits: 0 for one file, log2 N for N alike."""
    counts = [count for count in changes if count > 0]
    if len(counts) < 2:
        return 0.0
    total = sum(counts)
    return -math.fsum(count / total * math.log2(count / total) for count in counts)


def _largest(files: Sequence[FileChange]) -> Sequence[FileChange]:
    """Those with the most changes if there are too many to list, in the order in which they came."""
    if len(files) <= MOST_LISTED:
        return files
    by_size = sorted(range(len(files)), key=lambda index: -files[index].changes)
    return [files[index] for index in sorted(by_size[:MOST_LISTED])]


def _as_data(file: FileChange) -> dict[str, Any]:
    return {
        "path": printable(file.path),
        "additions": file.additions,
        "deletions": file.deletions,
        "changes": file.changes,
        "kind": file.kind,
        "binary": file.is_binary,
    }
