"""Notice that a disk is full. What a program writes there is lost, which is not its fault."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_RESERVED_BYTES = 32 * 1024**2
_RESERVED_SHARE = 50
"""A full file system may have free blocks: ext4 keeps up to 16 MiB or 2% for itself."""


_CHECK_EVERY_S = 0.1
_LAST_CHECK_S = 1.0


class FreeSpace(NamedTuple):
    bytes: int
    files: int
    """How many can be created; 0 if there is no such limit."""
    full: bool


def free_space(directory: Path) -> FreeSpace:
    """Return the free space on a directory's file system, which is never full if it cannot be written to."""
    if sys.platform == "win32":
        raise NotImplementedError
    system = os.statvfs(directory)
    # Only root may use the last blocks.
    blocks, files = (system.f_bfree, system.f_ffree) if os.geteuid() == 0 else (system.f_bavail, system.f_favail)
    kept = min(_RESERVED_BYTES, system.f_blocks * system.f_frsize // _RESERVED_SHARE)
    full = blocks * system.f_frsize < kept or (system.f_files > 0 and files == 0)
    return FreeSpace(blocks * system.f_frsize, files, full and not system.f_flag & os.ST_RDONLY)


def full_disk(directories: Iterable[Path]) -> Path | None:
    """Return the first directory whose file system is full."""
    if sys.platform != "win32":
        for directory in directories:
            with suppress(OSError):  # it does not exist
                if free_space(directory).full:
                    return directory
    return None


class FullDiskWatch:
    """Checks whether a disk is full while a program runs.

    It uses a daemon thread: on a network file system that hangs, a check never returns, and must not block the event
    loop with all its deadlines.
    """

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories = tuple(directories)
        self._full: Path | None = None
        self._stop = threading.Event()
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    async def result(self) -> Path | None:
        """Check once more, and return the first directory whose disk is or was full."""
        self.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_CHECK_S):
                await self._stopped.wait()
        return self._full

    def _watch(self) -> None:
        is_last = False
        while self._full is None and not is_last:
            is_last = self._stop.wait(_CHECK_EVERY_S)
            self._full = full_disk(self._directories)
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._stopped.set)
