"""The files of a tree that may be hostile: no link is followed, nothing but files and links is looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from youbencha.evaluators.leaving_out import LeavingOut


class TreeFile(NamedTuple):
    path: str
    """Below the tree, with forward slashes."""
    place: str
    """On this machine."""
    is_link: bool


def files_below(tree: Path, left_out: LeavingOut | None = None) -> Iterator[TreeFile]:
    """All files and links, in no order, without anything called `.git`.

    A directory that cannot be read counts as empty: what an agent hides, it has not delivered.
    """
    left_out = left_out or LeavingOut()
    waiting = [""]  # not by recursion: an agent may nest directories deeper than Python does calls
    while waiting:
        below = waiting.pop()
        for entry in _entries(os.path.join(tree, below)):  # noqa: PTH118 - a Path for each of many files is slow
            if entry.name.lower() == ".git" or entry in left_out:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{below}{entry.name}/")
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield TreeFile(below + entry.name, entry.path, entry.is_symlink())


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []
