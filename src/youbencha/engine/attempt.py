"""Run one attempt of a trial, decide what follows from it, and find out about earlier ones."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pydantic import ValidationError

from youbencha.engine.matrix import Cell
from youbencha.engine.meta import UNFINISHED_REASONS, make_attempt_info
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.evaluators.base import VALIDATION_BROKEN
from youbencha.events import EventSink
from youbencha.store.arena import NOT_FAILED, AttemptInfo, TrialKey
from youbencha.store.arena_run import TrialDirectory
from youbencha.store.bundle import ResultsBundle
from youbencha.store.read import ledger_usage, load_results
from youbencha.text import iso_time, one_line
from youbencha.trial.agent_files import files_digest
from youbencha.trial.context import Host
from youbencha.trial.gateways import RUN_ACCOUNT, agent_account
from youbencha.trial.run import run_trial
from youbencha.usage import total_tokens
from youbencha.workspace.run_dir import ARTIFACTS

NODE_LOST = "NODE_LOST"
"""The code of an error: the machine that the attempt ran on is gone."""

_MAX_LOST = 3
"""If a trial loses a node once more, it may be the cause, and that counts as a failure."""


# What follows from an error of the harness, as tables. What follows from an agent's outcome: `trial/outcome.py`.


class Consequence(Enum):
    RETRY = "retry"
    """Another attempt may succeed."""
    SKIP = "skip"
    """No trial of this orchestrator on this task can be run until something is changed."""
    STOP = "stop"
    """No trial of the run can."""


_STOP = frozenset(
    {
        "ARTIFACTS_NOT_WRITABLE",
        "INSTRUCTIONS_ABOVE_WORKSPACE",
        "LEDGER_NOT_WRITABLE",
        "RESULTS_NOT_WRITABLE",
        "WORKSPACE_NOT_WRITABLE",
        "SANDBOX_ENGINE_DENIED",
        "SANDBOX_ENGINE_REMOTE",
        "GIT_NOT_FOUND",
    }
)

STOP_IF_REPEATED = frozenset({"SANDBOX_NO_ENGINE"})
"""It may come back within the time of all attempts; if not, the run is stopped."""

AFFECTS_ALL_TASKS = frozenset({"MODEL_UNUSABLE"})
"""Failures that the orchestrator would repeat on every task."""

_SKIP_ENDINGS = (
    "_AUTH_FAILED",
    "_BROKEN",
    "_CANNOT_RUN",
    "_DENIED",
    "_HOSTILE",
    "_IMPOSSIBLE",
    "_INVALID",
    "_INVALID_CONFIG",
    "_KEY_MISSING",
    "_KEY_REFUSED",
    "_MISMATCH",
    "_NOT_FOUND",
    "_NOT_INSTALLED",
    "_NO_MODEL",
    "_UNKNOWN",
    "_UNSUPPORTED",
    "_UNUSABLE",
)
"""The ends of codes of errors: something is missing or configured wrongly."""

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def decide_consequence(error: Exception) -> Consequence:
    """Decide what follows from an error before, or around, the agent's own work."""
    if any(isinstance(cause, OSError) and cause.errno in _DISK_FULL for cause in _chain(error)):
        return Consequence.STOP
    if isinstance(error, ConfigError):
        return Consequence.SKIP
    if isinstance(error, YouBenchaError):
        if error.code in _STOP:
            return Consequence.STOP
        if error.code.endswith(_SKIP_ENDINGS):
            return Consequence.SKIP
    return Consequence.RETRY


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


# Run an attempt.


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
    info: AttemptInfo
    bundle: ResultsBundle | None
    """None if the harness failed."""
    consequence: Consequence | None
    """What follows from its failure; None if the attempt counts."""
    error: Exception | None = None

    @property
    def hint(self) -> str | None:
        return self.error.hint if isinstance(self.error, YouBenchaError) else None

    @property
    def code(self) -> str | None:
        return self.error.code if isinstance(self.error, YouBenchaError) else None


class Executor(Protocol):
    """Runs attempts. The scheduler decides which, how many at the same time, and what follows from their results."""

    async def run_attempt(
        self, job: TrialJob, number: int, *, on_event: EventSink, keep_workspace: bool
    ) -> FinishedAttempt:
        """Run an attempt to its end, as `engine.attempt.run_attempt` does."""
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


async def run_attempt(job: TrialJob, number: int, run: Callable[[Path], Awaitable[ResultsBundle]]) -> FinishedAttempt:
    """Run an attempt to its end, or until it is cancelled; then it is added to the job as well.

    `run` runs it in that directory, which does not exist yet, and leaves its results there.
    """
    directory, started_at = job.directory.attempt(number), time.time()
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        await asyncio.to_thread(_check_files, job.cell)
        bundle = await run(directory)
    except asyncio.CancelledError:
        job.attempts.append(_describe_cancelled(job, number, started_at))
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, the other trials continue)
        info = _describe_failed(job, number, error, started_at)
        return FinishedAttempt(info, None, decide_consequence(error), error)
    assert bundle.outcome is not None
    broken = _validation_error(bundle)
    consequence = Consequence.SKIP if broken else Consequence.RETRY if bundle.outcome.retry else None
    return FinishedAttempt(_describe_finished(job, number, bundle), bundle, consequence, broken)


def _check_files(cell: Cell) -> None:
    """Refuse to run an agent with other files than the hash of its trials says."""
    plan = cell.plan
    if cell.files is not None and files_digest(plan.case.agent, plan.config_dir) != cell.files:
        raise YouBenchaError(
            "AGENT_FILES_MISMATCH",
            f"The files of {cell.orchestrator} have changed since the run began.",
            hint="Undo the change and use --resume, or start a new run.",
        )


def _validation_error(bundle: ResultsBundle) -> YouBenchaError | None:
    """Return why no result on this task can be validated, however often it is tried."""
    for error in (result.error for result in bundle.evaluators if result.error):
        if error.code == VALIDATION_BROKEN:
            return YouBenchaError(error.code, error.message, hint=error.hint)
    return None


# Describe attempts, of this process and of earlier ones.


def find_earlier_attempts(job: TrialJob, journaled: Iterable[Mapping[str, Any]]) -> ResultsBundle | None:
    """Add a job's earlier attempts from its directory and from the lines about them in the journal.

    Returns the results of the last one, if it was finished before the harness was killed.
    """
    known = {info.number: info for line in journaled if (info := _parse_info(line))}
    bundle = None
    for number in sorted({*known, *job.directory.attempts()}):
        bundle = _load_results(job, number)
        info = known.get(number) or (_describe_finished(job, number, bundle) if bundle else None)
        job.attempts.append(info or _describe_without_results(job, number, "killed", None))
    if bundle is None or bundle.outcome is None or job.attempts[-1].outcome in NOT_FAILED:
        return None
    return bundle


def _describe_finished(job: TrialJob, number: int, bundle: ResultsBundle) -> AttemptInfo:
    info = make_attempt_info(number, bundle)
    budget = bundle.agent.gateway.budget if bundle.agent and bundle.agent.gateway else None
    if budget is not None and budget.refused_by in (RUN_ACCOUNT, agent_account(job.key.orchestrator)):
        # Stopped because of what other trials had spent, which does not measure the agent.
        return info.model_copy(update={"outcome": "interrupted", "partial": True})
    return info


def _describe_cancelled(job: TrialJob, number: int, started_at: float) -> AttemptInfo:
    info = _describe_from_files(job, number) or _describe_without_results(job, number, "interrupted", started_at)
    if info.outcome == "killed":  # it ran on a node that did not send its final results
        interrupted = {"outcome": "interrupted", "reason": UNFINISHED_REASONS["interrupted"]}
        return info.model_copy(update={**interrupted, "duration_s": max(0.0, time.time() - started_at)})
    return info


def _describe_failed(job: TrialJob, number: int, error: Exception, started_at: float) -> AttemptInfo:
    message = error.message if isinstance(error, YouBenchaError) else f"{type(error).__name__}: {error}"
    info = _describe_from_files(job, number) or _describe_without_results(job, number, "infra_error", started_at)
    broken = isinstance(error, YouBenchaError) and error.code == VALIDATION_BROKEN
    update: dict[str, Any] = {"outcome": "verifier_error" if broken else "infra_error", "reason": one_line(message)}
    if isinstance(error, AttemptLost):
        lost_before = sum(attempt.outcome == "killed" for attempt in job.attempts)
        if error.code == NODE_LOST and lost_before < _MAX_LOST:
            update["outcome"] = "killed"
        update["duration_s"] = max(0.0, time.time() - started_at)
        if job.cell.plan.gateway is None:
            update["cost_usd"] = None
    return info.model_copy(update=update)


def _describe_from_files(job: TrialJob, number: int) -> AttemptInfo | None:
    """Describe an attempt from its results; None if its agent was not started."""
    bundle = _load_results(job, number)
    return _describe_finished(job, number, bundle) if bundle else None


def _describe_without_results(job: TrialJob, number: int, outcome: Any, started_at: float | None) -> AttemptInfo:
    """Describe an attempt that ended before its agent was started, and so cost nothing; or on a node that was lost."""
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


def _load_results(job: TrialJob, number: int) -> ResultsBundle | None:
    try:
        return load_results(job.directory.attempt(number) / ARTIFACTS)
    except YouBenchaError:
        return None


def _parse_info(line: Mapping[str, Any]) -> AttemptInfo | None:
    try:
        return AttemptInfo.model_validate(line.get("attempt"), extra="ignore")
    except ValidationError:
        return None
