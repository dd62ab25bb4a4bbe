"""Show the progress of a run: live on a terminal, as plain lines in a pipe, or not at all."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from youbencha.cli.terminal import can_show_screen, is_plain
from youbencha.errors import YouBenchaError
from youbencha.events import Event
from youbencha.text import format_clock, format_count, format_usd, plural
from youbencha.transcript.lines import Line, Progress

if TYPE_CHECKING:
    from youbencha.tui.screen import Screen


_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


Result = TypeVar("Result")


def choose_display(title: str, *, quiet: bool, tui: bool = False, stream: TextIO | None = None) -> Display:
    """Choose how to show progress. It goes to standard error, so that standard output has only results."""
    stream = stream or sys.stderr
    if tui:
        return ScreenDisplay(title)
    if quiet or stream is None:
        return Display()
    return PlainDisplay(stream) if is_plain(stream) else LiveDisplay(title, stream)


class Display:
    """An event sink that is open during the run. This one shows nothing."""

    def __init__(self) -> None:
        self.progress = Progress()

    def __call__(self, event: Event) -> None:
        self.progress.take(event)

    async def show(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work, and show it."""
        return await work

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


class ScreenDisplay(Display):
    """Shows the full screen, until a person leaves it."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._screen = open_screen(title)

    def __call__(self, event: Event) -> None:
        self.progress.take(event)
        self._screen.sink(event)

    async def show(self, work: Coroutine[Any, Any, Result]) -> Result:
        from youbencha.tui.screen import run_with_screen

        return await run_with_screen(self._screen, work)


def open_screen(title: str) -> Screen:
    """Make the full screen, without controls. Raises YouBenchaError if there is no terminal for it."""
    if not can_show_screen():
        raise YouBenchaError("NO_TERMINAL", "--tui needs a terminal.", hint="Without it, progress is printed as lines.")
    from youbencha.tui.screen import Screen

    return Screen(title, None, stay=True)


class PlainDisplay(Display):
    """Prints a line for each event that is shown, with the seconds since the start."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._began = time.monotonic()

    def __call__(self, event: Event) -> None:
        line = self.progress.take(event)
        if line is None:
            return
        with contextlib.suppress(OSError, ValueError):  # the pipe is closed; the run continues
            print(f"{time.monotonic() - self._began:6.1f}s {line.plain()}", file=self._stream, flush=True)


class LiveDisplay(Display):
    """Prints a line for each event; below them, during the run, phases, time, tokens and cost."""

    def __init__(self, title: str, stream: TextIO, *, console: Console | None = None) -> None:
        super().__init__()
        self._title = title
        self._printed = False
        self._began = time.time()
        self._console = console or Console(file=stream, highlight=False)
        self._live: Live = Live(get_renderable=self.render, console=self._console, refresh_per_second=8, transient=True)

    def __call__(self, event: Event) -> None:
        line = self.progress.take(event)
        if line is None:
            return
        self._printed = True
        with contextlib.suppress(OSError, ValueError):  # the terminal is closed; the run continues
            self._console.print(_line_text(line), no_wrap=True, overflow="ellipsis")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if self._printed:
            self._console.print()  # before the result

    def render(self) -> RenderableType:
        now = time.time()
        title = Text.assemble((self._title, "bold"), (f"  {format_clock(now - self._began)}", "dim"))
        body = [Text(), title, self._phases(now), self._figures()]
        return Group(*(part for part in body if part is not None))

    def _phases(self, now: float) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        for phase in self.progress.phases:
            took = f"{(phase.ended_at or now) - phase.started_at:.1f}s"
            name = phase.name.replace("_", " ")
            if phase.ended_at is not None:
                text.append_text(Text.assemble(("✓ ", "green"), (f"{name} {took}   ", "dim")))
            else:
                frame = _FRAMES[int(now * 10) % len(_FRAMES)]
                text.append_text(Text.assemble((frame, "cyan"), " ", (f"{name} ", "bold"), (took, "cyan")))
        return text

    def _figures(self) -> Text | None:
        shown = self.progress
        parts = [f"model {shown.model}"] if shown.model else []
        if shown.tool_calls:
            parts.append(plural(shown.tool_calls, "tool call"))
        if shown.input_tokens is not None or shown.output_tokens is not None:
            parts.append(f"{format_count(shown.input_tokens)} in · {format_count(shown.output_tokens)} out")
        if shown.cost_usd is not None:
            parts.append(format_usd(shown.cost_usd))
        return Text(" · ".join(parts), style="dim", no_wrap=True, overflow="ellipsis") if parts else None


def _line_text(line: Line) -> Text:
    dim = "dim" if line.style in ("dim", "green") else ""
    return Text.assemble(
        (f"{line.mark} ", line.style), (f"{line.head} " if line.head else "", "bold"), (line.text, dim)
    )
