"""Copies of single files out of a tree that may be hostile.

A file of five terabytes that is all hole is made in no time, and must not end a verdict: its copy is all hole too.
"""

# Strings throughout: a Path for each of many files takes as long as copying it.
# ruff: noqa: PTH108, PTH123
from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from youbencha.evaluators.threads import StillWanted

CANNOT_BE_HERE = frozenset({errno.ENAMETOOLONG, errno.EFBIG})
"""Errors about what nobody could have copied to here: its path is too long, or no file may be that large."""

_FICLONE = 0x40049409
_ROOM_LEFT = 0.95
_BLOCK = 512
_SMALL = 4096
_CHUNK = 1 << 20


class FileCopies:
    """Copies contents, and counts the room that they take. Nothing is ever linked to an original."""

    def __init__(self, target: Path, still_wanted: StillWanted) -> None:
        """`target` is a directory on the disk that they go to."""
        self._still_wanted = still_wanted
        self._clones = sys.platform == "linux"
        self._room = int(shutil.disk_usage(target).free * _ROOM_LEFT)

    def copy(self, source: str, target: str, state: os.stat_result) -> None:
        """`state` is that of the source. No link is followed. What fails leaves no part of a file."""
        try:
            if self._clone(source, target):
                return
            if _has_holes(state):
                self._copy_data(source, target, state.st_size)
            else:
                self._take(state.st_size, source)
                shutil.copyfile(source, target, follow_symlinks=False)
        except BaseException:
            with suppress(OSError):
                os.unlink(target)
            raise

    def _clone(self, source: str, target: str) -> bool:
        """Share the blocks, if the file system can. If it cannot once, it is not asked again."""
        if sys.platform != "linux" or not self._clones:
            return False
        import fcntl

        with open(source, "rb") as there, open(target, "wb") as here:
            try:
                fcntl.ioctl(here, _FICLONE, there.fileno())
            except OSError:
                self._clones = False
        return self._clones

    def _copy_data(self, source: str, target: str, size: int) -> None:
        with open(source, "rb", buffering=0) as there, open(target, "wb", buffering=0) as here:
            here.truncate(size)
            for start, end in _data_in(there.fileno(), size):
                self._take(end - start, source)
                there.seek(start)
                here.seek(start)
                while (left := end - there.tell()) > 0 and (chunk := there.read(min(left, _CHUNK))):
                    self._still_wanted()
                    _write(here.fileno(), chunk)

    def _take(self, size: int, path: str) -> None:
        self._still_wanted()
        self._room -= size
        if self._room < 0:
            raise OSError(f"it has more than there is room for on the disk, {path} for one")


def _has_holes(state: os.stat_result) -> bool:
    """Or may have: some file systems keep what is small, or packed, in less blocks than its size."""
    blocks: int | None = getattr(state, "st_blocks", None)  # Windows does not tell
    return blocks is not None and state.st_size > max(blocks * _BLOCK, _SMALL)


def _data_in(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """From where to where there is anything. All of it, where the system does not say."""
    if sys.platform == "win32":
        yield 0, size
        return
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            start, end = end, size
        yield start, end


def _write(fd: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(fd, rest) :]
