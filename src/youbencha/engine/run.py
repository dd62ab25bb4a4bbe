"""Run a matrix of trials: in parallel, with retries, journaled, and resumable after a kill at any instant.

A trial is finished when its `meta.json` is on the disk. So running a matrix again in the same directory continues it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from youbencha.engine.attempts import FinishedAttempt, TrialJob
from youbencha.engine.executor import Executor, LocalExecutor, OpensExecutor
from youbencha.engine.failures import AFFECTS_ALL_TASKS, STOP_IF_REPEATED, Consequence
from youbencha.engine.journal import RUN_STARTED, Journal, read_journal
from youbencha.engine.matrix import Matrix
from youbencha.engine.meta import meta_of, meta_without_results
from youbencha.engine.resume import ResumeState, load_state, remove_leftovers
from youbencha.engine.schedule import FixedSchedule, Schedule
from youbencha.engine.updates import (
    AttemptBegun,
    AttemptEvent,
    AttemptFailed,
    ComparisonState,
    MatrixSummary,
    RunBegun,
    Stopping,
    TrialFinished,
    TrialsSkipped,
    UpdateSink,
    row_of,
)
from youbencha.errors import YouBenchaError
from youbencha.process import Redactor
from youbencha.spec.arena import RetrySpec
from youbencha.store.arena import TrialKey
from youbencha.store.arena_run import ArenaRun
from youbencha.store.bundle import ResultsBundle
from youbencha.store.layout import AGENTS_DIR
from youbencha.text import sentences
from youbencha.trial.budgets import Budgets
from youbencha.trial.context import LOOPBACK, Host
from youbencha.trial.kept_files import MANIFEST, keep_agent_files

RESUME_HINT = "Nothing that was finished is lost."


@dataclass(frozen=True, kw_only=True)
class MatrixOptions:
    """How the trials of a matrix run. Nothing here changes their results."""

    parallel: int = 1
    per_provider: Mapping[str, int] = field(default_factory=dict)
    """The most trials at the same time of a provider's models."""
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
    with run.locked():
        contents = await asyncio.to_thread(read_journal, run.path)
        async with AsyncExitStack() as opened:
            if contents.has_begun:
                await opened.enter_async_context(
                    remove_leftovers(matrix, host, run, keep_workspaces=options.keep_workspaces)
                )
            await asyncio.to_thread(_keep_agents, matrix, host, run)
            journal = await opened.enter_async_context(Journal(run.path, size=contents.size))
            state = await asyncio.to_thread(load_state, matrix, run, contents)
            plans = [(cell.orchestrator, cell.plan) for cell in matrix.cells]
            sharing = host.sharing(
                plans, log_dir=run.path, container_starts=options.container_starts, listen=options.listen
            )
            budgets = await opened.enter_async_context(sharing)
            for agent, spend in state.spent.items():
                budgets.agent(agent).charge(spend)
            executor: Executor = LocalExecutor(host)
            if open_executor is not None:
                executor = await opened.enter_async_context(open_executor(host))
            control = control or MatrixControl()
            schedule = _schedule_of(matrix)
            schedule.begin(state.finished)
            scheduler = _Scheduler(run, schedule, executor, options, on_update, journal, state, budgets, control, rng)
            summary = await scheduler.run()
            rows = tuple(sorted(summary.rows, key=lambda row: matrix.place(row.key)))
            most = matrix.until_decided.max_trials if matrix.until_decided else None
            return summary._replace(rows=rows, max_trials=most)


def _keep_agents(matrix: Matrix, host: Host, run: ArenaRun) -> None:
    """Keep a copy of each orchestrator's files. A resumed run already has it, and cannot continue with other files."""
    for cell in matrix.cells:
        target = run.path / AGENTS_DIR / cell.orchestrator
        if not (target / MANIFEST).exists():
            redactor = Redactor.for_env(host.env, cell.plan.env)
            keep_agent_files(cell.plan.case.agent, cell.plan.config_dir, target, redactor)


def _schedule_of(matrix: Matrix) -> Schedule:
    if matrix.until_decided is None:
        return FixedSchedule(matrix)
    from youbencha.engine.until_decided import UntilDecidedSchedule

    return UntilDecidedSchedule(matrix)


class _Scheduler:
    def __init__(
        self,
        run: ArenaRun,
        schedule: Schedule,
        executor: Executor,
        options: MatrixOptions,
        on_update: UpdateSink,
        journal: Journal,
        state: ResumeState,
        budgets: Budgets,
        control: MatrixControl,
        rng: random.Random | None,
    ) -> None:
        self._arena_run = run
        self._schedule = schedule
        self._executor = executor
        self._options = options
        self._on_update = on_update
        self._journal = journal
        self._state = state
        self._rows = state.finished
        self._budgets = budgets
        self._control = control
        self._random = rng or random.Random()  # noqa: S311 - only spreads retries
        self._retries: list[TrialJob] = []
        self._dropped = 0
        self._running: Counter[str | None] = Counter()
        self._waiting: dict[TrialKey, asyncio.TimerHandle] = {}
        self._spent: float | None = None
        for spend in state.spent.values():
            self._spent = _added(self._spent, None if spend.usd is None else float(spend.usd))
        self._skipped: dict[tuple[str | None, ...], TrialsSkipped] = {}
        """By orchestrator and task (None: all of its tasks), or by how a task is validated."""
        self._stopped: str | None = None
        self._hint: str | None = None
        self._budget_spent = False

    async def run(self) -> MatrixSummary:
        state = self._state
        trials = self._schedule.most
        self._journal.add("run_resumed" if state.resumed else RUN_STARTED, trials=trials, finished=len(self._rows))
        self._on_update(RunBegun(trials, len(self._rows), state.warnings))
        for comparison in self._schedule.comparisons:
            self._on_update(comparison)
        try:
            async with asyncio.TaskGroup() as group:
                await self._start_jobs(group)
        except asyncio.CancelledError:
            self._note_end("run_aborted")
            raise
        finally:
            for timer in self._waiting.values():
                timer.cancel()
        summary = self._summary()
        self._note_end("run_finished" if summary.complete else "run_stopped")
        return summary

    def _note_end(self, event: str) -> None:
        with suppress(YouBenchaError):  # the disk may be full; no result depends on the journal
            self._journal.add(event, finished=len(self._rows))

    async def _start_jobs(self, group: asyncio.TaskGroup) -> None:
        changed = self._control.changed
        while True:
            changed.clear()
            self._check_budget()
            if self._control.draining and self._stopped is None:
                self._stop("interrupted", RESUME_HINT)
            while (job := self._next()) is not None:
                self._running[job.cell.provider] += 1
                group.create_task(self._run_job(job))
            if not self._running.total() and (self._stopped or not self._waiting):
                return
            await changed.wait()

    def _next(self) -> TrialJob | None:
        """Take the first job that may start now."""
        if self._stopped is not None or self._running.total() >= self._options.parallel:
            return None
        for job in self._retries:
            if self._has_room(job.cell.provider):
                self._retries.remove(job)
                return job
        due = self._schedule.next(self._has_room)
        if due is None:
            return None
        earlier = self._state.earlier.pop(due.key, [])
        return TrialJob(key=due.key, cell=due.cell, directory=self._arena_run.trial(due.key), attempts=earlier)

    def _has_room(self, provider: str | None) -> bool:
        most = self._options.per_provider.get(provider) if provider else None
        return most is None or self._running[provider] < most

    async def _run_job(self, job: TrialJob) -> None:
        """Run one attempt, and decide what follows."""
        try:
            if self._is_skipped(job):
                self._drop(job)
            else:
                await self._attempt(job)
        except YouBenchaError as error:  # the journal or the results cannot be written
            self._stop(error.message, error.hint)
        finally:
            self._running[job.cell.provider] -= 1
            self._control.changed.set()

    async def _attempt(self, job: TrialJob) -> None:
        number, key = job.next_number(), job.key
        self._journal.add("attempt_started", **key._asdict(), attempt=number)
        self._on_update(AttemptBegun(key, number))
        try:
            attempt = await self._executor.run_attempt(
                job,
                number,
                on_event=lambda event: self._on_update(AttemptEvent(key, event)),
                keep_workspace=self._options.keep_workspaces,
            )
        except asyncio.CancelledError:
            with suppress(YouBenchaError):
                self._note(job)
            raise
        job.attempts.append(attempt.info)
        self._note(job)
        match attempt.consequence:
            case _ if attempt.info.outcome == "interrupted":
                self._on_update(AttemptFailed(key, attempt.info, None))  # by a budget that trials share
                if not self._budgets.total.exhausted:
                    self._drop(job)
            case None:
                await self._finish(job, attempt.bundle)
            case Consequence.RETRY:
                await self._retry(job, attempt)
            case Consequence.SKIP:
                if attempt.bundle is not None:  # the agent's work is done, and can be validated later
                    await self._finish(job, attempt.bundle)
                else:
                    self._drop(job)
                self._skip(job, attempt)
            case Consequence.STOP:
                self._on_update(AttemptFailed(key, attempt.info, None))
                self._stop(attempt.info.reason, _hint_of(attempt))

    def _note(self, job: TrialJob) -> None:
        """Note an attempt that has ended, and what it cost."""
        info = job.attempts[-1]
        self._spent = _added(self._spent, info.cost_usd)
        self._journal.add("attempt_finished", **job.key._asdict(), attempt=info.model_dump(mode="json"))

    async def _finish(self, job: TrialJob, bundle: ResultsBundle | None) -> None:
        key, cell = job.key, job.cell
        last = job.attempts[-1].number if bundle else None
        meta = meta_of(key, cell, bundle, job.attempts) if bundle else meta_without_results(key, cell, job.attempts)
        # Not interrupted: the attempt is over, and running it again would cost as much again.
        await asyncio.shield(asyncio.to_thread(job.directory.save, meta, task_text=cell.task_text, attempt=last))
        row = row_of(key, meta)
        self._rows[key] = row
        self._journal.add(
            "trial_finished",
            **key._asdict(),
            outcome=row.outcome,
            valid=row.valid,
            composite_score=row.composite_score,
            cost_usd=row.cost_usd,
            attempts=row.attempts,
        )
        self._on_update(TrialFinished(row))
        self._compare(self._schedule.finish(row))

    def _drop(self, job: TrialJob) -> None:
        self._dropped += 1
        self._compare(self._schedule.drop(job.key))

    def _compare(self, comparisons: Iterable[ComparisonState]) -> None:
        """Note what is known after a round of trials."""
        for each in comparisons:
            self._journal.add("round_finished", **each._asdict())
            self._on_update(each)

    async def _retry(self, job: TrialJob, attempt: FinishedAttempt) -> None:
        if job.failed < self._options.retries.attempts:
            delay = self._delay(job.failed)
            self._on_update(AttemptFailed(job.key, attempt.info, delay))
            self._waiting[job.key] = asyncio.get_running_loop().call_later(delay, self._requeue, job)
            return
        if isinstance(attempt.error, YouBenchaError) and attempt.error.code in STOP_IF_REPEATED:
            self._on_update(AttemptFailed(job.key, attempt.info, None))
            self._stop(attempt.info.reason, _hint_of(attempt))
        else:
            await self._finish(job, attempt.bundle)

    def _delay(self, failed: int) -> float:
        """Exponential backoff with full jitter, on top of the first delay."""
        backoff: float = self._options.retries.backoff_s * 2 ** (failed - 1)
        return backoff + self._random.uniform(0, backoff)

    def _requeue(self, job: TrialJob) -> None:
        del self._waiting[job.key]
        self._retries.append(job)
        self._control.changed.set()

    def _skip(self, job: TrialJob, attempt: FinishedAttempt) -> None:
        """Start no further trials that would fail for the same reason: of this orchestrator on this task, or on any.

        If the untouched task cannot be validated, no trials of other orchestrators on it are started either.
        """
        assert attempt.error is not None
        orchestrator, task, _ = job.key
        reason = sentences(_message_of(attempt.error), _hint_of(attempt))
        is_broken = attempt.bundle is None and attempt.info.outcome == "verifier_error"
        if attempt.bundle is None:
            why = {"reason": "the task cannot be validated"} if is_broken else {}  # the reason itself is shown once
            self._on_update(AttemptFailed(job.key, attempt.info.model_copy(update=why), None))
        if is_broken:
            self._skip_all(job.cell.validation_key, TrialsSkipped(None, task, reason))
            return
        everywhere = isinstance(attempt.error, YouBenchaError) and attempt.error.code in AFFECTS_ALL_TASKS
        place = orchestrator, None if everywhere else task
        self._skip_all(place, TrialsSkipped(*place, reason))

    def _skip_all(self, place: tuple[str | None, ...], skipped: TrialsSkipped) -> None:
        if place not in self._skipped:
            self._skipped[place] = skipped
            self._journal.add("skipped", **skipped._asdict())
            self._on_update(skipped)

    def _is_skipped(self, job: TrialJob) -> bool:
        orchestrator, task, _ = job.key
        if not self._budgets.total.exhausted and (reached := self._budgets.agent(orchestrator).exhausted):
            skipped = TrialsSkipped(orchestrator, None, f"its budget is spent: {reached.described()}. Raise it.")
            self._skip_all((orchestrator, None), skipped)
        return bool({(orchestrator, task), (orchestrator, None), job.cell.validation_key} & self._skipped.keys())

    def _check_budget(self) -> None:
        if self._stopped is None and (reached := self._budgets.total.exhausted) and self._has_work():
            self._stop(f"the budget of the run is spent: {reached.described()}", f"Raise it. {RESUME_HINT}")
            self._budget_spent = True

    def _has_work(self) -> bool:
        return self._schedule.left > self._running.total() + self._dropped

    def _stop(self, reason: str, hint: str | None) -> None:
        if self._stopped is None:
            self._stopped, self._hint = reason, hint
            self._on_update(Stopping(reason, self._running.total()))

    def _summary(self) -> MatrixSummary:
        schedule, complete = self._schedule, not self._schedule.left
        return MatrixSummary(
            trials=len(self._rows) + schedule.left,
            rows=tuple(self._rows.values()),
            skipped=tuple(self._skipped.values()),
            stopped=None if complete else self._stopped,
            hint=None if complete else self._hint,
            drained=self._control.draining,
            spent_usd=self._spent,
            comparisons=tuple(schedule.comparisons),
            budget_spent=self._budget_spent,
        )


def _added(total: float | None, cost: float | None) -> float | None:
    """Unknown is left out; if nothing is known, the total is unknown."""
    return total if cost is None else (total or 0) + cost


def _message_of(error: Exception) -> str:
    return error.message if isinstance(error, YouBenchaError) else str(error)


def _hint_of(attempt: FinishedAttempt) -> str | None:
    return attempt.error.hint if isinstance(attempt.error, YouBenchaError) else None
