"""Open the screen for a loop, a trial or a matrix of trials, while the work runs in the same event loop.

Textual is imported only when a screen is opened.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from youbencha.events import Event, EventSink
from youbencha.text import one_line
from youbencha.transcript.model import LIVE, Transcript

if TYPE_CHECKING:
    from youbencha.tui.app import ScreenApp

Result = TypeVar("Result")


class Controls(Protocol):
    """What a person can tell a running loop (`loop.control.LoopControl`). All but `diff` return at once."""

    paused: bool

    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def try_now(self) -> None: ...
    def guide(self, text: str) -> None: ...
    async def diff(self) -> str: ...


class Screen:
    """What is shown, and what the keys do. Events can be taken before it is opened, and after it is closed."""

    def __init__(
        self,
        title: str,
        controls: Controls | None = None,
        *,
        expected: int | None = None,
        stay: bool = False,
        recorded: bool = False,
        export_to: Path | None = None,
        mask: Callable[[str], str] = lambda text: text,
        fallback: EventSink | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.title = title
        self.controls = controls
        """None: there is no loop to control. Then `stop` is the same as Ctrl-C for the caller."""
        self.diff = controls.diff if controls is not None and not recorded else None
        self.expected = expected
        """The number of trials, if there are many."""
        self.stay = stay
        """Stay open after the end of the work, until a key is pressed."""
        self.recorded = recorded
        """A recording is played: it takes no guidance, and is stopped without a question."""
        self.export_to = export_to
        """The directory for exported transcripts; by default, the current one."""
        self.mask = mask
        """Masks secrets in what is exported."""
        self.fallback = fallback
        """Takes the events of `sink` after the screen has failed."""
        self.failed = False
        self.clock = clock
        self.model = Transcript(retention=LIVE)

    def sink(self, event: Event) -> None:
        """Take an event of the loop, or of the only trial."""
        if self.failed and self.fallback is not None:
            self.fallback(event)
        else:
            self.model.take(event)

    def begin(self, session_id: str, title: str) -> None:
        """A trial begins."""
        self.model.begin(session_id, title, self.clock())

    def take(self, session_id: str, event: Event) -> None:
        """Take an event of a trial."""
        self.model.take(event, session_id)

    def end(self, session_id: str, status: str) -> None:
        """A trial has ended."""
        self.model.end(session_id, status, self.clock())

    def stop(self, *, again: bool = False) -> None:
        """Stop the loop; without one, do what Ctrl-C does outside the screen. `again`: do not wait for anything."""
        if again:
            os.kill(os.getpid(), signal.SIGTERM)
        elif self.controls is not None:
            self.controls.stop()
        else:
            os.kill(os.getpid(), signal.SIGINT)


async def run_with_screen(screen: Screen, work: Coroutine[Any, Any, Result]) -> Result:
    """Run the work while the screen shows it. The terminal is restored however this ends.

    The screen closes when the work has ended, unless it is to stay. If the screen fails, the work continues without it.
    """
    from youbencha.tui.app import ScreenApp

    app = ScreenApp(screen)
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda _: app.work_ended())
    try:
        await _show(app)
        return await asyncio.shield(task)
    finally:
        task.cancel()  # without effect if it has ended
        await asyncio.wait([task])


async def _show(app: ScreenApp) -> None:
    """Show the app until it closes itself. If this is cancelled, the app is closed first."""
    display = asyncio.ensure_future(app.run_async())
    try:
        await asyncio.wait([display])
    except asyncio.CancelledError:
        app.exit()
        await asyncio.wait([display])
        raise
    finally:
        if app.output is not None:
            app.output.close()
    error = display.exception()
    if reason := one_line(f"{type(error).__name__}: {error}") if error else app.failure():
        print(f"The screen failed ({reason}). The work continues without it; Ctrl-C stops it.", file=sys.stderr)
        app.source.failed = True
