"""One installer at a time.

The operating system holds the lock and drops it when the process ends, however it ends: there is no stale lock to
recognise. The file only names the holder, for the message, and is never deleted (deleting a lock file is a race).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE_S = 0.1
_NOTICE_EVERY_S = 1.0


if sys.platform == "win32":
    import msvcrt

    # Windows forbids others to read a locked range: lock one byte far behind the text.
    _FAR = 1 << 30

    def _try_lock(fd: int) -> bool:
        os.lseek(fd, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def exclusive(path: Path, what: str, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock at `path`; while another process has it, wait and say so every second."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _wait(fd, path, what, progress)
        os.lseek(fd, 0, os.SEEK_SET)
        os.truncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        yield
    finally:
        os.close(fd)


def _wait(fd: int, path: Path, what: str, progress: Callable[[str], None]) -> None:
    start = time.monotonic()
    due = start
    while not _try_lock(fd):
        now = time.monotonic()
        if now >= due:
            progress(f"waiting for another {what}{_holder(path)} ... {now - start:.0f} s")
            due = now + _NOTICE_EVERY_S
        time.sleep(_PAUSE_S)


def _holder(path: Path) -> str:
    pid = path.read_text(encoding="utf-8", errors="replace").strip()
    return f" (process {pid})" if pid.isdecimal() else ""
