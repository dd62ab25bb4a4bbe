"""Where the attempts of a matrix run: in this process, or on other machines."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from youbencha.engine.attempts import FinishedAttempt, TrialJob, run_attempt
from youbencha.events import EventSink
from youbencha.trial.context import Host


class Executor(Protocol):
    """Runs attempts. The scheduler decides which, how many at the same time, and what follows from their results."""

    async def run_attempt(
        self, job: TrialJob, number: int, *, on_event: EventSink, keep_workspace: bool
    ) -> FinishedAttempt:
        """Run an attempt to its end, as `engine.attempts.run_attempt` does."""
        ...


class OpensExecutor(Protocol):
    """Opens an executor for a run whose trials share gateways and budgets by then."""

    def __call__(self, host: Host) -> AbstractAsyncContextManager[Executor]: ...


class LocalExecutor:
    """Runs attempts in this process."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def run_attempt(
        self, job: TrialJob, number: int, *, on_event: EventSink, keep_workspace: bool
    ) -> FinishedAttempt:
        return await run_attempt(job, self._host, number, on_event=on_event, keep_workspace=keep_workspace)
