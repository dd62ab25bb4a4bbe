"""Print to a terminal: its width, colours, the steps of a long operation, and wrapped lines."""

from __future__ import annotations

import math
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.markup import escape

from youbencha.events import StepProgress, step_text


def is_plain(stream: TextIO | None) -> bool:
    """Whether to write no escape sequences at all: NO_COLOR is set, the terminal is a dumb one, or there is none."""
    no_terminal = stream is None or not stream.isatty()
    return no_terminal or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def can_show_screen() -> bool:
    """Whether there is a terminal for the full screen: it reads standard input, and draws on standard error."""
    return os.environ.get("TERM", "dumb") != "dumb" and all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)
    )


def terminal_width(stream: TextIO | None) -> int:
    """Return the columns of a terminal. In a pipe or a file there is no limit: nothing is wrapped or left out."""
    return sys.maxsize if stream is None or not stream.isatty() else shutil.get_terminal_size().columns


def console_on(stream: TextIO) -> Console:
    """Return a console that does not wrap lines, and writes styles only where they are wanted."""
    return Console(file=stream, highlight=False, soft_wrap=True, force_terminal=not is_plain(stream))


_REPEAT_AFTER_S = 10.0

_LEAST_ROOM = 16
"""With less room for text, lines are not wrapped."""


class StepPrinter:
    """Prints a line when a step begins, and then its progress every ten seconds, not to fill a log file."""

    def __init__(
        self,
        print_line: Callable[[str], None],
        *,
        repeat_after_s: float = _REPEAT_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._print = print_line
        self._repeat_after_s = repeat_after_s
        self._clock = clock
        self._step = ""
        self._printed_at = 0.0

    def __call__(self, step: str, detail: str = "", /) -> None:
        now = self._clock()
        if step != self._step or now - self._printed_at >= self._repeat_after_s:
            self._print(step_text(step, detail))
            self._step, self._printed_at = step, now


@contextmanager
def steps_on_stderr() -> Iterator[StepProgress]:
    """Yield a callback that prints steps to standard error; on a terminal, details are in a line that is updated."""
    console = console_on(sys.stderr)
    repeat_after_s = math.inf if console.is_terminal else _REPEAT_AFTER_S
    printer = StepPrinter(lambda line: console.print(escape(line)), repeat_after_s=repeat_after_s)
    with console.status("") as status:

        def progress(step: str, detail: str = "", /) -> None:
            printer(step, detail)
            status.update(escape(step_text(step, detail)))

        yield progress


def wrap(text: str, width: int, *, indent: int, taken: int | None = None) -> str:
    """Wrap long lines between words, and indent the continuation lines.

    `taken` is the number of characters before the text in its first line; further lines of `text` keep their own
    indentation.
    """
    first, *others = text.split("\n")
    lines = [_wrapped(first, width, taken=indent if taken is None else taken, indent=indent)]
    for line in others:
        own = len(line) - len(line.lstrip(" "))
        lines.append(" " * own + _wrapped(line[own:], width, taken=own, indent=own + 2))
    return "\n".join(lines)


def _wrapped(text: str, width: int, *, taken: int, indent: int) -> str:
    """Wrap one line. Words are not broken, so that a long path can be copied."""
    if width - max(taken, indent) < _LEAST_ROOM:
        return text
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=" " * taken,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(lines)[taken:]
