"""How alike two files are. No link is followed, and no file is read that would fill the memory."""

from __future__ import annotations

from pathlib import Path

from youbencha.evaluators.expected_diff.similarity import Likeness, likeness
from youbencha.evaluators.tree import TreeFile

LARGEST_MEASURED = 16 * 1024 * 1024
"""Larger files are identical or not: to measure them would take ten seconds each, and hundreds of megabytes."""
_CHUNK = 1024 * 1024


def file_likeness(ours: TreeFile, expected: TreeFile) -> Likeness:
    """A link is compared by where it points to; with a file it has nothing in common."""
    if ours.is_link != expected.is_link:
        return Likeness(0.0, "exact")
    try:
        if ours.is_link:
            return likeness(str(Path(ours.place).readlink()), str(Path(expected.place).readlink()))
        return _of_files(Path(ours.place), Path(expected.place))
    except OSError:
        return Likeness(0.0, "by_bytes")  # what cannot be read is not what was expected


def _of_files(ours: Path, expected: Path) -> Likeness:
    sizes = ours.stat().st_size, expected.stat().st_size
    if max(sizes) > LARGEST_MEASURED:
        identical = sizes[0] == sizes[1] and _same_bytes(ours, expected)
        return Likeness(1.0 if identical else 0.0, "by_bytes")
    one, other = ours.read_bytes(), expected.read_bytes()
    return Likeness(1.0, "exact") if one == other else likeness(*_as_texts(one, other))


def _as_texts(one: bytes, other: bytes) -> tuple[str, str]:
    """Characters, or, if either is no text, bytes: one edit is then one byte."""
    if b"\0" not in one and b"\0" not in other:
        try:
            return one.decode(), other.decode()
        except UnicodeDecodeError:
            pass
    return one.decode("latin-1"), other.decode("latin-1")


def _same_bytes(ours: Path, expected: Path) -> bool:
    with ours.open("rb") as one, expected.open("rb") as other:
        while chunk := one.read(_CHUNK):
            if chunk != other.read(_CHUNK):
                return False
    return True
