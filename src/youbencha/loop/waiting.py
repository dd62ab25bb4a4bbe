"""Wait between iterations: for a cooldown, a backoff, the end of a usage limit, or the user."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from youbencha.events import EventSink, LoopWaiting
from youbencha.loop.decisions import REQUESTED, End, GoOn

if TYPE_CHECKING:
    from youbencha.loop.control import LoopControl
    from youbencha.loop.decisions import Request

_LOOK_EVERY_S = 1.0
"""How often a waiting loop looks for requests of other programs, and at the time: a computer may have slept."""
STOPPED = End("interrupted", "stopped by the user")


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
    decision: GoOn,
    control: LoopControl,
    clock: LoopClock,
    on_event: EventSink,
    take_request: Callable[[], Request | None],
) -> End | None:
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
