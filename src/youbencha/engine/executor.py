"""Where the attempts of a matrix run: in this process, or on other machines."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from youbencha.engine.attempts import FinishedAttempt, TrialJob, run_attempt
from youbencha.events import EventSink
from youbencha.store.bundle import ResultsBundle
from youbencha.trial.context import Host
from youbencha.trial.run import run_trial


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
        async def run(directory: Path) -> ResultsBundle:
            result = await run_trial(
                job.cell.plan,
                self._host,
                directory=directory,
                run_id=job.directory.attempt_id(number),
                agent=job.key.orchestrator,
                on_event=on_event,
                delete_workspace=not keep_workspace,
            )
            return result.bundle

        return await run_attempt(job, number, run)
