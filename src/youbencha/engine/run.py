"""Run a matrix of trials: in parallel, with retries, journaled, and resumable after a kill at any instant.

A trial is finished when its `meta.json` is on the disk. So running a matrix again in the same directory continues it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from youbencha.engine.attempt import (
    AFFECTS_ALL_TASKS,
    STOP_IF_REPEATED,
    Consequence,
    Executor,
    FinishedAttempt,
    LocalExecutor,
    OpensExecutor,
    TrialJob,
)
from youbencha.engine.matrix import Matrix
from youbencha.engine.meta import make_meta
from youbencha.engine.resume import ResumeState, load_state, remove_leftovers
from youbencha.engine.schedule import FixedSchedule, Schedule, UntilDecidedSchedule
from youbencha.engine.updates import (
    AttemptEvent,
    AttemptFailed,
    AttemptStarted,
    ComparisonState,
    MatrixSummary,
    RunStarted,
    Stopping,
    TrialFinished,
    TrialsSkipped,
    UpdateSink,
)
from youbencha.errors import YouBenchaError
from youbencha.process import Redactor
from youbencha.spec.arena import RetrySpec
from youbencha.store.arena import TrialKey
from youbencha.store.arena_run import ArenaRun
from youbencha.store.bundle import ResultsBundle
from youbencha.store.journal import RUN_STARTED, Journal, read_journal
from youbencha.store.layout import AGENTS_DIR
from youbencha.text import sentences
from youbencha.trial.context import Host
from youbencha.trial.gateways import LOOPBACK, Budgets
from youbencha.trial.kept_files import MANIFEST, keep_agent_files

RESUME_HINT = "Nothing that was finished is lost."


@dataclass(frozen=True, kw_only=True)
class MatrixOptions:
    """How the trials of a matrix run. Nothing here changes their results."""

    parallel: int = 1
    per_provider: Mapping[str, int] = field(default_factory=dict)
    """How many trials of a provider's models may run at the same time."""
    container_starts: int | None = None
    retries: RetrySpec = field(default_factory=RetrySpec)
    keep_workspaces: bool = False
    listen: str = LOOPBACK
    """The address of the gateways. An executor on other machines needs one that they reach."""


class MatrixControl:
    """Asks a running matrix to start no further trials. To abort it, cancel its task."""

    def __init__(self) -> None:
        self.draining = False
        self.changed = asyncio.Event()

    def drain(self) -> None:
        self.draining = True
        self.changed.set()


async def run_matrix(
    matrix: Matrix,
    host: Host,
    run: ArenaRun,
    options: MatrixOptions,
    on_update: UpdateSink = lambda _: None,
    *,
    control: MatrixControl | None = None,
    open_executor: OpensExecutor | None = None,
    rng: random.Random | None = None,
) -> MatrixSummary:
    """Run all trials that are not finished in this run's directory, by default in this process.

    Raises `RUN_IN_USE` if another process works on it. A cancellation saves what running trials have so far; they are
    not finished.
    """
    async with AsyncExitStack() as opened:
        opened.enter_context(run.locked())
        contents = await asyncio.to_thread(read_journal, run.path)
        if contents.has_begun:
            leftovers = remove_leftovers(matrix, host, run, keep_workspaces=options.keep_workspaces)
            await opened.enter_async_context(leftovers)
        await asyncio.to_thread(_keep_agents, matrix, host, run)
        journal = opened.enter_context(Journal(run.path))
        state = await asyncio.to_thread(load_state, matrix, run, contents)
        plans = [(cell.orchestrator, cell.plan) for cell in matrix.cells]
        sharing = host.sharing(
            plans, log_dir=run.path, container_starts=options.container_starts, listen=options.listen
        )
        budgets = await opened.enter_async_context(sharing)
        for agent, spend in state.spent.items():
            budgets.agent(agent).charge(spend)
        scheduler = _Scheduler(
            run=run,
            schedule=FixedSchedule(matrix) if matrix.until_decided is None else UntilDecidedSchedule(matrix),
            executor=await opened.enter_async_context(open_executor(host)) if open_executor else LocalExecutor(host),
            options=options,
            journal=journal,
            state=state,
            budgets=budgets,
            control=control or MatrixControl(),
            on_update=on_update,
            random=rng or random.Random(),  # noqa: S311 - only spreads retries
        )
        summary = await scheduler.run_trials()
        return summary._replace(
            finished=tuple(sorted(summary.finished, key=lambda meta: matrix.place(meta.key))),
            max_trials=matrix.until_decided.max_trials if matrix.until_decided else None,
        )


def _keep_agents(matrix: Matrix, host: Host, run: ArenaRun) -> None:
    """Keep a copy of each orchestrator's files. A resumed run already has it, and cannot continue with other files."""
    for cell in matrix.cells:
        target = run.path / AGENTS_DIR / cell.orchestrator
        if not (target / MANIFEST).exists():
            redactor = Redactor.for_env(host.env, cell.plan.env)
            keep_agent_files(cell.plan.case.agent, cell.plan.config_dir, target, redactor)


@dataclass(kw_only=True)
class _Scheduler:
    """Starts the attempts of a run as soon as there is room, and decides what follows when one has ended."""

    run: ArenaRun
    schedule: Schedule
    executor: Executor
    options: MatrixOptions
    journal: Journal
    state: ResumeState
    budgets: Budgets
    control: MatrixControl
    on_update: UpdateSink
    random: random.Random

    _running: Counter[str | None] = field(default_factory=Counter)
    """How many attempts run, by provider."""
    _retries: deque[TrialJob] = field(default_factory=deque)
    """Trials whose next attempt may start."""
    _waiting: dict[TrialKey, asyncio.TimerHandle] = field(default_factory=dict)
    """Trials whose next attempt may start later."""
    _skipped: dict[tuple[str | None, ...], TrialsSkipped] = field(default_factory=dict)
    """Skipped trials by orchestrator and task (None: all of its tasks), or by how a task is validated."""
    _not_run: int = 0
    """How many scheduled trials were skipped."""
    _stopped: Stopping | None = None
    _hint: str | None = None
    _budget_spent: bool = False

    def __post_init__(self) -> None:
        self._finished = self.state.finished
        known = [float(spend.usd) for spend in self.state.spent.values() if spend.usd is not None]
        self._spent = sum(known) if known else None
        self.schedule.start(self._finished)

    async def run_trials(self) -> MatrixSummary:
        state, trials = self.state, self.schedule.max_trials
        self.journal.add("run_resumed" if state.resumed else RUN_STARTED, trials=trials, finished=len(self._finished))
        self.on_update(RunStarted(trials, len(self._finished), state.warnings))
        for comparison in self.schedule.comparisons:
            self.on_update(comparison)
        try:
            async with asyncio.TaskGroup() as group:
                await self._start_jobs(group)
        except asyncio.CancelledError:
            self._journal_end("run_aborted")
            raise
        finally:
            for timer in self._waiting.values():
                timer.cancel()
        summary = self._summarize()
        self._journal_end("run_finished" if summary.complete else "run_stopped")
        return summary

    def _journal_end(self, event: str) -> None:
        with suppress(YouBenchaError):  # the disk may be full; no result depends on the journal
            self.journal.add(event, finished=len(self._finished))

    def _summarize(self) -> MatrixSummary:
        remaining = self.schedule.remaining
        stopped = self._stopped if remaining else None
        return MatrixSummary(
            trials=len(self._finished) + remaining,
            finished=tuple(self._finished.values()),
            skipped=tuple(self._skipped.values()),
            stopped=stopped and stopped.reason,
            hint=self._hint if stopped else None,
            drained=self.control.draining,
            spent_usd=self._spent,
            comparisons=tuple(self.schedule.comparisons),
            budget_spent=self._budget_spent,
        )

    # Which attempt starts when.

    async def _start_jobs(self, group: asyncio.TaskGroup) -> None:
        changed = self.control.changed
        while True:
            changed.clear()
            self._check_budget()
            if self.control.draining:
                self._stop("interrupted", RESUME_HINT)
            while (job := self._next()) is not None:
                self._running[job.cell.provider] += 1
                group.create_task(self._run_job(job))
            if not self._running.total() and (self._stopped or not self._waiting):
                return
            await changed.wait()

    def _next(self) -> TrialJob | None:
        """Take the first job that may start now."""
        if self._stopped is not None or self._running.total() >= self.options.parallel:
            return None
        for job in self._retries:
            if self._has_room(job.cell.provider):
                self._retries.remove(job)
                return job
        trial = self.schedule.next(self._has_room)
        if trial is None:
            return None
        earlier = self.state.earlier.pop(trial.key, [])
        return TrialJob(key=trial.key, cell=trial.cell, directory=self.run.trial(trial.key), attempts=earlier)

    def _has_room(self, provider: str | None) -> bool:
        limit = self.options.per_provider.get(provider) if provider else None
        return limit is None or self._running[provider] < limit

    def _check_budget(self) -> None:
        has_work = self.schedule.remaining > self._running.total() + self._not_run
        if self._stopped is None and has_work and (reached := self.budgets.total.exhausted):
            self._stop(f"the budget of the run is spent: {reached.described()}", f"Raise it. {RESUME_HINT}")
            self._budget_spent = True

    def _stop(self, reason: str, hint: str | None) -> None:
        """Start no further trials."""
        if self._stopped is None:
            self._stopped, self._hint = Stopping(reason, self._running.total()), hint
            self.on_update(self._stopped)

    # One attempt, and what follows from it.

    async def _run_job(self, job: TrialJob) -> None:
        try:
            if self._is_skipped(job):
                self._skip_trial(job)
            else:
                await self._run_attempt(job)
        except YouBenchaError as error:  # the journal or the results cannot be written
            self._stop(error.message, error.hint)
        finally:
            self._running[job.cell.provider] -= 1
            self.control.changed.set()

    async def _run_attempt(self, job: TrialJob) -> None:
        number, key = job.next_number(), job.key
        self.journal.add("attempt_started", **key._asdict(), attempt=number)
        self.on_update(AttemptStarted(key, number))
        try:
            attempt = await self.executor.run_attempt(
                job,
                number,
                on_event=lambda event: self.on_update(AttemptEvent(key, event)),
                keep_workspace=self.options.keep_workspaces,
            )
        except asyncio.CancelledError:
            with suppress(YouBenchaError):
                self._record_attempt(job)
            raise
        job.attempts.append(attempt.info)
        self._record_attempt(job)
        await self._follow_up(job, attempt)

    def _record_attempt(self, job: TrialJob) -> None:
        """Record an attempt that has ended, and what it cost."""
        info = job.attempts[-1]
        if info.cost_usd is not None:
            self._spent = (self._spent or 0) + info.cost_usd
        self.journal.add("attempt_finished", **job.key._asdict(), attempt=info.model_dump(mode="json"))

    async def _follow_up(self, job: TrialJob, attempt: FinishedAttempt) -> None:
        match attempt.consequence:
            case _ if attempt.info.outcome == "interrupted":
                self.on_update(AttemptFailed(job.key, attempt.info, None))  # by a budget that trials share
                if not self.budgets.total.exhausted:
                    self._skip_trial(job)
            case None:
                await self._finish(job, attempt.bundle)
            case Consequence.RETRY:
                await self._retry(job, attempt)
            case Consequence.SKIP:
                if attempt.bundle is not None:  # the agent's work is done, and can be validated later
                    await self._finish(job, attempt.bundle)
                else:
                    self._skip_trial(job)
                self._skip_similar(job, attempt)
            case Consequence.STOP:
                self.on_update(AttemptFailed(job.key, attempt.info, None))
                self._stop(attempt.info.reason, attempt.hint)

    async def _finish(self, job: TrialJob, bundle: ResultsBundle | None) -> None:
        key, cell = job.key, job.cell
        last = job.attempts[-1].number if bundle else None
        meta = make_meta(key, cell, bundle, job.attempts)
        # Not interrupted: the attempt is over, and running it again would cost as much again.
        await asyncio.shield(asyncio.to_thread(job.directory.save, meta, task_text=cell.task_text, attempt=last))
        self._finished[key] = meta
        self.journal.add(
            "trial_finished",
            **key._asdict(),
            outcome=meta.outcome,
            valid=meta.valid,
            composite_score=meta.composite_score,
            cost_usd=meta.all_attempts_cost_usd,
            attempts=len(meta.attempts),
        )
        self.on_update(TrialFinished(meta))
        self._report_rounds(self.schedule.finish(meta))

    def _report_rounds(self, comparisons: Iterable[ComparisonState]) -> None:
        """Record what is known after a round of trials."""
        for comparison in comparisons:
            self.journal.add("round_finished", **comparison._asdict())
            self.on_update(comparison)

    async def _retry(self, job: TrialJob, attempt: FinishedAttempt) -> None:
        if job.failed < self.options.retries.attempts:
            backoff = self.options.retries.backoff_s * 2 ** (job.failed - 1)
            delay = backoff + self.random.uniform(0, backoff)  # with full jitter
            self.on_update(AttemptFailed(job.key, attempt.info, delay))
            self._waiting[job.key] = asyncio.get_running_loop().call_later(delay, self._requeue, job)
        elif attempt.code in STOP_IF_REPEATED:
            self.on_update(AttemptFailed(job.key, attempt.info, None))
            self._stop(attempt.info.reason, attempt.hint)
        else:
            await self._finish(job, attempt.bundle)

    def _requeue(self, job: TrialJob) -> None:
        del self._waiting[job.key]
        self._retries.append(job)
        self.control.changed.set()

    # Trials that are not run, because another has failed for a reason that they share.

    def _is_skipped(self, job: TrialJob) -> bool:
        orchestrator, task, _ = job.key
        if not self.budgets.total.exhausted and (reached := self.budgets.agent(orchestrator).exhausted):
            skipped = TrialsSkipped(orchestrator, None, f"its budget is spent: {reached.described()}. Raise it.")
            self._skip_all((orchestrator, None), skipped)
        return bool({(orchestrator, task), (orchestrator, None), job.cell.validation_key} & self._skipped.keys())

    def _skip_trial(self, job: TrialJob) -> None:
        self._not_run += 1
        self._report_rounds(self.schedule.skip(job.key))

    def _skip_similar(self, job: TrialJob, attempt: FinishedAttempt) -> None:
        """Start no further trials that would fail for the same reason: of this orchestrator on this task, or on any.

        If the untouched task cannot be validated, no trials of other orchestrators on it are started either.
        """
        assert attempt.error is not None
        orchestrator, task, _ = job.key
        message = attempt.error.message if isinstance(attempt.error, YouBenchaError) else str(attempt.error)
        reason = sentences(message, attempt.hint)
        is_broken = attempt.bundle is None and attempt.info.outcome == "verifier_error"
        if attempt.bundle is None:
            update = {"reason": "the task cannot be validated"} if is_broken else {}  # the reason itself is shown once
            self.on_update(AttemptFailed(job.key, attempt.info.model_copy(update=update), None))
        if is_broken:
            self._skip_all(job.cell.validation_key, TrialsSkipped(None, task, reason))
        else:
            place = orchestrator, None if attempt.code in AFFECTS_ALL_TASKS else task
            self._skip_all(place, TrialsSkipped(*place, reason))

    def _skip_all(self, place: tuple[str | None, ...], skipped: TrialsSkipped) -> None:
        if place not in self._skipped:
            self._skipped[place] = skipped
            self.journal.add("skipped", **skipped._asdict())
            self.on_update(skipped)
