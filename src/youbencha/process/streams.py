"""The streams of a program: a file for each output, and a file or a pipe for standard input.

The program writes to a file, which is read as it grows. Why not a pipe: real CLIs exit before a pipe is drained and
lose their last lines (measured: Claude Code 2.1.30 to 2.1.325, including the `result` line); a file accepts everything
at once. It cannot fill the disk: what was read is freed (a hole is punched behind the reader), and unread output beyond
a ceiling is dropped.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple, cast

from youbencha.process.model import Input, Limits
from youbencha.process.output import Stream

FreeRange = Callable[[int, int, int], bool]
_BLOCK = 512
_READ_BYTES = 64 * 1024
"""The size of a piece: its lines are parsed before anything else, such as a screen, gets its turn."""
_KEEP_AT_END = 8 * 1024 * 1024
_FREE_EVERY = 4 * 1024 * 1024


class SpoolFile(NamedTuple):
    """Two descriptors of one file with independent positions."""

    reader: int
    writer: int


def open_unnamed_file() -> SpoolFile:
    """Open a file without a name, so that none is left even after a kill -9."""
    reader, name = tempfile.mkstemp(prefix="youbencha-spool-")
    try:
        # In append mode: several processes may share the stream, and the file may be truncated meanwhile.
        writer = os.open(name, os.O_WRONLY | os.O_APPEND)
    except OSError:
        os.close(reader)
        raise
    finally:
        Path(name).unlink()
    return SpoolFile(reader, writer)


@cache
def _linux_fallocate() -> Callable[[int, int, int, int], int] | None:
    for name in ("fallocate64", "fallocate"):  # musl has only the second, which is 64-bit there
        with contextlib.suppress(OSError, AttributeError):
            fallocate = getattr(ctypes.CDLL(None), name)
            fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
            fallocate.restype = ctypes.c_int
            return cast(Callable[[int, int, int, int], int], fallocate)
    return None


def punch_hole(fd: int, offset: int, length: int) -> bool:
    """Free a range of a file without moving the rest. False if the system or file system does not support it."""
    keep_size_and_punch_hole = 0x01 | 0x02
    fallocate = _linux_fallocate() if sys.platform == "linux" else None
    return fallocate is not None and fallocate(fd, keep_size_and_punch_hole, offset, length) == 0


class Spool:
    """One output stream on disk."""

    def __init__(
        self,
        stream: Stream,
        limits: Limits,
        *,
        open_file: Callable[[], SpoolFile] = open_unnamed_file,
        free_range: FreeRange = punch_hole,
    ) -> None:
        self.stream = stream
        self._ceiling = limits.spool_bytes
        self._keep_first = limits.output_bytes
        self._free_range = free_range
        self._reader, self.writer = open_file()
        self._offset = 0
        self._freed = 0
        self._delivered = 0
        self.skipped_bytes = 0

    def fileno(self) -> int:
        return self._reader

    @property
    def excess_bytes(self) -> int:
        """Return the disk space that the program, or the file system, reserved in the file without writing."""
        assert sys.platform != "win32"
        status = os.fstat(self._reader)
        return max(0, status.st_blocks * _BLOCK - max(0, status.st_size - self._freed) - self._ceiling)

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        os.close(self._reader)

    def read(self) -> bytes:
        """Return what has arrived since the last call, a bounded piece at a time; empty if nothing has."""
        size = os.fstat(self._reader).st_size
        if size < self._offset:  # the program truncated it: `> /dev/stdout` does
            self._offset = self._freed = 0
        if size - self._offset > self._ceiling and self._delivered >= self._keep_first:
            self._skip(size)
        os.lseek(self._reader, self._offset, os.SEEK_SET)
        data = os.read(self._reader, _READ_BYTES)
        self._offset += len(data)
        self._delivered += len(data)
        if self._offset - self._freed >= _FREE_EVERY:
            self._free()
        return data

    def skip_to_end(self) -> None:
        """Skip all but the last megabytes."""
        self._ceiling = min(self._ceiling, _KEEP_AT_END)

    def _skip(self, size: int) -> None:
        """Drop the oldest unread output: the program writes faster than we read."""
        self.skipped_bytes += size - self._offset - self._ceiling // 2
        self._offset = size - self._ceiling // 2
        self._free()

    def _free(self) -> None:
        if self._free_range(self._reader, self._freed, self._offset - self._freed):
            self._freed = self._offset
        elif self._offset > self._ceiling and self._delivered >= self._keep_first:
            self._empty()

    def _empty(self) -> None:
        """Truncate the file, if holes cannot be punched: when it was read completely, or is too large."""
        size = os.fstat(self._reader).st_size
        if size <= self._offset or size > 2 * self._ceiling:
            self.skipped_bytes += max(0, size - self._offset)
            os.ftruncate(self._reader, 0)
            self._offset = self._freed = 0


def open_spools(
    limits: Limits,
    open_file: Callable[[], SpoolFile] = open_unnamed_file,
    *,
    free_range: FreeRange = punch_hole,
) -> tuple[Spool, Spool]:
    """Open a spool for standard output and one for standard error."""
    out = Spool(Stream.OUT, limits, open_file=open_file, free_range=free_range)
    try:
        return out, Spool(Stream.ERR, limits, open_file=open_file, free_range=free_range)
    except OSError:
        out.close()
        raise


def open_stdin(given: bytes | Input | None) -> IO[bytes]:
    """Open the program's standard input: a file with everything in it, nothing, or a pipe that stays open."""
    if given is None:
        return Path(os.devnull).open("rb")
    if isinstance(given, Input):
        reader, writer = os.pipe()
        given.connect(writer)
        return os.fdopen(reader, "rb", buffering=0)
    with contextlib.ExitStack() as on_failure:
        file = on_failure.enter_context(tempfile.TemporaryFile(prefix="youbencha-stdin-"))
        file.write(given)
        file.seek(0)
        on_failure.pop_all()
    return file
