"""Run a loop: iterations of an agent in the user's directory, until the work is verified, or a limit is reached."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, TypeVar

from youbencha.errors import YouBenchaError
from youbencha.events import (
    CompletionRefused,
    EventSink,
    GuidanceGiven,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    ProgressNote,
    TopicPublished,
    WarningRaised,
)
from youbencha.gateway.ledger import read_ledger
from youbencha.loop.backends import Backend
from youbencha.loop.completion import Claim, read_claim
from youbencha.loop.control import STOPPED, LoopClock, LoopControl, wait
from youbencha.loop.decisions import (
    Continue,
    Decision,
    IterationResult,
    Request,
    Stop,
    decide,
    interrupted_record,
    limit_reached,
    state_after,
    state_after_crash,
)
from youbencha.loop.directory import RESTART_REQUEST, STOP_REQUEST, LoopDirectory
from youbencha.loop.gates import GateReport
from youbencha.loop.hats import NextTurn, Published, after_iteration, first_events, next_turn
from youbencha.loop.iteration import IterationRunner, open_runner
from youbencha.loop.notes import Notes, read_notes
from youbencha.loop.plan import LoopPlan
from youbencha.loop.prompt import PromptParts, build_prompt
from youbencha.loop.summary import total_usage, write_summary
from youbencha.loop.topics import MAX_LINE, TopicLog
from youbencha.process import Redactor
from youbencha.store.layout import LEDGER_FILE
from youbencha.store.loops import EXIT_CODES, IterationRecord, LoopHistory, LoopState
from youbencha.text import iso_time, plural
from youbencha.trial.context import Host
from youbencha.trial.gateway_plan import check_models
from youbencha.trial.gateways import Budgets
from youbencha.workspace.checkpoints import Checkpoint, Checkpoints
from youbencha.workspace.run_dir import remove_private

T = TypeVar("T")
_REQUESTS: dict[str, Request] = {STOP_REQUEST: "stop", RESTART_REQUEST: "restart"}


def new_history(plan: LoopPlan, loop_id: str) -> LoopHistory:
    """The state of a loop that begins."""
    state = LoopState(
        loop_id=loop_id,
        config_file=str(plan.config_file) if plan.config_file else None,
        options=plan.options,
        started_at=iso_time(time.time()),
        objective=plan.objective,
    )
    return LoopHistory(state, ())


def load_history(directory: LoopDirectory) -> LoopHistory:
    """Load a loop, to continue it. Raises YouBenchaError if that is not possible; nothing is changed."""
    history = directory.load()
    if history.state.outcome in ("completed", "cancelled"):
        raise YouBenchaError(
            "LOOP_HAS_ENDED",
            f"The loop {directory.loop_id} has already ended: {history.state.outcome}.",
            hint="Start a new one: `ralph run` without --continue.",
        )
    return history


def resume(directory: LoopDirectory, history: LoopHistory, plan: LoopPlan) -> LoopHistory:
    """Complete the journal, and record the iteration that ran when the loop was killed, if one did.

    If the loop had ended, its failures are forgotten: the user wants another attempt. Its limits hold.
    """
    state, records = history
    if state.last is not None and all(record.iteration != state.last.iteration for record in records):
        directory.append(state.last)  # the harness died between the state and the journal
        records = (*records, state.last)
    if state.running is not None:
        record = interrupted_record(state, plan.backend.name, ledger_entries(directory))
        state = state_after_crash(state, record)
        directory.save(state)
        directory.append(record)
        records = (*records, record)
    if state.outcome is not None:
        forgotten = ("consecutive_failures", "step_failures", "escalation", "usage_limits", "repeats")
        state = state.model_copy(update={"outcome": None, "reason": None, **dict.fromkeys(forgotten, 0)})
    return LoopHistory(state.model_copy(update={"objective": plan.objective, "options": plan.options}), records)


def ledger_entries(directory: LoopDirectory) -> Iterator[dict[str, Any]]:
    """What went through the gateways of a loop."""
    for ledger in sorted(directory.path.glob(f"backends/*/artifacts/{LEDGER_FILE}*")):
        with suppress(OSError):  # an agent could have replaced it
            yield from read_ledger(ledger)


async def run_loop(
    plan: LoopPlan,
    host: Host,
    control: LoopControl,
    on_event: EventSink,
    *,
    directory: LoopDirectory,
    history: LoopHistory,
) -> LoopState:
    """Run a loop to its end, and return its last state. `history` is empty, or that of a loop to be continued."""
    if sys.platform == "win32":
        raise YouBenchaError(
            "NOT_ON_WINDOWS", "Loops are not supported on Windows.", hint="Run them on Linux or macOS, or in WSL."
        )
    gateways = [(backend.name, backend.gateway) for backend in plan.backends if backend.gateway]
    await check_models(model for name, gateway in gateways for model in gateway.agent_model(name))
    left = _left(plan.spec.event_loop.max_cost_usd, history.state.cost_usd)
    if history.records:  # an earlier process may have been killed
        await asyncio.to_thread(remove_private, directory.loop_id, host.cache_dir)
    async with AsyncExitStack() as opened:
        if gateways:
            await opened.enter_async_context(host.sharing_budgets(Budgets((), total_usd=left), log_dir=directory.path))
        checkpoints = await _open_checkpoints(plan, host, directory, history.state, on_event, opened)
        loop = _Loop(plan, host, control, on_event, directory, history, checkpoints, opened)
        control.on_guidance = loop.on_guidance
        control.changes = (lambda: checkpoints.diff(0)) if checkpoints else None
        return await loop.run()


class _Loop:
    """A loop that runs. `state` is what is known after the last iteration."""

    def __init__(
        self,
        plan: LoopPlan,
        host: Host,
        control: LoopControl,
        on_event: EventSink,
        directory: LoopDirectory,
        history: LoopHistory,
        checkpoints: Checkpoints | None,
        opened: AsyncExitStack,
    ) -> None:
        self.plan, self.host, self.control, self.directory = plan, host, control, directory
        self.spec = plan.spec.event_loop
        self.on_event = on_event
        self.state, self.records = history.state, list(history.records)
        self.checkpoints = checkpoints
        self.opened = opened
        self.runners: dict[int, IterationRunner] = {}
        self.redactor = Redactor.for_env(host.env, *(backend.secrets for backend in plan.backends))
        self.clock = LoopClock(self.state.elapsed_ms)
        self.topics = TopicLog(directory.events_file, directory.tree)

    async def run(self) -> LoopState:
        """Run iterations until a decision ends the loop. A cancellation ends the agent, too."""
        self._announce()
        decision: Decision = limit_reached(self.state, self.spec) or Continue()
        try:
            while isinstance(decision, Continue):
                decision = await self._wait(decision) or await self._iterate()
        except asyncio.CancelledError:
            self._finish(Stop("interrupted", "the program was ended"))
            raise
        except YouBenchaError as error:  # a backend could not be opened, or nothing can be written
            ended = self._finish(Stop("failed", str(error)))
            if not self.records:
                raise
            return ended
        return self._finish(decision)

    async def _iterate(self) -> Decision:
        number = self.state.iterations + 1
        turn = next_turn(self.plan.spec, self.state.pending, self.state.activations)
        backend = self.plan.backend_for(turn.hat, self.state.escalation)
        runner = self.runners.get(id(backend)) or await self._unless_stopped(self._open_runner(backend))
        if runner is None:
            return STOPPED
        self._begin(number, turn, backend)
        result = await runner.run(
            number,
            build_prompt(self._prompt_parts(number, turn)),
            directory=self.directory,
            stop=self.control.stop_now,
            seconds_left=self.clock.left_s(self.spec.max_runtime_seconds),
            usd_left=_left(self.spec.max_cost_usd, self.state.cost_usd),
            hat=turn.hat,
        )
        if backend.gateway is not None:  # each iteration has its own key
            self._update_redactor()
        published, notes = self._read_topics(turn), self._read_notes(turn)
        claim = self._claim(result.text, published, notes, turn) if result.outcome == "completed" else Claim()
        result = replace(
            result,
            number=number,
            backend=backend.name,
            turn=turn,
            published=published,
            claim=claim,
            gates=await self._run_gates(number, runner) if claim.done else None,
            checkpoint=await self._take_checkpoint(number),
            tasks_digest=notes.tasks_digest,
            request=self._request(),
        )
        return self._commit(result)

    def _begin(self, number: int, turn: NextTurn, backend: Backend) -> None:
        """Give the iteration its number, before it starts: after a crash, it is known that it ran."""
        self._read_guidance()
        guidance = (*self.state.guidance, *self.control.take_guidance())
        self._save(running=number, running_since=iso_time(time.time()), guidance=guidance)
        for event in turn.published:
            self.on_event(TopicPublished(topic=event.topic, payload=event.payload, source="loop"))
        self.on_event(
            IterationStarted(
                iteration=number,
                backend=backend.name,
                model=backend.model,
                hat=turn.hat,
                attempt=self.state.consecutive_failures + 1,
            )
        )

    def _commit(self, result: IterationResult) -> Decision:
        """Record an iteration: with the state on the disk, it has ended. Then decide what follows."""
        record = result.record(self.spec.completion_promise)
        self.state = state_after(self.state, result, record, self.spec)
        self._save()
        self._append(record)
        if warning := self.host.cache.take_warning():
            self._warn(*warning)
        return decide(self.state, result, self.spec, now=time.time(), random=random.random)

    def _append(self, record: IterationRecord) -> None:
        self.directory.append(record)
        self.records.append(record)
        if record.refusal:
            self.on_event(CompletionRefused(reason=record.refusal))
        self.on_event(
            IterationEnded(
                iteration=record.iteration,
                outcome=record.outcome,
                reason=record.reason,
                duration_ms=record.duration_ms,
                input_tokens=record.input_tokens,
                output_tokens=record.output_tokens,
                cost_usd=record.cost_usd,
                files_changed=record.files_changed,
                usage_source=record.usage_source,
            )
        )

    async def _wait(self, decision: Continue) -> Stop | None:
        """Wait as decided, and while the loop is paused; return why the loop ends instead, if it does."""
        end = await wait(decision, self.control, self.clock, self.on_event, self._request)
        self.state = self.state.model_copy(update={"elapsed_ms": self.clock.elapsed_ms})
        return end or limit_reached(self.state, self.spec)

    async def _open_runner(self, backend: Backend) -> IterationRunner:
        """Open a backend. It stays open until the end of the loop."""
        opening = open_runner(self.plan, self.host, backend, self.directory, self.on_event)
        runner = self.runners[id(backend)] = await self.opened.enter_async_context(opening)
        self._update_redactor()
        return runner

    def _update_redactor(self) -> None:
        secrets = (runner.secrets for runner in self.runners.values())
        self.redactor = Redactor.for_env(self.host.env, *secrets)

    def _prompt_parts(self, number: int, turn: NextTurn) -> PromptParts:
        state, notes = self.state, self._read_notes(turn)
        return PromptParts(
            spec=self.plan.spec,
            objective=state.objective,
            iteration=number,
            hat=turn.hat,
            events=turn.events,
            guidance=state.guidance,
            refusal=state.refusal,
            gate_output=state.gate_output,
            failure=state.last.reason if state.last and state.last.outcome == "failed" else None,
            scratchpad=notes.scratchpad,
            tasks=notes.tasks,
            memories=notes.memories,
        )

    def _read_notes(self, turn: NextTurn) -> Notes:
        notes = read_notes(self.plan.spec, self.plan.directory, self.state.loop_id, turn.hat)
        for problem in notes.problems:
            self._warn("NOTES_UNREADABLE", problem)
        return notes._replace(open_tasks=tuple(map(self.redactor.text, notes.open_tasks)))

    def _claim(self, text: str, published: Published, notes: Notes, turn: NextTurn) -> Claim:
        topics = [event.topic for event in published.accepted]
        seen, open_tasks = self.state.seen_topics, notes.open_tasks
        return read_claim(text, topics, self.plan.spec, seen, hat=turn.hat, open_tasks=open_tasks)

    def _read_topics(self, turn: NextTurn) -> Published:
        """Read what the agent has published; what is malformed is a warning."""
        try:
            new = self.topics.read_new(self.state.events_offset)
            end = self.topics.size()
        except OSError as error:
            self._warn("EVENTS_UNREADABLE", f"The events file {error.strerror}.")
            return after_iteration(self.plan.spec, turn.hat, ())
        too_many = end - new.offset > MAX_LINE  # what an agent publishes later must not wait for all of them
        self.state = self.state.model_copy(update={"events_offset": end if too_many else new.offset})
        if too_many:
            self._warn("EVENTS_LEFT_OUT", f"Too many events: {end - new.offset:,} bytes of them were not read.")
        for line in new.malformed:
            self._warn("EVENT_MALFORMED", self.redactor.text(f"{line.problem}: {line.text}"))
        mask = self.redactor.text
        events = [replace(event, topic=mask(event.topic), payload=mask(event.payload)) for event in new.events]
        published = after_iteration(self.plan.spec, turn.hat, events)
        for event in published.accepted:
            self.on_event(TopicPublished(topic=event.topic, payload=event.payload, source="agent"))
        if published.default:
            self.on_event(TopicPublished(topic=published.default, payload="", source="default"))
        for topic in published.out_of_scope:
            self._warn("EVENT_OUT_OF_SCOPE", f"Ignored the event {topic}: the hat {turn.hat} may not publish it.")
        return published

    async def _run_gates(self, number: int, runner: IterationRunner) -> GateReport | None:
        """Run the gates, if there are any; None if the user stops the loop meanwhile."""
        if not self.plan.gates:
            return GateReport((), "")
        start = self.checkpoints.start if self.checkpoints else None
        return await self._unless_stopped(runner.run_gates(self.directory.path / "iterations" / str(number), start))

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for the work; None if the user stops the loop before it is done."""
        running = asyncio.create_task(work)
        stopping = asyncio.create_task(self.control.stop_now.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return running.result() if running.done() else None
        finally:
            for task in (running, stopping):
                task.cancel()
            await asyncio.wait({running, stopping})

    async def _take_checkpoint(self, number: int) -> Checkpoint | None:
        if self.checkpoints is None or number % self.spec.checkpoint_interval:
            return None
        try:
            taken = await self.checkpoints.take(number, f"after iteration {number}")
        except YouBenchaError as error:
            self._warn(error.code, f"Iteration {number} has no checkpoint: {error.message}")
            return None
        if taken.warning:
            self._warn("CHECKPOINT", taken.warning)
        return taken

    def _request(self) -> Request | None:
        return _REQUESTS.get(self.directory.take_request() or "")

    def _announce(self) -> None:
        state, spec = self.state, self.spec
        while self._request():  # of an earlier loop
            pass
        if not state.pending:
            pending = first_events(self.plan.spec, resumed=state.iterations > 0)
            self.state = state.model_copy(update={"pending": pending})
        self._save()
        if self.plan.detected:
            self.on_event(ProgressNote(text=f"{self.plan.backend.title} is the first installed agent"))
        for problem in self.plan.warnings:
            self._warn("CONFIGURATION", str(problem))
        self.on_event(
            LoopStarted(
                loop_id=state.loop_id,
                directory=str(self.plan.directory),
                backend=self.plan.backend.name,
                model=self.plan.backend.model,
                max_iterations=spec.max_iterations,
                max_runtime_s=spec.max_runtime_seconds,
                max_cost_usd=spec.max_cost_usd,
                first_iteration=state.iterations + 1,
            )
        )

    def _finish(self, end: Stop) -> LoopState:
        if self.state.running is not None:  # it was cancelled
            record = interrupted_record(self.state, self.plan.backend.name, ledger_entries(self.directory))
            self.state = state_after_crash(self.state, record)
            self._save()
            self._append(record)
        self._read_guidance()
        guidance = (*self.state.guidance, *self.control.take_guidance())
        reason = self.redactor.text(end.reason)
        self._save(outcome=end.outcome, reason=reason, guidance=guidance)
        write_summary(self.directory, self.state, self.records)
        totals = total_usage(self.records)
        self.on_event(
            LoopEnded(
                outcome=end.outcome,
                reason=reason,
                exit_code=EXIT_CODES[end.outcome],
                iterations=len(self.records),
                elapsed_ms=self.state.elapsed_ms,
                input_tokens=totals.input_tokens,
                output_tokens=totals.output_tokens,
                cost_usd=totals.cost_usd,
                partial=totals.partial,
                own_figures=totals.own_figures,
            )
        )
        return self.state

    def _save(self, **updates: object) -> None:
        self.state = self.state.model_copy(update={**updates, "elapsed_ms": self.clock.elapsed_ms})
        self.directory.save(self.state)

    def _read_guidance(self) -> None:
        """Read the guidance that was given with `ralph guide` in another shell."""
        try:
            new = self.directory.guidance.read_new(self.state.guidance_offset)
        except OSError:  # an agent has put something else in its place
            return
        self.state = self.state.model_copy(update={"guidance_offset": new.offset})
        for event in new.events:
            self.control.guide(self.redactor.text(event.payload))

    def on_guidance(self, text: str) -> None:
        self.on_event(GuidanceGiven(text=text))

    def _warn(self, code: str, message: str) -> None:
        self.on_event(WarningRaised(code=code, message=message))


async def _open_checkpoints(
    plan: LoopPlan,
    host: Host,
    directory: LoopDirectory,
    state: LoopState,
    on_event: EventSink,
    opened: AsyncExitStack,
) -> Checkpoints | None:
    """Open the checkpoints, and take one of the tree as it is: number 0, or that of an interrupted iteration."""
    if not plan.spec.event_loop.checkpoint_interval:
        return None
    checkpoints = await Checkpoints.open(plan.directory, directory.loop_id, cache_dir=host.cache_dir)
    opened.callback(checkpoints.close)
    if state.iterations == 0 or (state.last is not None and state.last.outcome == "interrupted"):
        taken = await checkpoints.take(state.iterations, f"before iteration {state.iterations + 1}")
        if taken.warning:
            on_event(WarningRaised(code="CHECKPOINT", message=taken.warning))
    if state.iterations == 0 and (changed := await checkpoints.uncommitted()):
        note = f"{plural(changed, 'file')} with uncommitted changes: checkpoint 0 has them (`ralph restore 0`)"
        on_event(ProgressNote(text=note))
    return checkpoints


def _left(most: float | None, spent: float | None) -> float | None:
    return None if most is None else max(0.0, most - (spent or 0.0))
