"""What follows from an iteration, for all that can be known about one."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.loop.completion import Claim
from youbencha.loop.decisions import (
    FIRST_WAIT_S,
    MAX_WAIT_S,
    Continue,
    Decision,
    IterationResult,
    Stop,
    backoff_s,
    count_iteration,
    decide,
)
from youbencha.loop.gates import GateReport
from youbencha.spec.loop import EscalationStep, EventLoopSpec, LoopRetrySpec
from youbencha.store.loops import EXIT_CODES, IterationOutcome, IterationRecord, LoopOutcome, LoopState
from youbencha.workspace.checkpoints import Checkpoint

NOW = 1_800_000_000.0
AT = "2026-01-01T00:00:00Z"


def state(**values: Any) -> LoopState:
    return LoopState(loop_id="1", config_file=None, started_at=AT, objective="Do it.", **values)


def ended(
    outcome: IterationOutcome,
    reason: str = "",
    *,
    is_done: bool = False,
    is_cancelled: bool = False,
    files_changed: int | None = None,
    **more: Any,
) -> IterationResult:
    claim = Claim(by="promise" if is_done else None, cancelled=is_cancelled)
    checkpoint = None if files_changed is None else Checkpoint(1, "c", files_changed)
    gates = GateReport((), "") if is_done else None
    return IterationResult(outcome, reason, claim=claim, gates=gates, checkpoint=checkpoint, **more)


def after(
    result: IterationResult, spec: EventLoopSpec | None = None, begun: LoopState | None = None
) -> tuple[LoopState, Decision]:
    """The state and the decision after an iteration."""
    spec, begun = spec or EventLoopSpec(), begun or state()
    number = begun.iterations + 1
    record = IterationRecord(
        iteration=number,
        outcome=result.outcome,
        backend="x",
        started_at=AT,
        duration_ms=1,
        output_hash=result.output_hash,
    )
    counted = begun.model_copy(update={**count_iteration(begun, result, spec), "iterations": number, "last": record})
    return counted, decide(counted, result, spec, now=NOW, random=lambda: 0.5)


def test_every_outcome_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(get_args(LoopOutcome))


@pytest.mark.parametrize(
    ("result", "spec", "before", "expected"),
    [
        (ended("completed"), {}, {}, Continue()),
        (ended("completed"), {"cooldown_delay_seconds": 3}, {}, Continue(3)),
        (ended("completed", is_done=True), {}, {}, "completed"),
        (ended("completed", is_done=True), {"max_iterations": 1}, {}, "completed"),
        (ended("completed", is_done=True, request="stop"), {}, {}, "completed"),
        (ended("completed", is_done=True), {"max_cost_usd": 1}, {"cost_usd": 2.0}, "completed"),
        (ended("completed", is_cancelled=True), {}, {}, "cancelled"),
        (ended("failed", is_done=True), {}, {}, Continue(2, "backoff")),
        (ended("stopped"), {}, {}, "interrupted"),
        (ended("completed", request="stop"), {}, {}, "stopped"),
        (ended("completed", request="restart"), {}, {}, "restart"),
        (ended("completed"), {"max_iterations": 1}, {}, "max_iterations"),
        (ended("failed"), {"max_iterations": 1}, {}, "max_iterations"),
        (ended("completed"), {"max_runtime_seconds": 1}, {"elapsed_ms": 1000}, "max_runtime"),
        (ended("completed"), {"max_cost_usd": 1}, {"cost_usd": 1.0}, "max_cost"),
        (ended("completed"), {"max_cost_usd": 0}, {}, "max_cost"),
        (ended("limit", limit="max_cost"), {"max_cost_usd": 1}, {"cost_usd": 0.9}, "max_cost"),
        (ended("limit", limit="max_runtime"), {}, {}, "max_runtime"),
        (ended("usage_limit", limit="usage_limit"), {}, {}, "usage_limit"),
        (ended("usage_limit"), {"on_usage_limit": "stop"}, {}, "usage_limit"),
        (ended("usage_limit", resets_at=NOW + 90), {}, {}, Continue(91, "usage_limit")),
        (ended("usage_limit", resets_at=NOW - 1), {}, {}, Continue(1, "usage_limit")),
        (ended("usage_limit", resets_at=NOW - 1), {}, {"usage_limits": 1}, Continue(2 * FIRST_WAIT_S, "usage_limit")),
        (ended("usage_limit", resets_at=NOW - 61), {}, {}, Continue(FIRST_WAIT_S, "usage_limit")),
        (ended("usage_limit", resets_at=NOW + 1e9), {}, {}, Continue(FIRST_WAIT_S, "usage_limit")),
        (ended("usage_limit"), {}, {"usage_limits": 1}, Continue(2 * FIRST_WAIT_S, "usage_limit")),
        (ended("usage_limit"), {}, {"usage_limits": 1000}, Continue(MAX_WAIT_S, "usage_limit")),
        (ended("failed"), {}, {"consecutive_failures": 4, "step_failures": 4}, "failed"),
        (ended("failed"), {}, {"consecutive_failures": 1, "step_failures": 1}, Continue(4, "backoff")),
        (ended("failed", is_permanent=True), {}, {}, "failed"),
    ],
)
def test_the_table(
    result: IterationResult, spec: dict[str, Any], before: dict[str, Any], expected: LoopOutcome | Continue
) -> None:
    _, decision = after(result, EventLoopSpec(**spec), state(**before))
    if isinstance(decision, Stop):
        assert decision.outcome == expected
    else:
        assert decision._replace(reason="") == expected


def test_escalation_then_success() -> None:
    spec = EventLoopSpec(
        retry=LoopRetrySpec(attempts=2),
        escalation=(EscalationStep(model="stronger"), EscalationStep(person="Help.")),
        max_consecutive_failures=10,
    )
    now = state()
    steps = []
    for _ in range(4):
        now, decision = after(ended("failed", "broken"), spec, now)
        steps.append((now.escalation, now.step_failures, decision))
    assert [step[:2] for step in steps] == [(0, 1), (1, 0), (1, 1), (2, 0)]
    assert steps[-1][2] == Stop("needs_person", "Help. The last failure: broken")
    now, _ = after(ended("completed"), spec, state(escalation=1, step_failures=1, consecutive_failures=3))
    assert (now.escalation, now.step_failures, now.consecutive_failures) == (0, 0, 0)


def test_a_failed_login_goes_to_the_next_step_at_once() -> None:
    spec = EventLoopSpec(escalation=(EscalationStep(backend="codex"),))
    now, decision = after(ended("failed", is_permanent=True), spec)
    assert (now.escalation, type(decision)) == (1, Continue)
    _, decision = after(ended("failed", is_permanent=True), spec, now)
    assert isinstance(decision, Stop)


@pytest.mark.parametrize(("changed", "stale"), [(0, True), (1, False), (None, False)])
def test_stale_needs_the_same_output_and_no_change(changed: int | None, stale: bool) -> None:
    now = state()
    for _ in range(3):
        now, decision = after(ended("completed", text="same", files_changed=changed), None, now)
    assert (isinstance(decision, Stop) and decision.outcome == "stale") is stale


def test_another_output_begins_again() -> None:
    now = state()
    for output in ("a", "a", "b", "b"):
        now, decision = after(ended("completed", text=output, files_changed=0), None, now)
        assert isinstance(decision, Continue)


def test_a_failure_between_does_not_count_as_repetition() -> None:
    now = state()
    for outcome in ("completed", "failed", "completed", "failed"):
        now, decision = after(ended(outcome, text="a", files_changed=0), None, now)
        assert isinstance(decision, Continue)


outcomes: st.SearchStrategy[IterationOutcome] = st.sampled_from(get_args(IterationOutcome))
endings = st.builds(
    ended,
    outcome=outcomes,
    reason=st.text(max_size=5),
    is_permanent=st.booleans(),
    resets_at=st.none() | st.floats(0, 1e12),
    is_done=st.booleans(),
    is_cancelled=st.booleans(),
    text=st.sampled_from("ab"),
    files_changed=st.none() | st.integers(0, 3),
    request=st.none() | st.sampled_from(("stop", "restart")),
)
steps = st.sampled_from((EscalationStep(model="m"), EscalationStep(backend="b"), EscalationStep(person="p")))
specs = st.builds(
    EventLoopSpec,
    max_iterations=st.integers(1, 12),
    max_consecutive_failures=st.integers(1, 8),
    max_cost_usd=st.none() | st.floats(0, 5),
    stale_after=st.integers(0, 4),
    on_usage_limit=st.sampled_from(("wait", "stop")),
    retry=st.builds(
        LoopRetrySpec,
        attempts=st.integers(1, 5),
        factor=st.floats(1, 100),
        delay_seconds=st.floats(0, 1000),
        max_delay_seconds=st.floats(0, 1000),
        jitter=st.floats(0, 1),
    ),
    escalation=st.lists(steps, max_size=3).map(tuple),
)


@given(specs, st.lists(endings, min_size=12, max_size=12))
def test_every_loop_ends_and_every_wait_is_bounded(spec: EventLoopSpec, history: list[IterationResult]) -> None:
    now = state()
    for result in history:
        now, decision = after(result, spec, now)
        if result.is_done and result.outcome == "completed":
            assert decision == Stop("completed", "the work is done")
        if isinstance(decision, Stop):
            assert decision.outcome in EXIT_CODES
            assert (decision.outcome == "completed") == (result.is_done and result.outcome == "completed")
            return
        assert 0 <= decision.wait_s <= max(8 * 86_401, 2 * spec.retry.max_delay_seconds)
        assert result.outcome in ("completed", "failed", "usage_limit", "limit")
        assert (decision.kind == "usage_limit") == (result.outcome == "usage_limit")
        assert now.consecutive_failures < spec.max_consecutive_failures
        assert now.escalation <= len(spec.escalation)
        assert not (result.outcome == "failed" and result.is_permanent and now.step_failures)
    raise AssertionError("max_iterations did not end it")


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(1, 100), st.floats(0, 3e7))
def test_the_delay_grows_up_to_its_maximum(failures: int, random: float, factor: float, delay: float) -> None:
    retry = LoopRetrySpec(delay_seconds=delay, factor=factor, max_delay_seconds=300, jitter=0.2)
    assert 0 <= backoff_s(retry, failures, random) <= 360
    assert backoff_s(retry, failures + 1, 0.5) >= backoff_s(retry, failures, 0.5)
