"""Show the events of a loop without the screen: as lines, as JSON, or not at all.

A thread prints, so that the loop goes on whatever the reader does. If it is slow, pieces of text are left out first,
then lines. If it has closed the pipe, nothing is printed any more.
"""

from __future__ import annotations

import sys
import time
from typing import Self, TextIO

from youbencha.cli.screen import can_show_screen, is_plain
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    IterationStarted,
    LoopEnded,
    LoopWaiting,
)
from youbencha.loop.line_writer import LineWriter
from youbencha.loop.recording import TYPE_NAMES, dropped_line, event_to_json
from youbencha.progress import Line, Progress, lines_of_text
from youbencha.text import duration, plural

_MOST_WAITING = 8 << 20
_COUNTDOWN_EVERY_S = 60.0

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
"""How a terminal is told the styles of lines."""


def use_screen(*, no_tui: bool = False, as_json: bool = False, quiet: bool = False) -> bool:
    """Whether to show the screen: it is wanted, and there is a terminal that can show it."""
    wanted = not (no_tui or as_json or quiet)
    return wanted and can_show_screen() and sys.stdout is not None and sys.stdout.isatty()


def choose_loop_display(*, as_json: bool = False, quiet: bool = False, stream: TextIO | None = None) -> LoopDisplay:
    """Choose how to show a loop on standard output."""
    stream = stream or sys.stdout
    if quiet or stream is None:
        return LoopDisplay()
    return JsonDisplay(stream) if as_json else LinesDisplay(stream)


class LoopDisplay:
    """An event sink that is open while the loop runs. This one shows nothing."""

    def __call__(self, event: Event) -> None:
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


class JsonDisplay(LoopDisplay):
    """Prints events as in a recording, one JSON line each."""

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._writer = LineWriter(stream.fileno(), most_waiting=_MOST_WAITING, dropped_line=dropped_line)

    def __call__(self, event: Event) -> None:
        if type(event) in TYPE_NAMES and not (isinstance(event, AssistantTextDelta) and self._writer.is_behind):
            self._writer.put(event_to_json(event))

    def __exit__(self, *_: object) -> None:
        self._writer.close()


class LinesDisplay(LoopDisplay):
    """Prints lines with the time since the start; while the loop waits, how much is left, once a minute."""

    def __init__(self, stream: TextIO, *, countdown_every_s: float = _COUNTDOWN_EVERY_S) -> None:
        stream.flush()
        self._progress = Progress()
        self._styled = not is_plain(stream)
        self._began: float | None = None
        self._waiting: LoopWaiting | None = None
        self._counted_at = 0.0
        self._countdown_every_s = countdown_every_s
        self._writer = LineWriter(
            stream.fileno(),
            most_waiting=_MOST_WAITING,
            dropped_line=lambda number: f"… {plural(number, 'line')} left out\n".encode(),
            idle_line=self._countdown,
        )

    def __call__(self, event: Event) -> None:
        self._began = event.at if self._began is None else self._began
        line = self._progress.take(event)
        if line is None:
            return
        if isinstance(event, LoopWaiting):
            self._waiting, self._counted_at = event, time.monotonic()
        elif isinstance(event, IterationStarted | LoopEnded):
            self._waiting = None
        if isinstance(event, IterationStarted):
            self._writer.put(b"\n", now=False)
        for each in lines_of_text(event.text) if isinstance(event, AssistantText) else [line]:
            self._writer.put(self._printed(each, event.at))

    def _printed(self, line: Line, at: float) -> bytes:
        since = max(0, round(at - (self._began or at)))
        clock = f"{since // 3600}:{since // 60 % 60:02}:{since % 60:02}"
        mark = f"\x1b[{_CODES[line.style]}m{line.mark}\x1b[0m" if self._styled and line.mark.strip() else line.mark
        return f"{clock} {line._replace(mark=mark).plain()}\n".encode("utf-8", "replace")

    def _countdown(self) -> bytes:
        """The line about a long wait. Called by the writer's thread."""
        waiting = self._waiting
        if waiting is None or waiting.kind == "paused" or time.monotonic() - self._counted_at < self._countdown_every_s:
            return b""
        self._counted_at = time.monotonic()
        left_s = waiting.until - time.time()
        line = Line("◷", "yellow", f"{duration(left_s * 1000)} left", "")
        return self._printed(line, time.time()) if left_s > 0 else b""

    def __exit__(self, *_: object) -> None:
        self._writer.close()
