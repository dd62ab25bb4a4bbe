"""Run iterations with one backend: its sandbox and its gateway are opened once, and stay open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import asyncio

    from youbencha.events import EventSink, RateLimitSeen
    from youbencha.log.model import FailureCause, Usage
    from youbencha.loop.backends import Backend
    from youbencha.loop.directory import LoopDirectory
    from youbencha.loop.model import IterationOutcome
    from youbencha.loop.plan import LoopPlan
    from youbencha.trial.context import Host


class IterationReport(NamedTuple):
    """How one session of the agent ended."""

    outcome: IterationOutcome
    reason: str | None = None
    """Why it did not complete."""
    cause: FailureCause | None = None
    text: str = ""
    """The agent's last text."""
    usage: Usage | None = None
    rate_limit: RateLimitSeen | None = None
    """The last one that rejected a request."""
    model: str | None = None
    started_at: float = 0.0
    duration_ms: int = 0


class IterationRunner:
    """An open backend."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, plan: LoopPlan, host: Host, backend: Backend, directory: LoopDirectory, on_event: EventSink
    ) -> AsyncIterator[IterationRunner]:
        raise NotImplementedError
        yield

    async def run(
        self, number: int, prompt: str, *, model: str | None, stop: asyncio.Event, seconds_left: float | None
    ) -> IterationReport:
        """Run one iteration. Whatever the agent does is a report; raises only if it cannot be started."""
        raise NotImplementedError
