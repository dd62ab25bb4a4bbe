"""One writer at a time, also among processes.

The operating system holds the lock on the file itself and drops it with the process: there is no lock file that could
be left behind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.workspace.lock import try_lock

PATIENCE_S = 30.0
_PAUSE_S = 0.005


@contextmanager
def opened_and_locked(path: Path, *, patience_s: float = PATIENCE_S) -> Iterator[int]:
    """The file, made if need be, for appending, and nobody else's until the end."""
    deadline = time.monotonic() + patience_s
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
        try:
            _wait_for_lock(fd, path, deadline)
            if _still_there(fd, path):
                yield fd
                return
        finally:
            os.close(fd)


def _wait_for_lock(fd: int, path: Path, deadline: float) -> None:
    """In small steps, and not for ever: a thread that waits in the kernel could not be called off."""
    while not try_lock(fd):
        if time.monotonic() > deadline:
            raise YouBenchaError(
                "HOOK_DATABASE_FAILED",
                f"another program keeps {path} locked",
                hint="See which one has it open (`lsof`), and end it or wait for it.",
            )
        time.sleep(_PAUSE_S)


def _still_there(fd: int, path: Path) -> bool:
    """Whether the file of that name is the one we have locked: while we waited, it may have been replaced."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
