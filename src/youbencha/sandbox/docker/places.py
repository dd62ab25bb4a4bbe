"""Places to mount something on, in a directory where an agent may have been before."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path, PurePosixPath

_WAY = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def make_place(root: Path, name: PurePosixPath, *, directory: bool) -> None:
    """An empty directory or file `name` below `root`, unless it is there already. Raises OSError if another thing is.

    No link is followed: an agent could have made one that leads to the harness's own files.
    """
    at = os.open(root, _WAY & ~getattr(os, "O_NOFOLLOW", 0))
    try:
        for part in name.parts if directory else name.parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            deeper = os.open(part, _WAY, dir_fd=at)
            os.close(at)
            at = deeper
        if not directory:
            _make_file(name.name, at)
    finally:
        os.close(at)


def _make_file(name: str, directory: int) -> None:
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode=0o644, dir_fd=directory))
    except FileExistsError:
        if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise
