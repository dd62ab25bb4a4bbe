"""A pseudo-terminal (PTY) as the place a program writes to, for programs that behave otherwise without one."""

from __future__ import annotations

import os
import struct
import sys

from youbencha.process.capture import Stream

assert sys.platform != "win32"

_COLUMNS, _ROWS = 200, 50
_READ_BYTES = 64 * 1024


class TerminalSource:
    """Our end of the terminal. Standard output and standard error arrive here as one stream."""

    stream = Stream.OUT
    skipped_bytes = 0

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self.writer = writer

    def read(self) -> bytes:
        try:
            return os.read(self._reader, _READ_BYTES)
        except OSError:  # nothing now (EAGAIN), or Linux's way to say that nobody writes any more (EIO)
            return b""

    def hurry(self) -> None:
        """A terminal holds a few kilobytes at the most: nothing to skip."""

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        os.close(self._reader)


def open_terminal() -> TerminalSource:
    import fcntl
    import termios

    reader, writer = os.openpty()
    os.set_blocking(reader, False)
    attributes = termios.tcgetattr(writer)
    attributes[1] &= ~termios.OPOST  # the bytes as they were written: no CR before each LF
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(writer, termios.TCSANOW, attributes)
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    return TerminalSource(reader, writer)
