"""Lock files: one process at a time.

The operating system releases a lock when its process ends, however it ends, so there are no stale locks. The file
contains a note about the holder, for messages, and is never deleted (deleting a lock file is a race).
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from youbencha.events import StepProgress
from youbencha.files import NO_FOLLOW, read_nofollow
from youbencha.json_lines import Record, as_mapping, loads

_PAUSE_S = 0.1
_SHORT_PAUSE_S = 0.002
_NOTICE_EVERY_S = 1.0
_MAX_NOTE_BYTES = 65536


def try_lock(fd: int) -> bool:
    """Try to lock an open file for this process; never waits. The lock ends when the file is closed."""
    return lock_descriptor(fd, blocking=False)


def wait_for_lock(fd: int, patience_s: float) -> bool:
    """Lock an open file. Return False if another process still holds the lock after `patience_s`.

    Tries in small steps: a thread that waits in the kernel could not be cancelled.
    """
    deadline = time.monotonic() + patience_s
    while not try_lock(fd):
        if time.monotonic() > deadline:
            return False
        time.sleep(_SHORT_PAUSE_S)
    return True


def is_locked(path: Path) -> bool:
    """Return whether a live process holds the lock. Nothing is written, and no file is created."""
    try:
        fd = os.open(path, os.O_RDONLY | NO_FOLLOW)
    except OSError:
        return False
    try:
        return not try_lock(fd)
    except OSError:  # a network file system locks only files that are open for writing
        return False
    finally:
        os.close(fd)


def read_note(path: Path) -> Record:
    """Read the note about the last holder; empty if there is none. Windows hides it while the lock is held."""
    try:
        return as_mapping(loads(read_nofollow(path.parent, path.name, _MAX_NOTE_BYTES)))
    except (OSError, ValueError):
        return {}


def describe_holder(note: Record) -> str:
    """Return ` (process 7, since 2026-01-31 12:00)`, as far as it is known."""
    pid, since = note.get("pid"), note.get("since")
    known = [f"process {pid}"] if isinstance(pid, int) else []
    if isinstance(since, float):
        known.append(f"since {time.strftime('%Y-%m-%d %H:%M', time.localtime(since))}")
    return f" ({', '.join(known)})" if known else ""


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

    def take(self, **note: str) -> bool:
        """Try to take the lock; return whether that worked. Never waits: a task of this event loop may hold it.

        Writes a note to the file: the process id, the time, and the given values.
        """
        if not self.take_without_note():
            return False
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.ftruncate(self._fd, 0)
        os.write(self._fd, json.dumps({"pid": os.getpid(), "since": time.time(), **note}).encode())
        return True

    def take_without_note(self) -> bool:
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
        """Describe the process that holds the lock."""
        return describe_holder(read_note(self._path))
