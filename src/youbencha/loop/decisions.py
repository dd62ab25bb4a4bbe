"""What an iteration means: its record, the state of the loop after it, and what follows. Pure, without a clock.

The order of the rules is the policy: completion comes before every limit, so that a promise in the last allowed
iteration counts; a usage limit is not a failure; a permanent failure, such as a missing login, is not retried.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from youbencha.log.model import CostSource, Usage
from youbencha.loop.completion import Claim
from youbencha.loop.gates import GateReport
from youbencha.loop.hats import NextTurn, Published
from youbencha.spec.loop import EventLoopSpec, LoopRetrySpec
from youbencha.store.loops import IterationOutcome, IterationRecord, LoopOutcome, LoopState, PendingEvent
from youbencha.text import format_duration, format_usd, iso_time, plural
from youbencha.workspace.checkpoints import Checkpoint

WaitKind = Literal["cooldown", "backoff", "usage_limit"]
Request = Literal["stop", "restart"]

FIRST_WAIT_S, MAX_WAIT_S = 60.0, 3600.0
"""For a usage limit whose end is unknown: the first wait, doubled each time, and the longest."""
_MAX_RESET_S = 8 * 86_400.0
"""A reset that is further away is not believed: the longest known limits are weekly."""
_AFTER_RESET_S = 1.0
_JUST_NOW_S = 60.0
"""A limit that ended so recently may have ended while the agent was ending."""
_MAX_EXPONENT = 100
"""A float cannot hold much more."""
_MAX_PENDING = 500
_MAX_PENDING_CHARS = 4_000
_MAX_TOPICS = 1_000
"""So much of what agents publish is kept: a state that is too large could not be read again."""


_NO_TURN, _NOTHING_PUBLISHED, _NO_CLAIM = NextTurn(None, (), (), {}), Published((), ()), Claim()


@dataclass(frozen=True)
class IterationResult:
    """How one session of the agent ended, and what the loop found out about it."""

    outcome: IterationOutcome
    reason: str = ""
    """Why it did not complete."""
    is_permanent: bool = False
    """It failed, and the next attempt would fail in the same way."""
    limit: LoopOutcome | None = None
    """The limit of the loop that ended it, if one did."""
    resets_at: float | None = None
    """When the usage limit ends, in seconds since the epoch."""
    text: str = ""
    """The agent's last text."""
    usage: Usage | None = None
    usage_source: CostSource | None = None
    """Where the usage comes from: the gateway, or the agent."""
    model: str | None = None
    started_at: float = 0.0
    duration_ms: int = 0

    number: int = 0
    backend: str = ""
    turn: NextTurn = _NO_TURN
    published: Published = _NOTHING_PUBLISHED
    claim: Claim = _NO_CLAIM
    gates: GateReport | None = None
    """None: they did not run, so that nothing is verified."""
    checkpoint: Checkpoint | None = None
    tasks_digest: str = ""
    """Changes with each change of a task."""
    request: Request | None = None
    """What a file in `.ralph` asks for."""

    @property
    def is_done(self) -> bool:
        """Whether the agent says that the work is done, and everything required has passed."""
        return self.claim.done and self.gates is not None and self.gates.passed

    @property
    def files_changed(self) -> int | None:
        """Since the last checkpoint; None if none was taken."""
        return self.checkpoint.files_changed if self.checkpoint else None

    @property
    def output_hash(self) -> str:
        """The same if the agent repeats itself, and no task has changed."""
        return hashlib.sha256(f"{self.text.strip()}\0{self.tasks_digest}".encode("utf-8", "replace")).hexdigest()

    def refusal(self, promise: str) -> str | None:
        """Say, for people, why a claim of completion is not accepted; None if there is no claim, or it is accepted."""
        if self.outcome != "completed" or self.claim.by == "gates":
            return None
        reasons = [reason.rstrip(".") for reason in self.claim.refusal_reasons(promise)]
        if self.gates is not None:
            for gate in self.gates.records:
                if gate.status != "passed":
                    verdict = "could not judge" if gate.status == "skipped" else gate.status
                    reasons.append(f"the gate {gate.name} {verdict}: {gate.message.rstrip('.')}")
        return "; ".join(reasons) or None

    def record(self, promise: str) -> IterationRecord:
        usage = self.usage or Usage()
        return IterationRecord(
            iteration=self.number,
            outcome=self.outcome,
            reason=self.reason or None,
            hat=self.turn.hat,
            backend=self.backend,
            model=self.model,
            started_at=iso_time(self.started_at),
            duration_ms=self.duration_ms,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_creation_tokens=usage.cache_creation_tokens,
            cost_usd=usage.cost_usd,
            partial=usage.partial,
            files_changed=self.files_changed,
            checkpoint=self.checkpoint.commit if self.checkpoint else None,
            usage_source=self.usage_source,
            claimed_done=self.claim.by in ("promise", "event"),
            refusal=self.refusal(promise),
            gates=self.gates.records if self.gates else (),
            topics=tuple(event.topic for event in self.published.accepted),
            output_hash=self.output_hash,
        )


class Stop(NamedTuple):
    """The loop ends."""

    outcome: LoopOutcome
    reason: str


class Continue(NamedTuple):
    """The next iteration follows, at once or after a wait."""

    wait_s: float = 0.0
    kind: WaitKind = "cooldown"
    reason: str = ""


Decision = Stop | Continue

REQUESTED: dict[Request, Stop] = {
    "stop": Stop("stopped", "`.ralph/stop-requested` asked for it"),
    "restart": Stop("restart", "`.ralph/restart-requested` asked for it"),
}


def state_after(state: LoopState, result: IterationResult, record: IterationRecord, spec: EventLoopSpec) -> LoopState:
    """The state after an iteration. Events and guidance wait for the next one, if this one did not complete."""
    updates: dict[str, Any] = {
        **_ended(state, record),
        **count_iteration(state, result, spec),
        "seen_topics": _seen_topics(state, record, spec),
    }
    if record.outcome == "completed":
        gates_failed = result.gates is not None and not result.gates.passed
        updates |= {
            "pending": _bounded((*result.turn.remaining, *result.published.pending)),
            "activations": dict(result.turn.activations),
            "guidance": (),
            "refusal": "\n".join(f"- {reason}" for reason in result.claim.refusal_reasons(spec.completion_promise))
            or None,
            "gate_output": result.gates.output if gates_failed and result.gates else None,
        }
    else:
        new = result.published.pending if result.published.accepted else ()
        updates["pending"] = _bounded((*state.pending, *new))
    return state.model_copy(update=updates)


def _bounded(pending: Sequence[PendingEvent]) -> tuple[PendingEvent, ...]:
    """The oldest: what waits for another hat is not lost if this one publishes too much."""
    return tuple(event._replace(payload=event.payload[:_MAX_PENDING_CHARS]) for event in pending[:_MAX_PENDING])


def _seen_topics(state: LoopState, record: IterationRecord, spec: EventLoopSpec) -> tuple[str, ...]:
    topics = {*state.seen_topics, *record.topics}
    return tuple(sorted(topics, key=lambda topic: (topic not in spec.required_events, topic))[:_MAX_TOPICS])


def interrupted_record(state: LoopState, backend: str, entries: Iterable[Mapping[str, Any]]) -> IterationRecord:
    """The record of the iteration that ran when the harness died. `entries` are those of the gateway's ledger."""
    assert state.running is not None
    own = [entry for entry in entries if entry.get("key") == key_name(state.running)]
    return IterationRecord(
        iteration=state.running,
        outcome="interrupted",
        reason="the loop was ended from outside while it ran",
        backend=backend,
        started_at=state.running_since or state.started_at,
        duration_ms=None,
        input_tokens=_sum(own, "input_tokens"),
        output_tokens=_sum(own, "output_tokens"),
        cache_read_tokens=_sum(own, "cache_read_tokens"),
        cache_creation_tokens=_sum(own, "cache_creation_tokens"),
        cost_usd=_sum(own, "cost_usd"),
        usage_source="gateway" if own else None,
        partial=True,
    )


def state_after_crash(state: LoopState, record: IterationRecord) -> LoopState:
    """The state after an iteration of which only its record is known: it counts neither as success nor as failure."""
    return state.model_copy(update=_ended(state, record))


def key_name(iteration: int) -> str:
    """The name of an iteration's key in the gateway's ledger."""
    return f"iteration-{iteration}"


def _ended(state: LoopState, record: IterationRecord) -> dict[str, Any]:
    costs = [cost for cost in (state.cost_usd, record.cost_usd) if cost is not None]
    return {
        "running": None,
        "running_since": None,
        "iterations": record.iteration,
        "last": record,
        "cost_usd": sum(costs) if costs else None,
    }


def _sum(entries: list[Mapping[str, Any]], name: str) -> Any:
    known = [value for entry in entries if isinstance(value := entry.get(name), int | float) and value >= 0]
    return sum(known) if known else None


# -- what follows ------------------------------------------------------------------------------------------------------


def count_iteration(state: LoopState, result: IterationResult, spec: EventLoopSpec) -> dict[str, Any]:
    """The counters of the state after an iteration. A success returns to the configured agent."""
    if result.outcome == "usage_limit":
        return {"usage_limits": state.usage_limits + 1}
    if result.outcome == "failed":
        step_failures, escalation = state.step_failures + 1, state.escalation
        is_over = step_failures >= spec.retry.attempts or result.is_permanent
        if is_over and escalation < len(spec.escalation):
            step_failures, escalation = 0, escalation + 1
        return {
            "consecutive_failures": state.consecutive_failures + 1,
            "step_failures": step_failures,
            "escalation": escalation,
            "usage_limits": 0,
            "repeats": 0,
        }
    same = state.last is not None and state.last.output_hash == result.output_hash
    repeats = state.repeats + 1 if same and not result.files_changed else 1
    return {"consecutive_failures": 0, "step_failures": 0, "escalation": 0, "usage_limits": 0, "repeats": repeats}


def decide(
    state: LoopState, result: IterationResult, spec: EventLoopSpec, *, now: float, random: Callable[[], float]
) -> Decision:
    """Decide what follows. `state` has the counters after this iteration; `random` returns a number from 0 to 1."""
    for rule in (_finished, _asked_to_end, _limits):
        if end := rule(state, result, spec):
            return end
    match result.outcome:
        case "usage_limit":
            return _after_usage_limit(state, result, spec, now)
        case "failed":
            return _after_failure(state, result, spec, random)
        case _:
            return _after_success(state, result, spec)


def _finished(state: LoopState, result: IterationResult, spec: EventLoopSpec) -> Stop | None:
    if result.outcome != "completed":
        return None
    if result.is_done:
        return Stop("completed", "the work is done")
    if result.claim.cancelled:
        return Stop("cancelled", "the agent gave up")
    return None


def _asked_to_end(state: LoopState, result: IterationResult, spec: EventLoopSpec) -> Stop | None:
    if result.outcome in ("stopped", "interrupted"):
        return Stop("interrupted", result.reason or "stopped by the user")
    return REQUESTED[result.request] if result.request else None


def _limits(state: LoopState, result: IterationResult, spec: EventLoopSpec) -> Stop | None:
    if result.limit is not None:
        return Stop(result.limit, result.reason)
    return limit_reached(state, spec)


def limit_reached(state: LoopState, spec: EventLoopSpec) -> Stop | None:
    """The limit of the loop that leaves no room for another iteration, if there is one."""
    if state.iterations >= spec.max_iterations:
        return Stop("max_iterations", f"{state.iterations} of {plural(spec.max_iterations, 'iteration')} have run")
    if state.elapsed_ms >= spec.max_runtime_seconds * 1000:
        most = format_duration(spec.max_runtime_seconds * 1000)
        return Stop("max_runtime", f"it has run for {format_duration(state.elapsed_ms)}, and may run for {most}")
    if spec.max_cost_usd is not None and (state.cost_usd or 0.0) >= spec.max_cost_usd:
        return Stop("max_cost", f"{format_usd(state.cost_usd or 0.0)} of {format_usd(spec.max_cost_usd)} are spent")
    return None


def _after_usage_limit(state: LoopState, result: IterationResult, spec: EventLoopSpec, now: float) -> Decision:
    if spec.on_usage_limit == "stop":
        return Stop("usage_limit", result.reason)
    until = result.resets_at
    if until is not None and now < until <= now + _MAX_RESET_S:
        return Continue(until - now + _AFTER_RESET_S, "usage_limit", result.reason)
    if until is not None and now - _JUST_NOW_S < until <= now and state.usage_limits == 1:
        return Continue(_AFTER_RESET_S, "usage_limit", result.reason)
    grown = FIRST_WAIT_S * 2.0 ** min(state.usage_limits - 1, 20)
    return Continue(min(grown, MAX_WAIT_S), "usage_limit", f"{result.reason} (its end is unknown)")


def _after_failure(
    state: LoopState, result: IterationResult, spec: EventLoopSpec, random: Callable[[], float]
) -> Decision:
    if state.consecutive_failures >= spec.max_consecutive_failures:
        failures = plural(state.consecutive_failures, "iteration")
        return Stop("failed", f"{failures} failed in a row; the last: {result.reason}")
    escalated = state.step_failures == 0  # a step was taken just now
    if escalated and (person := spec.escalation[state.escalation - 1].person):
        return Stop("needs_person", f"{person} The last failure: {result.reason}")
    if not escalated and result.is_permanent:
        return Stop("failed", result.reason)
    wait_s = backoff_s(spec.retry, max(1, state.step_failures), random())
    return Continue(wait_s, "backoff", result.reason)


def backoff_s(retry: LoopRetrySpec, failures: int, random: float) -> float:
    """The delay after so many failures in a row: it grows up to the configured maximum, which jitter may exceed."""
    grown: float = retry.delay_seconds * retry.factor ** min(failures - 1, _MAX_EXPONENT)
    return min(grown, retry.max_delay_seconds) * (1 + retry.jitter * (2 * random - 1))


def _after_success(state: LoopState, result: IterationResult, spec: EventLoopSpec) -> Decision:
    has_not_changed = result.files_changed == 0  # known only if a checkpoint was taken
    if spec.stale_after and state.repeats >= spec.stale_after and has_not_changed:
        return Stop(
            "stale",
            f"the last {plural(state.repeats, 'iteration')} printed the same, and changed neither a file nor a task",
        )
    return Continue(spec.cooldown_delay_seconds)
