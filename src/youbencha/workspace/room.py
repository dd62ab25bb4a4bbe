"""How much room a tree takes on the disk. An agent makes a file of five terabytes that is all hole in no time."""

from __future__ import annotations

import os
from pathlib import Path

from youbencha.workspace.walk import is_directory

_BLOCK = 512


def size_on_disk(path: Path) -> int:
    """Of its files, in blocks. What cannot be seen is not counted."""
    total, waiting = 0, [os.fsencode(path)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if is_directory(entry):
                        waiting.append(entry.path)
                        continue
                    about = entry.stat(follow_symlinks=False)
                    if about.st_nlink > 1:  # one file by several names takes its room once
                        if (file := (about.st_dev, about.st_ino)) in seen:
                            continue
                        seen.add(file)
                    total += _on_disk(about)
        except OSError:  # gone meanwhile, or not readable
            continue
    return total


def _on_disk(about: os.stat_result) -> int:
    blocks: int | None = getattr(about, "st_blocks", None)
    return about.st_size if blocks is None else blocks * _BLOCK  # Windows does not tell blocks
