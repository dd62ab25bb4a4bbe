"""Lock files: one process at a time.

The operating system releases the lock when the process ends, however it ends, so there are no stale locks. The file
only names the holder, for messages, and is never deleted (deleting a lock file is a race).
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from youbencha.files import NO_FOLLOW, could_lock, try_lock
from youbencha.progress import StepProgress

_PAUSE_S = 0.1
_NOTICE_EVERY_S = 1.0
_TO_LOOK = os.O_RDWR if sys.platform == "win32" else os.O_RDONLY  # the latter works for another user's file, too


def is_locked(path: Path) -> bool:
    """Return whether a live process holds the lock. Nothing is written, and no file is created."""
    try:
        fd = os.open(path, _TO_LOOK | NO_FOLLOW)
    except OSError:
        return False
    try:
        return not could_lock(fd)
    finally:
        os.close(fd)


@contextmanager
def lock_file(path: Path) -> Iterator[LockFile]:
    """Open a lock file without locking it; a lock is released at the end."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o644)
    try:
        yield LockFile(fd, path)
    finally:
        os.close(fd)


class LockFile:
    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path

    def take(self, note: str | None = None) -> bool:
        """Try to take the lock; return whether that worked. Never waits: a task of this event loop may hold it.

        The note is written to the file; it defaults to the process id.
        """
        if not self.try_take():
            return False
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.truncate(self._fd, 0)
        os.write(self._fd, (note or str(os.getpid())).encode())
        return True

    def try_take(self) -> bool:
        """Try to take the lock without writing to the file, which may be the agent's."""
        return try_lock(self._fd)

    async def wait(self, what: str, progress: StepProgress) -> None:
        """Wait until the lock is taken, and report that every second."""
        start = time.monotonic()
        due = start
        while not self.take():
            now = time.monotonic()
            if now >= due:
                progress(f"waiting for another {what}{self.holder()}", f"{now - start:.0f} s")
                due = now + _NOTICE_EVERY_S
            await asyncio.sleep(_PAUSE_S)

    def holder(self) -> str:
        pid = self._path.read_text(encoding="utf-8", errors="replace").strip()
        return f" (process {pid})" if pid.isdecimal() else ""
