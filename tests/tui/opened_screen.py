"""The screen in a terminal of a given size, without a terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from screen_stories import DIFF, NOW, loop_story
from youbencha.events import Event
from youbencha.loop.control import LoopControl
from youbencha.tui import app as screen_app
from youbencha.tui.app import ScreenApp
from youbencha.tui.screen import Screen


class Control(LoopControl):
    """The real control of a loop, with a diff."""

    async def diff(self) -> str:
        return DIFF


class Shown:
    """A screen that is open, with a clock that stands still until a test moves it."""

    def __init__(self, **options: object) -> None:
        self.time = NOW
        self.control: Control | None = Control() if options.pop("loop", True) else None
        self.screen = Screen("time-tracker", self.control, clock=lambda: self.time, **options)  # type: ignore[arg-type]
        self.app = ScreenApp(self.screen)
        self.pilot: Pilot[None]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def take(self, *events: Event) -> None:
        for event in events:
            self.screen.sink(event)
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything is painted."""
        await self.pilot.pause()
        self.app.tick()
        await self.pilot.pause()

    def text(self, view: Widget | None = None) -> str:
        """What is visible in a part of the screen; by default, in the transcript."""
        view = view or self.app.transcript
        if isinstance(view, Footer):
            return "  ".join(f"{key.key_display} {key.description}" for key in view.query(FooterKey))
        return "\n".join(view.render_line(y).text.rstrip() for y in range(view.size.height))

    def all(self) -> str:
        app = self.app
        return "\n".join(self.text(view) for view in (app.header, app.list, app.transcript, app.banner_row, app.footer))

    def selected(self) -> str:
        """The row that the cursor is on."""
        return next((line for line in self.text().splitlines() if line.startswith("▌")), "")


@asynccontextmanager
async def opened(
    events: Iterable[Event] | None = None, *, size: tuple[int, int] = (120, 40), **options: object
) -> AsyncIterator[Shown]:
    """The screen with these events; by default, those of a loop."""
    screen_app.REFRESHES_PER_SECOND = 1  # `settle` refreshes; Textual's pilot waits until nothing is being done
    shown = Shown(**options)
    for event in loop_story() if events is None else events:
        shown.screen.sink(event)
    async with shown.app.run_test(size=size) as pilot:
        shown.pilot = pilot
        await shown.settle()
        yield shown
