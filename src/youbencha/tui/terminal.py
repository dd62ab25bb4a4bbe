"""The terminal of the screen: whether it has colours, and writing to it without ever waiting for it."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from textual.driver import Driver

from youbencha.transcript.line_writer import LineWriter

_MAX_WAITING = 1 << 20


def has_colours() -> bool:
    """Whether the terminal has colours, by its description; if there is none, it is taken for a modern one."""
    try:
        import curses
    except ImportError:
        return True
    try:
        curses.setupterm(fd=2)
        return curses.tigetnum("colors") > 0
    except (OSError, curses.error):
        return True


class TerminalOutput:
    """Standard error for Textual's driver, which would wait if a connection hangs, in the event loop of the work.

    What does not fit is dropped, and so is everything once the terminal is gone.
    """

    def __init__(self, file: TextIO) -> None:
        self.dropped = False
        """Something was not written, so that the whole screen has to be painted again."""
        self.fileno, self.isatty = file.fileno, file.isatty
        self._writer = LineWriter(file.fileno(), max_waiting=_MAX_WAITING, dropped_line=self._note_dropped, delay_s=0)

    @property
    def is_behind(self) -> bool:
        return self._writer.is_behind

    def write(self, text: str) -> None:
        self._writer.put(text.encode("utf-8", "replace"))

    def flush(self) -> None:
        return

    def close(self) -> None:
        self._writer.close(patience_s=1.0)

    def _note_dropped(self, number: int) -> bytes:
        self.dropped = True
        return b""


def driver_with(driver: type[Driver], output: TerminalOutput) -> type[Driver]:
    """Return a driver that writes to `output`. Textual's drivers take standard error when they are made."""

    class OutputDriver(driver):  # type: ignore[misc,valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            stderr = sys.__stderr__
            sys.__stderr__ = output  # type: ignore[misc,assignment]
            try:
                super().__init__(*args, **options)
            finally:
                sys.__stderr__ = stderr  # type: ignore[misc]

    return OutputDriver
