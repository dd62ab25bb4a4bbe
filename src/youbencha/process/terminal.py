"""A pseudo-terminal (PTY) as the place a program writes to, for programs that behave otherwise without one."""

from __future__ import annotations

import asyncio
import os
import struct
import sys

from youbencha.process.lines import Stream

assert sys.platform != "win32"

_COLUMNS, _ROWS = 200, 50
_READ_BYTES = 64 * 1024
_MOST_TAKEN = 1024 * 1024


class TerminalSource:
    """Our end of the terminal. Standard output and standard error arrive here as one stream.

    A terminal holds a few kilobytes, and a program that fills it waits: so they are taken out as soon as they come,
    not when somebody next looks.
    """

    stream = Stream.OUT
    skipped_bytes = 0

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self.writer = writer
        self._taken = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(reader, self._take)

    def read(self) -> bytes:
        self._take()
        data = bytes(self._taken)
        self._taken.clear()
        if len(data) >= _MOST_TAKEN:
            self._loop.add_reader(self._reader, self._take)
        return data

    def hurry(self) -> None:
        """Little waits here: nothing to skip."""

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self._loop.remove_reader(self._reader)
        self.close_writer()
        os.close(self._reader)

    def _take(self) -> None:
        try:
            while len(self._taken) < _MOST_TAKEN and (data := os.read(self._reader, _READ_BYTES)):
                self._taken += data
        except BlockingIOError:
            return
        except OSError:  # Linux's way to say that nobody writes any more; elsewhere, it is an empty read
            pass
        # At its end, a terminal is readable all the time; when we hold enough, the program may wait.
        self._loop.remove_reader(self._reader)


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
