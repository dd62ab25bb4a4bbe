"""Run one attempt of a trial, and find out about earlier ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from youbencha.engine.failures import Consequence, consequence_of
from youbencha.engine.matrix import Cell
from youbencha.engine.meta import UNFINISHED_REASONS, attempt_of
from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import VALIDATION_BROKEN
from youbencha.store.arena import NOT_FAILED, AttemptInfo, TrialKey
from youbencha.store.arena_run import TrialDirectory
from youbencha.store.bundle import ResultsBundle
from youbencha.store.read import ledger_usage, load_results
from youbencha.text import iso_time, one_line
from youbencha.trial.agent_files import files_digest
from youbencha.trial.budgets import RUN_ACCOUNT, agent_account
from youbencha.usage import total_tokens
from youbencha.workspace.run_dir import ARTIFACTS

NODE_LOST = "NODE_LOST"
"""The code of an error: the machine that the attempt ran on is gone."""


_MOST_LOST = 3
"""If a trial loses a node once more, it may be the cause, and that counts as a failure."""


class AttemptLost(YouBenchaError):
    """An attempt ended without results. What it cost is known only if its requests went through the gateway."""


@dataclass(kw_only=True)
class TrialJob:
    """A trial that is not finished."""

    key: TrialKey
    cell: Cell
    directory: TrialDirectory
    attempts: list[AttemptInfo] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """How many of the attempts that are allowed have failed."""
        return sum(attempt.outcome not in NOT_FAILED for attempt in self.attempts)

    def next_number(self) -> int:
        return max((*(attempt.number for attempt in self.attempts), *self.directory.attempts()), default=0) + 1


class FinishedAttempt(NamedTuple):
    """A finished attempt."""

    info: AttemptInfo
    bundle: ResultsBundle | None
    """None if the harness failed."""
    consequence: Consequence | None
    """Of a failure; None if the attempt counts."""
    error: Exception | None = None


async def run_attempt(job: TrialJob, number: int, run: Callable[[Path], Awaitable[ResultsBundle]]) -> FinishedAttempt:
    """Run an attempt to its end, or until it is cancelled; then it is noted in the job, too.

    `run` runs it in that directory, which does not exist yet, and leaves its results there.
    """
    directory, started_at = job.directory.attempt(number), time.time()
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        await asyncio.to_thread(_check_files, job.cell)
        bundle = await run(directory)
    except asyncio.CancelledError:
        job.attempts.append(_cancelled_attempt(job, number, started_at))
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, the other trials continue)
        return FinishedAttempt(_of_error(job, number, error, started_at), None, consequence_of(error), error)
    outcome, broken = bundle.outcome, _broken_validation(bundle)
    assert outcome is not None
    consequence = Consequence.SKIP if broken else Consequence.RETRY if outcome.retry else None
    return FinishedAttempt(_info(job, number, bundle), bundle, consequence, broken)


def _check_files(cell: Cell) -> None:
    """Refuse to run an agent with other files than the hash of its trials says."""
    plan = cell.plan
    if cell.files is not None and files_digest(plan.case.agent, plan.config_dir) != cell.files:
        raise YouBenchaError(
            "AGENT_FILES_MISMATCH",
            f"The files of {cell.orchestrator} have changed since the run began.",
            hint="Undo the change and use --resume; or start a new run.",
        )


def earlier_attempts(job: TrialJob, noted: Iterable[Mapping[str, Any]]) -> ResultsBundle | None:
    """Add a job's earlier attempts from its directory and from the lines about them in the journal.

    Returns the results of the last one, if it was finished before the harness was killed.
    """
    known = {info.number: info for line in noted if (info := _from_journal(line))}
    bundle = None
    for number in sorted({*known, *job.directory.attempts()}):
        bundle = _results(job, number)
        info = known.get(number) or (_info(job, number, bundle) if bundle else None)
        job.attempts.append(info or _without_results(job, number, "killed", None))
    if bundle is None or bundle.outcome is None or job.attempts[-1].outcome in NOT_FAILED:
        return None
    return bundle


def _info(job: TrialJob, number: int, bundle: ResultsBundle) -> AttemptInfo:
    info = attempt_of(number, bundle)
    if _by_shared_budget(bundle, job.key.orchestrator):
        return info.model_copy(update={"outcome": "interrupted", "partial": True})
    return info


def _cancelled_attempt(job: TrialJob, number: int, started_at: float) -> AttemptInfo:
    """Describe an attempt that was cancelled."""
    info = _from_files(job, number) or _without_results(job, number, "interrupted", started_at)
    if info.outcome == "killed":  # it ran on a node that did not send its final results
        interrupted = {"outcome": "interrupted", "reason": UNFINISHED_REASONS["interrupted"]}
        return info.model_copy(update={**interrupted, "duration_s": max(0.0, time.time() - started_at)})
    return info


def _of_error(job: TrialJob, number: int, error: Exception, started_at: float) -> AttemptInfo:
    message = error.message if isinstance(error, YouBenchaError) else f"{type(error).__name__}: {error}"
    found = _from_files(job, number) or _without_results(job, number, "infra_error", started_at)
    broken = isinstance(error, YouBenchaError) and error.code == VALIDATION_BROKEN
    update: dict[str, Any] = {"outcome": "verifier_error" if broken else "infra_error", "reason": one_line(message)}
    if isinstance(error, AttemptLost):
        lost_before = sum(attempt.outcome == "killed" for attempt in job.attempts)
        if error.code == NODE_LOST and lost_before < _MOST_LOST:
            update["outcome"] = "killed"
        update["duration_s"] = max(0.0, time.time() - started_at)
        if job.cell.plan.gateway is None:
            update["cost_usd"] = None
    return found.model_copy(update=update)


def _broken_validation(bundle: ResultsBundle) -> YouBenchaError | None:
    """Why no result on this task can be validated, however often it is tried."""
    for error in (result.error for result in bundle.evaluators if result.error):
        if error.code == VALIDATION_BROKEN:
            return YouBenchaError(error.code, error.message, hint=error.hint)
    return None


def _by_shared_budget(bundle: ResultsBundle, orchestrator: str) -> bool:
    """Whether the agent was stopped because of what other trials had spent, which does not measure it."""
    budget = bundle.agent.gateway.budget if bundle.agent and bundle.agent.gateway else None
    return budget is not None and budget.refused_by in (RUN_ACCOUNT, agent_account(orchestrator))


def _from_files(job: TrialJob, number: int) -> AttemptInfo | None:
    """What an attempt left behind; None if its agent was not started."""
    bundle = _results(job, number)
    return _info(job, number, bundle) if bundle else None


def _results(job: TrialJob, number: int) -> ResultsBundle | None:
    try:
        return load_results(job.directory.attempt(number) / ARTIFACTS)
    except YouBenchaError:
        return None


def _without_results(job: TrialJob, number: int, outcome: Any, started_at: float | None) -> AttemptInfo:
    """An attempt that ended before its agent was started, and so cost nothing; or on a node that was lost."""
    usage = ledger_usage(job.directory.attempt(number) / ARTIFACTS)
    return AttemptInfo(
        number=number,
        outcome=outcome,
        reason=UNFINISHED_REASONS.get(outcome, ""),
        started_at=iso_time(started_at) if started_at else None,
        duration_s=max(0.0, time.time() - started_at) if started_at else None,
        total_tokens=total_tokens(usage.tokens) if usage else None,
        cost_usd=usage.cost_usd if usage else 0.0,
        partial=usage is not None,
    )


def _from_journal(line: Mapping[str, Any]) -> AttemptInfo | None:
    try:
        return AttemptInfo.model_validate(line.get("attempt"), extra="ignore")
    except ValidationError:
        return None
