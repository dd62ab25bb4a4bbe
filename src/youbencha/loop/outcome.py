"""What an iteration means: its record, what decisions need to know, and the state of the loop after it. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.loop.decisions import Ended, Request, count_iteration
from youbencha.store.loops import IterationRecord, LoopState, PendingEvent
from youbencha.text import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from youbencha.loop.backends import Backend
    from youbencha.loop.completion import Claim
    from youbencha.loop.gates import GateReport
    from youbencha.loop.hats import NextTurn, Published
    from youbencha.loop.iteration import IterationReport
    from youbencha.loop.notes import Notes
    from youbencha.spec.loop import EventLoopSpec
    from youbencha.workspace.checkpoints import Checkpoint


_MOST_PENDING = 500
_LONGEST_PENDING = 4_000
_MOST_TOPICS = 1_000
"""So much of what agents publish is kept: a state that is too large could not be read again."""


class IterationResult(NamedTuple):
    """An iteration that has ended, with everything that was found out about it."""

    number: int
    turn: NextTurn
    backend: Backend
    report: IterationReport
    published: Published
    claim: Claim
    gates: GateReport | None
    """None: they did not run, so that nothing is verified."""
    checkpoint: Checkpoint | None
    notes: Notes
    """What agents had written down after it."""
    request: Request | None

    def refusal(self, promise: str) -> str | None:
        """Say, for people, why a claim of completion is not accepted; None if there is no claim, or it is accepted."""
        if self.report.outcome != "completed" or self.claim.by == "gates":
            return None
        reasons = [reason.rstrip(".") for reason in self.claim.refusal_reasons(promise)]
        if self.gates is not None:
            for gate in self.gates.records:
                if gate.status != "passed":
                    verdict = "could not judge" if gate.status == "skipped" else gate.status
                    reasons.append(f"the gate {gate.name} {verdict}: {gate.message.rstrip('.')}")
        return "; ".join(reasons) or None

    @property
    def is_done(self) -> bool:
        """Claimed and verified."""
        return self.claim.done and self.gates is not None and self.gates.passed


def record_of(result: IterationResult, promise: str) -> IterationRecord:
    report, usage = result.report, result.report.usage
    return IterationRecord(
        iteration=result.number,
        outcome=report.outcome,
        reason=report.reason,
        hat=result.turn.hat,
        backend=result.backend.name,
        model=report.model,
        started_at=iso_time(report.started_at),
        duration_ms=report.duration_ms,
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        cache_read_tokens=usage.cache_read_tokens if usage else None,
        cache_creation_tokens=usage.cache_creation_tokens if usage else None,
        cost_usd=usage.cost_usd if usage else None,
        partial=usage.partial if usage else False,
        files_changed=result.checkpoint.files_changed if result.checkpoint else None,
        checkpoint=result.checkpoint.commit if result.checkpoint else None,
        usage_source=report.usage_source,
        claimed_done=result.claim.by in ("promise", "event"),
        refusal=result.refusal(promise),
        gates=result.gates.records if result.gates else (),
        topics=tuple(event.topic for event in result.published.accepted),
        output_hash=hashlib.sha256(
            f"{report.text.strip()}\0{result.notes.tasks_digest}".encode("utf-8", "replace")
        ).hexdigest(),
    )


def ended_of(result: IterationResult, record: IterationRecord) -> Ended:
    report = result.report
    return Ended(
        outcome=report.outcome,
        reason=report.reason or "",
        is_permanent=report.is_permanent,
        limit=report.limit,
        resets_at=report.resets_at,
        is_done=result.is_done,
        is_cancelled=result.claim.cancelled,
        output_hash=record.output_hash,
        files_changed=record.files_changed,
        request=result.request,
    )


def state_after(
    state: LoopState, result: IterationResult, record: IterationRecord, ended: Ended, spec: EventLoopSpec
) -> LoopState:
    """The state after an iteration. Events and guidance wait for the next one, if this one did not complete."""
    updates: dict[str, Any] = {
        **_ended(state, record),
        **count_iteration(state, ended, spec),
        "seen_topics": _seen(state, record, spec),
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
    return tuple(event._replace(payload=event.payload[:_LONGEST_PENDING]) for event in pending[:_MOST_PENDING])


def _seen(state: LoopState, record: IterationRecord, spec: EventLoopSpec) -> tuple[str, ...]:
    topics = {*state.seen_topics, *record.topics}
    return tuple(sorted(topics, key=lambda topic: (topic not in spec.required_events, topic))[:_MOST_TOPICS])


def interrupted(state: LoopState, backend: str, entries: Iterable[Mapping[str, Any]]) -> IterationRecord:
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
