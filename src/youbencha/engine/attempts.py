"""Run one attempt of a trial, and find out about earlier ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from youbencha.engine.failures import Consequence, consequence_of
from youbencha.engine.matrix import Cell, TrialKey
from youbencha.engine.meta import attempt_of
from youbencha.engine.results import TrialDirectory
from youbencha.errors import YouBenchaError
from youbencha.events import EventSink
from youbencha.log.arena import AttemptInfo
from youbencha.log.results import ResultsBundle
from youbencha.report.loading import load_results
from youbencha.text import iso_time, one_line
from youbencha.trial.context import Host
from youbencha.trial.run import run_trial
from youbencha.workspace.run_dir import ARTIFACTS

_NOT_FAILED = ("killed", "interrupted")
"""Such an attempt is repeated, and does not count as one of those allowed."""


@dataclass(kw_only=True)
class Job:
    """A trial that is not finished."""

    key: TrialKey
    cell: Cell
    position: int
    """In the order of the run."""
    directory: TrialDirectory
    attempts: list[AttemptInfo] = field(default_factory=list)

    @property
    def provider(self) -> str | None:
        """Of its model, as far as it is known."""
        return self.cell.plan.gateway.provider if self.cell.plan.gateway else None

    @property
    def failed(self) -> int:
        return sum(attempt.outcome not in _NOT_FAILED for attempt in self.attempts)

    def next_number(self) -> int:
        return max((*(attempt.number for attempt in self.attempts), *self.directory.attempts()), default=0) + 1


class Attempt(NamedTuple):
    """A finished attempt."""

    info: AttemptInfo
    bundle: ResultsBundle | None
    """None if the harness failed."""
    consequence: Consequence | None
    """Of a failure; None if the attempt counts."""
    error: Exception | None = None


async def run_attempt(job: Job, host: Host, number: int, *, on_event: EventSink, keep_workspace: bool) -> Attempt:
    """Run an attempt to its end, or until it is cancelled; then it is noted in the job, too."""
    directory, started_at = job.directory.attempt(number), time.time()
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        result = await run_trial(
            job.cell.plan,
            host,
            directory=directory,
            run_id=job.directory.attempt_id(number),
            on_event=on_event,
            delete_workspace=not keep_workspace,
        )
    except asyncio.CancelledError:
        job.attempts.append(_from_files(job, number) or _without_files(number, "interrupted", "", started_at))
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, the other trials continue)
        return Attempt(_of_error(job, number, error, started_at), None, consequence_of(error), error)
    info, outcome = attempt_of(number, result.bundle), result.bundle.outcome
    assert outcome is not None
    return Attempt(info, result.bundle, Consequence.RETRY if outcome.retry else None)


def earlier_attempts(job: Job, noted: Iterable[Mapping[str, Any]]) -> ResultsBundle | None:
    """Add a job's earlier attempts from its directory and from the lines about them in the journal.

    Returns the results of the last one, if it was finished before the harness was killed.
    """
    known = {info.number: info for line in noted if (info := _from_journal(line))}
    last = None
    for number in sorted({*known, *job.directory.attempts()}):
        last = _finished(job, number)
        info = known.get(number) or (attempt_of(number, last) if last else _from_files(job, number))
        job.attempts.append(info or _without_files(number, "killed", "", None))
    return last


def _of_error(job: Job, number: int, error: Exception, started_at: float) -> AttemptInfo:
    message = error.message if isinstance(error, YouBenchaError) else f"{type(error).__name__}: {error}"
    found = _from_files(job, number) or _without_files(number, "infra_error", "", started_at)
    return found.model_copy(update={"outcome": "infra_error", "reason": one_line(message)})


def _from_files(job: Job, number: int) -> AttemptInfo | None:
    """What an attempt left behind; None if its agent was not started."""
    try:
        return attempt_of(number, load_results(job.directory.attempt(number) / ARTIFACTS))
    except YouBenchaError:
        return None


def _without_files(number: int, outcome: Any, reason: str, started_at: float | None) -> AttemptInfo:
    """An attempt that ended before its agent was started, and so cost nothing."""
    return AttemptInfo(
        number=number,
        outcome=outcome,
        reason=reason,
        started_at=iso_time(started_at) if started_at else None,
        duration_s=max(0.0, time.time() - started_at) if started_at else None,
        cost_usd=0.0,
    )


def _from_journal(line: Mapping[str, Any]) -> AttemptInfo | None:
    try:
        return AttemptInfo.model_validate(line.get("attempt"), extra="ignore")
    except ValidationError:
        return None


def _finished(job: Job, number: int) -> ResultsBundle | None:
    try:
        bundle = load_results(job.directory.attempt(number) / ARTIFACTS)
    except YouBenchaError:
        return None
    return bundle if bundle.execution.complete and bundle.outcome is not None else None
