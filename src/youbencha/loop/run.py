"""Run a loop: iterations of an agent in the user's directory, until the work is done and verified, or a limit is hit."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from youbencha.events import (
    EventSink,
    GuidanceGiven,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    LoopWaiting,
    TopicPublished,
    WarningRaised,
)
from youbencha.loop.completion import Claim, claim_of
from youbencha.loop.decisions import Decision, End, GoOn, decide, limit_reached
from youbencha.loop.directory import RESTART_REQUEST, STOP_REQUEST, LoopDirectory, LoopHistory
from youbencha.loop.gates import GateReport
from youbencha.loop.hats import Published, Turn, after_iteration, first_events, next_turn
from youbencha.loop.iteration import IterationRunner, open_runner
from youbencha.loop.model import EXIT_CODES, LoopState
from youbencha.loop.outcome import IterationResult, ended_of, record_of, state_after
from youbencha.loop.prompt import PromptParts, build_prompt, scratchpad_of
from youbencha.loop.summary import write_summary
from youbencha.loop.topics import TopicLog
from youbencha.process import Redactor
from youbencha.text import iso_time
from youbencha.trial.budgets import Budgets
from youbencha.workspace.checkpoints import Checkpoint, Checkpoints

if TYPE_CHECKING:
    from youbencha.loop.backends import Backend
    from youbencha.loop.control import LoopControl
    from youbencha.loop.decisions import Request
    from youbencha.loop.plan import LoopPlan
    from youbencha.trial.context import Host

_LOOK_EVERY_S = 1.0
"""How often a waiting loop looks for requests of other programs, and at the clock."""
_REQUESTS: dict[str, Request] = {STOP_REQUEST: "stop", RESTART_REQUEST: "restart"}


async def run_loop(
    plan: LoopPlan,
    host: Host,
    control: LoopControl,
    on_event: EventSink,
    *,
    directory: LoopDirectory,
    history: LoopHistory,
) -> LoopState:
    """Run a loop to its end, and return its last state. `history` is empty, or that of a loop which is to go on."""
    left = _left(plan.spec.event_loop.max_cost_usd, history.state.cost_usd)
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(host.sharing_budgets(Budgets((), total_usd=left), log_dir=directory.path))
        checkpoints = await _open_checkpoints(plan, directory, history.state)
        loop = _Loop(plan, host, control, on_event, directory, history, checkpoints, opened)
        control.on_guidance = loop.on_guidance
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
        self.redactor = Redactor.for_env(host.env, plan.backend.env)
        self.clock = _Clock(self.state.elapsed_ms)
        self.topics = TopicLog(directory.events_file, directory.tree)

    async def run(self) -> LoopState:
        """Run iterations until a decision ends the loop. A cancellation ends the agent, too."""
        self._announce()
        decision: Decision = limit_reached(self.state, self.spec) or GoOn()
        try:
            while isinstance(decision, GoOn):
                decision = await self._wait(decision) or await self._iterate()
        except asyncio.CancelledError:
            self._finish(End("interrupted", "the program was ended"))
            raise
        return self._finish(decision)

    async def _iterate(self) -> Decision:
        number = self.state.iterations + 1
        turn = next_turn(self.plan.spec, self.state.pending, self.state.activations)
        backend = self.plan.backend_for(turn.hat, self.state.escalation)
        self._begin(number, turn, backend)
        runner = await self._runner(backend)
        report = await runner.run(
            number,
            build_prompt(self._prompt_parts(number, turn)),
            directory=self.directory,
            stop=self.control.stop_now,
            seconds_left=self.clock.left_s(self.spec.max_runtime_seconds),
            usd_left=_left(self.spec.max_cost_usd, self.state.cost_usd),
        )
        published = self._read_topics(turn)
        claim = Claim()
        if report.outcome == "completed":
            topics = [event.topic for event in published.accepted]
            claim = claim_of(report.text, topics, self.plan.spec, self.state.seen_topics, hat=turn.hat)
        gates = await self._run_gates(number, runner) if claim.done else None
        checkpoint = await self._take_checkpoint(number)
        result = IterationResult(
            number, turn, backend, report, published, claim, gates, checkpoint, self._tasks(), self._request()
        )
        return self._commit(result)

    def _begin(self, number: int, turn: Turn, backend: Backend) -> None:
        """Give the iteration its number, before it starts: after a crash, it is known that it ran."""
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
        record = record_of(result)
        ended = ended_of(result, record)
        self.state = state_after(self.state, result, record, ended, self.spec)
        self._save()
        self.directory.append(record)
        self.records.append(record)
        self.on_event(
            IterationEnded(
                iteration=record.iteration,
                outcome=record.outcome,
                reason=record.reason,
                duration_ms=record.duration_ms or 0,
                input_tokens=record.input_tokens,
                output_tokens=record.output_tokens,
                cost_usd=record.cost_usd,
                files_changed=record.files_changed,
            )
        )
        return decide(self.state, ended, self.spec, now=time.time(), random=random.random)

    async def _wait(self, decision: GoOn) -> End | None:
        """Wait as decided, and while the loop is paused; return why the loop ends instead, if it does."""
        control = self.control
        control.waiting_skipped = False
        until = time.time() + decision.wait_s
        if decision.wait_s > 0:
            self.on_event(LoopWaiting(reason=decision.reason, until=until, kind=decision.kind))
        was_paused = False
        with self.clock.stopped() if decision.kind == "usage_limit" or control.paused else contextlib.nullcontext():
            while not control.stop_now.is_set():
                waits = time.time() < until and not control.waiting_skipped
                if not waits and not control.paused:
                    break
                if control.paused and not was_paused:
                    self.on_event(LoopWaiting(reason="paused by the user", until=until, kind="paused"))
                was_paused = control.paused
                control.changed.clear()
                left_s = _LOOK_EVERY_S if control.paused else min(_LOOK_EVERY_S, until - time.time())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(control.changed.wait(), max(0.0, left_s))
                if request := self._request():
                    return End("stopped" if request == "stop" else "restart", f"a file in .ralph asked to {request}")
        if control.stop_now.is_set():
            return End("interrupted", "stopped by the user")
        self.state = self.state.model_copy(update={"elapsed_ms": self.clock.elapsed_ms})
        return limit_reached(self.state, self.spec)

    async def _runner(self, backend: Backend) -> IterationRunner:
        """The open backend. It stays open until the end of the loop."""
        if id(backend) not in self.runners:
            opening = open_runner(self.plan, self.host, backend, self.directory, self.on_event)
            self.runners[id(backend)] = await self.opened.enter_async_context(opening)
            secrets = (each.secrets for each in self.runners.values())
            self.redactor = Redactor.for_env(self.host.env, *secrets)
        return self.runners[id(backend)]

    def _prompt_parts(self, number: int, turn: Turn) -> PromptParts:
        state = self.state
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
        )

    def _read_topics(self, turn: Turn) -> Published:
        """Read what the agent has published; what is malformed is a warning."""
        try:
            found = self.topics.read_new(self.state.events_offset)
        except OSError as error:
            self._warn("EVENTS_UNREADABLE", f"the events file {error.strerror}")
            return after_iteration(self.plan.spec, turn.hat, ())
        self.state = self.state.model_copy(update={"events_offset": found.offset})
        for line in found.malformed:
            self._warn("EVENT_MALFORMED", self.redactor.text(f"{line.problem}: {line.text}"))
        events = [_masked(event, self.redactor) for event in found.events]
        published = after_iteration(self.plan.spec, turn.hat, events)
        for event in published.accepted:
            self.on_event(TopicPublished(topic=event.topic, payload=event.payload, source="agent"))
        if published.default:
            self.on_event(TopicPublished(topic=published.default, payload="", source="default"))
        for topic in published.out_of_scope:
            self._warn("EVENT_OUT_OF_SCOPE", f"the hat {turn.hat} may not publish {topic}: it was ignored")
        return published
