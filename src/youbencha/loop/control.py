"""What a person can tell a running loop (pause, stop, guidance, try now), and the waits between its iterations."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator

from youbencha.events import EventSink, LoopWaiting
from youbencha.loop.decisions import REQUESTED, Continue, Request, Stop

_LOOK_EVERY_S = 1.0
"""How often a waiting loop looks for requests of other programs, and at the time: a computer may have slept."""
STOPPED = Stop("interrupted", "stopped by the user")


class LoopControl:
    """Shared by the loop and the screen (or the signal handler). All methods return at once."""

    def __init__(self) -> None:
        self.stop_now = asyncio.Event()
        """End the running iteration, and the loop."""
        self.changed = asyncio.Event()
        """Set by each method; the loop clears it when it waits."""
        self.paused = False
        self.waiting_skipped = False
        """Do not wait any longer: the next iteration starts now."""
        self._guidance: list[str] = []
        self.on_guidance: Callable[[str], None] = lambda _: None
        self.changes: Callable[[], Awaitable[str]] | None = None
        """The patch of what the loop has changed so far, if it takes checkpoints."""

    def stop(self) -> None:
        self.stop_now.set()
        self.changed.set()

    def pause(self) -> None:
        """Start no iteration after the running one, until `resume`."""
        self.paused = True
        self.changed.set()

    def resume(self) -> None:
        self.paused = False
        self.changed.set()

    def try_now(self) -> None:
        """End the wait for a usage limit, a backoff or a cooldown."""
        self.waiting_skipped = True
        self.changed.set()

    def guide(self, text: str) -> None:
        """Add guidance to the next prompt."""
        self._guidance.append(text)
        self.on_guidance(text)
        self.changed.set()

    async def diff(self) -> str:
        """What the loop has changed so far; empty if it is unknown."""
        return await self.changes() if self.changes else ""

    def take_guidance(self) -> tuple[str, ...]:
        taken, self._guidance = tuple(self._guidance), []
        return taken


class LoopClock:
    """How long the loop has run, in all its processes, without waiting for usage limits or for the user."""

    def __init__(self, before_ms: int) -> None:
        self._before_ms = before_ms
        self._started = time.monotonic()
        self._stopped_s = 0.0

    @property
    def elapsed_ms(self) -> int:
        return self._before_ms + round((time.monotonic() - self._started - self._stopped_s) * 1000)

    def left_s(self, most_s: float) -> float:
        return max(0.0, most_s - self.elapsed_ms / 1000)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        since = time.monotonic()
        try:
            yield
        finally:
            self._stopped_s += time.monotonic() - since


async def wait(
    decision: Continue,
    control: LoopControl,
    clock: LoopClock,
    on_event: EventSink,
    take_request: Callable[[], Request | None],
) -> Stop | None:
    """Wait as decided, unless the user skips it, and while the loop is paused; return why the loop ends, if it does."""
    control.waiting_skipped = False
    until, end = time.time() + decision.wait_s, time.monotonic() + decision.wait_s
    if decision.wait_s > 0:
        on_event(LoopWaiting(reason=decision.reason, until=until, kind=decision.kind))
    was_paused = False
    while not control.stop_now.is_set():
        if request := take_request():
            return REQUESTED[request]
        # By both clocks: one stops while the computer sleeps, the other may be set back.
        left_s = 0.0 if control.waiting_skipped else min(until - time.time(), end - time.monotonic())
        if left_s <= 0 and not control.paused:
            return None
        if control.paused and not was_paused:
            on_event(LoopWaiting(reason="paused by the user", until=until, kind="paused"))
        was_paused = control.paused
        counts = not control.paused and decision.kind != "usage_limit"
        with contextlib.nullcontext() if counts else clock.stopped(), contextlib.suppress(TimeoutError):
            control.changed.clear()
            await asyncio.wait_for(
                control.changed.wait(), _LOOK_EVERY_S if control.paused else min(left_s, _LOOK_EVERY_S)
            )
    return STOPPED
