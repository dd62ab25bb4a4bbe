"""Show the events of a loop without the screen: as lines, as JSON, or not at all.

A thread prints, so that the loop continues whatever the reader does. If it is slow, pieces of text are left out first,
then lines. If it has closed the pipe, nothing is printed any more.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from itertools import dropwhile
from typing import Self, TextIO

from youbencha.cli.terminal import can_show_screen, is_plain
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    IterationStarted,
    LoopEnded,
    LoopWaiting,
)
from youbencha.text import format_duration, plural
from youbencha.transcript.line_writer import LineWriter
from youbencha.transcript.lines import Line, Progress, whole_lines
from youbencha.transcript.recording import TYPE_NAMES, dropped_line, event_to_json

_MAX_WAITING = 8 << 20
_COUNTDOWN_EVERY_S = 60.0
_MAX_UNFINISHED = 20_000
"""The maximum length of a line. Dropped text is printed with the finished text."""

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
"""The escape sequences of styles."""


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


class _UnfinishedText:
    """The lines of a text that were printed while it was written."""

    def __init__(self) -> None:
        self.begun = False
        self._rest = ""
        self._printed: Counter[str] = Counter()

    def add(self, text: str) -> list[str]:
        """Take the next characters, and return the lines that are complete."""
        complete, newline, rest = (self._rest + text).rpartition("\n")
        self._rest = rest[-_MAX_UNFINISHED:]
        lines = whole_lines(complete) if newline else []
        self._printed.update(lines)
        return lines if self.begun else _without_first_blanks(lines)

    def take_unprinted(self, text: str) -> list[str]:
        """Return the lines of the finished text that were not printed."""
        rest = []
        for line in whole_lines(text.strip()):
            if self._printed[line] > 0:
                self._printed[line] -= 1
            else:
                rest.append(line)
        return rest


def _without_first_blanks(lines: list[str]) -> list[str]:
    return list(dropwhile(lambda line: not line, lines))


class JsonDisplay(LoopDisplay):
    """Prints events as in a recording, one JSON line each."""

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._writer = LineWriter(stream.fileno(), max_waiting=_MAX_WAITING, dropped_line=dropped_line)

    def __call__(self, event: Event) -> None:
        if type(event) in TYPE_NAMES and not (isinstance(event, AssistantTextDelta) and self._writer.is_behind):
            self._writer.put(event_to_json(event))

    def __exit__(self, *_: object) -> None:
        self._writer.close()


class LinesDisplay(LoopDisplay):
    """Prints lines with the time since the start; while the loop waits, how much is left, once a minute.

    Text is printed line by line while it is written. Of the finished text, only the lines that were not printed follow.
    """

    def __init__(self, stream: TextIO, *, countdown_every_s: float = _COUNTDOWN_EVERY_S) -> None:
        stream.flush()
        self._progress = Progress()
        self._styled = not is_plain(stream)
        self._began: float | None = None
        self._texts: dict[str | None, _UnfinishedText] = {}
        self._waiting: LoopWaiting | None = None
        self._counted_at = 0.0
        self._countdown_every_s = countdown_every_s
        self._writer = LineWriter(
            stream.fileno(),
            max_waiting=_MAX_WAITING,
            dropped_line=lambda number: f"… {plural(number, 'line')} left out\n".encode(),
            idle_line=self._countdown,
        )

    def __call__(self, event: Event) -> None:
        self._began = event.at if self._began is None else self._began
        line = self._progress.take(event)
        match event:
            case AssistantTextDelta(text=text, parent=parent):
                unfinished = self._texts.setdefault(parent, _UnfinishedText())
                self._print_text(unfinished, unfinished.add(text), event.at)
            case AssistantText(text=text, parent=parent):
                unfinished = self._texts.pop(parent, _UnfinishedText())
                self._print_text(unfinished, unfinished.take_unprinted(text), event.at)
            case _ if line is not None:
                self._take_state(event)
                self._writer.put(self._printed(line, event.at))

    def _take_state(self, event: Event) -> None:
        if isinstance(event, LoopWaiting):
            self._waiting, self._counted_at = event, time.monotonic()
        elif isinstance(event, IterationStarted | LoopEnded):
            self._waiting = None
            self._texts.clear()
        if isinstance(event, IterationStarted):
            self._writer.put(b"\n", now=False)

    def _print_text(self, unfinished: _UnfinishedText, lines: list[str], at: float) -> None:
        for text in lines:
            mark, unfinished.begun = " " if unfinished.begun else "●", True
            self._writer.put(self._printed(Line(mark, "bold", "", text), at))

    def _printed(self, line: Line, at: float) -> bytes:
        since = max(0, round(at - (at if self._began is None else self._began)))
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
        line = Line("◷", "yellow", f"{format_duration(left_s * 1000)} left", "")
        return self._printed(line, time.time()) if left_s > 0 else b""

    def __exit__(self, *_: object) -> None:
        self._writer.close()
