"""The watch ends an iteration when a limit is exceeded, and only then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.events import (
    AssistantText,
    ContextUsed,
    Event,
    ModelCalled,
    RateLimitSeen,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    ToolStarted,
    UsageReported,
)
from youbencha.gateway.prices import Prices
from youbencha.log.session import CallMetered
from youbencha.loop.watch import EndReason, IterationLimits, IterationWatch, SessionCost
from youbencha.spec.gateway import ModelPrice
from youbencha.usage import Tokens

MODEL = "a-model"
PRICES = Prices({MODEL: ModelPrice(input=1.0, output=10.0)})
NOW = 1_800_000_000.0
HOUR = 3600.0


class Bench:
    """A watch with a clock that the test moves."""

    def __init__(self, **limits: Any) -> None:
        self.now = 100.0
        self.stop = asyncio.Event()
        cost = SessionCost(PRICES, "anthropic", MODEL)
        self.watch = IterationWatch(IterationLimits(**limits), self.stop, lambda: self.now, cost=cost)

    def take(self, *events: Event) -> Bench:
        for event in events:
            self.watch.take(event)
        return self

    def after(self, seconds: float) -> Bench:
        """Let the time pass, with a check at least every second."""
        while seconds > 0:
            self.now += min(1.0, seconds)
            seconds -= 1.0
            self.watch.check()
        return self

    @property
    def reason(self) -> EndReason | None:
        assert self.stop.is_set() == (self.watch.reason is not None)
        return self.watch.reason

    @property
    def kind(self) -> str | None:
        return self.reason.kind if self.reason else None


def call(call_id: str, parent: str | None = None, name: str = "Bash") -> ToolCalled:
    return ToolCalled(call_id=call_id, name=name, arguments={}, parent=parent)


def returned(call_id: str, parent: str | None = None) -> ToolReturned:
    return ToolReturned(call_id=call_id, content="", is_error=False, parent=parent)


def message(message_id: str, parent: str | None = None) -> CallMetered:
    return CallMetered(tokens=Tokens(), message_id=message_id, parent=parent)


def result(*, is_error: bool = False) -> SessionResult:
    return SessionResult(subtype="success", is_error=is_error, text="done", turns=1, duration_ms=1)


def retried(status: int | None, delay_s: float | None) -> RequestRetried:
    delay_ms = None if delay_s is None else delay_s * 1000
    return RequestRetried(attempt=1, status=status, reason=None, delay_ms=delay_ms, at=NOW)


def refused(retry_after_s: float | None) -> ModelCalled:
    return ModelCalled(model=MODEL, status=429, error="rate_limited", retry_after_s=retry_after_s, at=NOW)


def limit_seen(status: str, resets_in_s: float | None = None, utilization: float | None = None) -> RateLimitSeen:
    resets_at = None if resets_in_s is None else NOW + resets_in_s
    return RateLimitSeen(status=status, resets_at=resets_at, utilization=utilization, at=NOW)


def test_no_limit_never_ends() -> None:
    bench = Bench().take(call("a"), limit_seen("rejected", HOUR), UsageReported(output_tokens=10**9)).after(10_000)
    assert bench.reason is None


class TestSilence:
    def test_silence(self) -> None:
        bench = Bench(idle_s=30).after(29)
        assert bench.kind is None
        assert bench.after(1).kind == "idle"
        assert bench.reason
        assert bench.reason.message == "the agent printed nothing for 30.0 s while no tool ran"

    @pytest.mark.parametrize("sign", [AssistantText(text="x"), None], ids=["an event", "other output"])
    def test_any_output_ends_the_silence(self, sign: Event | None) -> None:
        bench = Bench(idle_s=30).after(29)
        bench.watch.take(sign) if sign else bench.watch.heard()
        assert bench.after(29).kind is None
        assert bench.after(1).kind == "idle"

    def test_a_long_tool_call_is_not_silence(self) -> None:
        bench = Bench(idle_s=30).take(message("m1"), call("a")).after(HOUR)
        assert bench.kind is None
        assert bench.take(returned("a")).after(29).kind is None
        assert bench.after(1).kind == "idle"

    def test_a_call_of_a_subagent_is_not_silence(self) -> None:
        calls = [message("m1"), call("task"), message("s1", "task"), call("inner", "task")]
        assert Bench(idle_s=30).take(*calls).after(HOUR).kind is None
        done = [*calls, returned("inner", "task"), returned("task")]
        assert Bench(idle_s=30).take(*done).after(30).kind == "idle"

    def test_one_of_several_calls_still_runs(self) -> None:
        bench = Bench(idle_s=30).take(message("m1"), call("a"), call("b"), returned("a"))
        assert bench.after(HOUR).kind is None

    def test_a_denied_call_does_not_run(self) -> None:
        bench = Bench(idle_s=30).take(message("m1"), call("a"), ToolDenied(call_id="a", name="Bash"))
        assert bench.after(30).kind == "idle"

    def test_a_call_without_a_result_has_ended_with_the_next_message(self) -> None:
        bench = Bench(idle_s=30).take(message("m1"), call("a"), message("m1"))
        assert bench.after(HOUR).kind is None, "the same message again"
        assert bench.take(message("s1", "task")).after(HOUR).kind is None, "a subagent's"
        assert bench.take(message("m2")).after(30).kind == "idle"

    def test_a_call_whose_arguments_never_end_is_silence(self) -> None:
        bench = Bench(idle_s=30).take(ToolStarted(call_id="a", name="Bash"))
        assert bench.after(30).kind == "idle"

    def test_not_after_the_result(self) -> None:
        """From there on, the adapter ends the process."""
        bench = Bench(idle_s=30, time_s=30).take(result()).after(HOUR)
        assert bench.kind is None
        assert bench.take(message("m2")).after(1).kind == "time", "another turn"


class TestTime:
    def test_the_time_is_over_while_a_tool_runs(self) -> None:
        bench = Bench(time_s=60, idle_s=30).take(call("a"))
        assert bench.after(59).kind is None
        assert bench.after(1).kind == "time"

    def test_a_tool_call_that_takes_too_long(self) -> None:
        bench = Bench(tool_s=60).after(100).take(call("a", name="WebFetch")).after(30).take(call("b")).after(29)
        assert bench.kind is None
        assert bench.after(1).kind == "tool_timeout"
        assert bench.reason
        assert "WebFetch" in bench.reason.message

    def test_a_repeated_event_does_not_restart_a_tool(self) -> None:
        assert Bench(tool_s=60).take(call("a")).after(30).take(call("a")).after(30).kind == "tool_timeout"

    def test_the_first_reason_counts(self) -> None:
        bench = Bench(idle_s=30, time_s=40).after(100)
        assert bench.kind == "idle"

    async def test_the_checks_come_by_themselves(self) -> None:
        stop = asyncio.Event()
        watch = IterationWatch(IterationLimits(idle_s=0.01), stop)
        with watch.running():
            await asyncio.wait_for(stop.wait(), timeout=10)
        assert watch.reason
        assert watch.reason.kind == "idle"

    async def test_no_checks_after_the_iteration(self) -> None:
        watch = IterationWatch(IterationLimits(time_s=0.0), asyncio.Event())
        before = asyncio.all_tasks()
        with watch.running():
            assert asyncio.all_tasks() != before
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        assert watch.reason is None


class TestCost:
    def test_an_estimate_from_tokens(self) -> None:
        bench = Bench(cost_usd=1.0).take(UsageReported(input_tokens=500_000, output_tokens=40_000))
        assert bench.watch.cost.usd == pytest.approx(0.9)
        assert bench.watch.cost.is_estimated
        bench.take(AssistantText(text="a"), UsageReported(input_tokens=600_000, output_tokens=40_000))
        bench.take(AssistantText(text="b"), ContextUsed(tokens=1))
        assert bench.kind is None, "a result may follow"
        assert bench.take(call("a")).kind == "cost"
        assert bench.reason
        assert bench.reason.message == "it cost about $1.00, and $1.00 were left"

    @pytest.mark.parametrize(
        ("named", "answering", "window"),
        [
            (None, None, None),
            ("claude-sonnet-4-5", None, 200_000),
            ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5", 1_000_000),
            ("nobody-knows", "claude-sonnet-4-5", 200_000),
        ],
    )
    def test_the_context_window(self, named: str | None, answering: str | None, window: int | None) -> None:
        bench = Bench().take(
            SessionStarted(session_id=None, model=named, agent_version=None),
            CallMetered(tokens=Tokens(), model=answering, message_id="m"),
        )
        assert bench.watch.cost.context_window == window

    def test_silence_after_the_report(self) -> None:
        bench = Bench(cost_usd=1.0).take(UsageReported(output_tokens=100_000))
        assert bench.after(9).kind is None
        assert bench.after(1).kind == "cost"

    def test_the_last_call_counts_as_finished(self) -> None:
        """The work is done, and paid for: a promise in it must count."""
        bench = Bench(cost_usd=1.0).take(UsageReported(cost_usd=5.0, output_tokens=100_000), result())
        assert bench.after(10).kind is None
        assert bench.watch.cost.usd == 5.0
        assert not bench.watch.cost.is_estimated

    def test_the_gateways_figures_come_first(self) -> None:
        paid = ModelCalled(model=MODEL, status=200, cost_usd=0.4)
        bench = Bench(cost_usd=1.0).take(paid, UsageReported(output_tokens=10**6), AssistantText(text="a"))
        assert bench.watch.cost.usd == 0.4
        assert bench.take(paid, paid, returned("a")).kind == "cost"
        assert bench.reason
        assert "about" not in bench.reason.message

    def test_a_model_without_a_price(self) -> None:
        started = SessionStarted(session_id=None, model="nobody-knows", agent_version=None)
        bench = Bench(cost_usd=1.0).take(started, UsageReported(output_tokens=10**9), AssistantText(text="a"))
        assert bench.watch.cost.usd is None
        assert bench.kind is None

    def test_each_call_has_the_price_of_its_model(self) -> None:
        started = SessionStarted(session_id=None, model="nobody-knows", agent_version=None)
        named = CallMetered(tokens=Tokens(), model=f"{MODEL}[1m]", message_id="m")
        bench = Bench().take(started, named, UsageReported(output_tokens=100_000))
        assert bench.watch.cost.usd == pytest.approx(1.0)

    @given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=20))
    def test_the_parts_add_up(self, calls: list[tuple[int, int]]) -> None:
        bench, read, written = Bench(), 0, 0
        for more_read, more_written in calls:
            read, written = read + more_read, written + more_written
            bench.take(UsageReported(input_tokens=read, output_tokens=written))
        expected = (read * 1.0 + written * 10.0) / 1e6
        assert bench.watch.cost.usd == (pytest.approx(expected) if calls else None)


class TestUsageLimit:
    @pytest.mark.parametrize("refusal", [refused(HOUR), retried(429, HOUR)], ids=["gateway", "agent"])
    def test_a_reset_far_away_ends_the_iteration(self, refusal: Event) -> None:
        bench = Bench().take(refusal)
        assert bench.reason == EndReason("usage_limit", "the provider's usage limit was reached", NOW + HOUR)

    @pytest.mark.parametrize("refusal", [refused(5), retried(429, 5)], ids=["gateway", "agent"])
    def test_a_reset_in_seconds_is_left_to_the_agent(self, refusal: Event) -> None:
        bench = Bench().take(refusal)
        assert bench.kind is None
        assert bench.watch.resets_at == NOW + 5

    def test_an_answer_afterwards(self) -> None:
        bench = Bench().take(refused(5), ModelCalled(model=MODEL, status=200))
        assert bench.watch.resets_at is None

    @pytest.mark.parametrize("other", [retried(529, HOUR), retried(None, HOUR), retried(429, None), refused(None)])
    def test_other_failures(self, other: Event) -> None:
        assert Bench().take(other).kind is None

    def test_a_subscriptions_limit(self) -> None:
        """A rejection by itself is not the end: more than the quota may be paid for."""
        bench = Bench().take(limit_seen("rejected", HOUR))
        assert (bench.kind, bench.watch.resets_at) == (None, NOW + HOUR)
        assert bench.take(retried(429, 1)).kind == "usage_limit"
        assert bench.reason
        assert bench.reason.resets_at == NOW + HOUR

    def test_the_quota_that_is_left(self) -> None:
        bench = Bench(quota_percent=90).take(limit_seen("allowed", HOUR, 0.89), AssistantText(text="a"))
        assert bench.kind is None
        bench.take(limit_seen("allowed_warning", HOUR, 0.9), message("m2"))
        assert bench.reason == EndReason("quota", "90% of the quota are used, and the limit is 90%", NOW + HOUR)

    def test_the_quota_at_the_end(self) -> None:
        bench = Bench(quota_percent=90).take(limit_seen("allowed", HOUR, 0.95), result()).after(10)
        assert bench.kind is None
        assert bench.watch.quota_reached


steps = st.one_of(
    st.integers(1, 50).map(lambda seconds: ("wait", seconds)),
    st.sampled_from("abc").map(lambda name: ("call", name)),
    st.sampled_from("abc").map(lambda name: ("return", name)),
    st.just(("print", "")),
)


@given(st.lists(steps, max_size=40), st.integers(1, 60))
def test_silence_is_the_time_without_output_and_tools(taken: list[tuple[str, Any]], idle_s: int) -> None:
    bench, running, silent_s, idle = Bench(idle_s=idle_s), set(), 0.0, False
    for kind, value in taken:
        if kind == "wait":
            bench.after(value)
            silent_s += value
            idle = idle or (not running and silent_s >= idle_s)
            continue
        silent_s = 0.0
        if kind == "call":
            running.add(value)
            bench.take(call(value))
        elif kind == "return":
            running.discard(value)
            bench.take(returned(value))
        else:
            bench.watch.heard()
    assert (bench.kind == "idle") == idle
