"""One more line in a file that many runs write to at once."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from youbencha.hooks.locking import opened_and_locked


def append_line(path: Path, line: bytes) -> None:
    """All of it or nothing. A last line without its end (an editor, a crash) is given one first."""
    with opened_and_locked(path) as fd:
        size = os.fstat(fd).st_size
        start = b"" if size == 0 or _last_byte(fd, size) == b"\n" else b"\n"
        try:
            _write_all(fd, start + line + b"\n")
        except OSError:  # a full disk: half a line would spoil the file for every reader
            with contextlib.suppress(OSError):
                os.ftruncate(fd, size)
            raise


def replace_with_line(path: Path, line: bytes) -> None:
    """A reader sees the old file or the new one, never a part."""
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        temporary.write_bytes(line + b"\n")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _last_byte(fd: int, size: int) -> bytes:
    os.lseek(fd, size - 1, os.SEEK_SET)
    return os.read(fd, 1)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
