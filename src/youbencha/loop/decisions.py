"""What follows from an iteration: go on, wait, or end. Pure functions, without a clock.

The order of the rules is the policy: completion comes before every limit, so that a promise in the last allowed
iteration counts; a usage limit is not a failure; a permanent failure, such as a missing login, is not retried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from youbencha.text import format_duration, format_usd, plural

if TYPE_CHECKING:
    from youbencha.spec.loop import EventLoopSpec, LoopRetrySpec
    from youbencha.store.loops import IterationOutcome, LoopOutcome, LoopState

WaitKind = Literal["cooldown", "backoff", "usage_limit"]
Request = Literal["stop", "restart"]

FIRST_WAIT_S, LONGEST_WAIT_S = 60.0, 3600.0
"""For a usage limit whose end is unknown: the first wait, doubled each time, and the longest."""
_LATEST_RESET_S = 8 * 86_400.0
"""A reset that is further away is not believed: the longest known limits are weekly."""
_AFTER_RESET_S = 1.0
_JUST_NOW_S = 60.0
"""A limit that ended so recently may have ended while the agent was ending."""
_LARGEST_EXPONENT = 100
"""A float cannot hold much more."""


class Ended(NamedTuple):
    """An iteration that has ended, as far as decisions depend on it."""

    outcome: IterationOutcome
    reason: str = ""
    is_permanent: bool = False
    """The next attempt would fail in the same way."""
    resets_at: float | None = None
    """When the usage limit ends, in seconds since the epoch."""
    limit: LoopOutcome | None = None
    """The limit of the loop that ended it, if one did."""
    is_done: bool = False
    """The agent says that the work is done, and everything required has passed."""
    is_cancelled: bool = False
    """The agent gave up by `cancellation_promise`."""
    output_hash: str | None = None
    files_changed: int | None = None
    """Since the last checkpoint; None if none was taken."""
    request: Request | None = None
    """What a file in `.ralph` asks for."""


class End(NamedTuple):
    """The loop ends."""

    outcome: LoopOutcome
    reason: str


class GoOn(NamedTuple):
    """The next iteration follows, at once or after a wait."""

    wait_s: float = 0.0
    kind: WaitKind = "cooldown"
    reason: str = ""


Decision = End | GoOn

REQUESTED: dict[Request, End] = {
    "stop": End("stopped", "`.ralph/stop-requested` asked for it"),
    "restart": End("restart", "`.ralph/restart-requested` asked for it"),
}


def count_iteration(state: LoopState, ended: Ended, spec: EventLoopSpec) -> dict[str, Any]:
    """The counters of the state after an iteration. A success returns to the configured agent."""
    if ended.outcome == "usage_limit":
        return {"usage_limits": state.usage_limits + 1}
    if ended.outcome == "failed":
        step_failures, escalation = state.step_failures + 1, state.escalation
        is_over = step_failures >= spec.retry.attempts or ended.is_permanent
        if is_over and escalation < len(spec.escalation):
            step_failures, escalation = 0, escalation + 1
        return {
            "consecutive_failures": state.consecutive_failures + 1,
            "step_failures": step_failures,
            "escalation": escalation,
            "usage_limits": 0,
            "repeats": 0,
        }
    same = state.last is not None and ended.output_hash is not None and state.last.output_hash == ended.output_hash
    repeats = state.repeats + 1 if same and not ended.files_changed else 1
    return {"consecutive_failures": 0, "step_failures": 0, "escalation": 0, "usage_limits": 0, "repeats": repeats}


def decide(state: LoopState, ended: Ended, spec: EventLoopSpec, *, now: float, random: Callable[[], float]) -> Decision:
    """Decide what follows. `state` has the counters after this iteration; `random` returns a number from 0 to 1."""
    for rule in (_finished, _asked_to_end, _limits):
        if end := rule(state, ended, spec):
            return end
    match ended.outcome:
        case "usage_limit":
            return _after_usage_limit(state, ended, spec, now)
        case "failed":
            return _after_failure(state, ended, spec, random)
        case _:
            return _after_success(state, ended, spec)


def _finished(state: LoopState, ended: Ended, spec: EventLoopSpec) -> End | None:
    if ended.outcome != "completed":
        return None
    if ended.is_done:
        return End("completed", "the work is done")
    if ended.is_cancelled:
        return End("cancelled", "the agent gave up")
    return None


def _asked_to_end(state: LoopState, ended: Ended, spec: EventLoopSpec) -> End | None:
    if ended.outcome in ("stopped", "interrupted"):
        return End("interrupted", ended.reason or "stopped by the user")
    return REQUESTED[ended.request] if ended.request else None


def _limits(state: LoopState, ended: Ended, spec: EventLoopSpec) -> End | None:
    if ended.limit is not None:
        return End(ended.limit, ended.reason)
    return limit_reached(state, spec)


def limit_reached(state: LoopState, spec: EventLoopSpec) -> End | None:
    """The limit of the loop that leaves no room for another iteration, if there is one."""
    if state.iterations >= spec.max_iterations:
        return End("max_iterations", f"{state.iterations} of {plural(spec.max_iterations, 'iteration')} have run")
    if state.elapsed_ms >= spec.max_runtime_seconds * 1000:
        most = format_duration(spec.max_runtime_seconds * 1000)
        return End("max_runtime", f"it has run for {format_duration(state.elapsed_ms)}, and may run for {most}")
    if spec.max_cost_usd is not None and (state.cost_usd or 0.0) >= spec.max_cost_usd:
        return End("max_cost", f"{format_usd(state.cost_usd or 0.0)} of {format_usd(spec.max_cost_usd)} are spent")
    return None


def _after_usage_limit(state: LoopState, ended: Ended, spec: EventLoopSpec, now: float) -> Decision:
    if spec.on_usage_limit == "stop":
        return End("usage_limit", ended.reason)
    until = ended.resets_at
    if until is not None and now < until <= now + _LATEST_RESET_S:
        return GoOn(until - now + _AFTER_RESET_S, "usage_limit", ended.reason)
    if until is not None and now - _JUST_NOW_S < until <= now and state.usage_limits == 1:
        return GoOn(_AFTER_RESET_S, "usage_limit", ended.reason)
    grown = FIRST_WAIT_S * 2.0 ** min(state.usage_limits - 1, 20)
    return GoOn(min(grown, LONGEST_WAIT_S), "usage_limit", f"{ended.reason} (its end is unknown)")


def _after_failure(state: LoopState, ended: Ended, spec: EventLoopSpec, random: Callable[[], float]) -> Decision:
    if state.consecutive_failures >= spec.max_consecutive_failures:
        failures = plural(state.consecutive_failures, "iteration")
        return End("failed", f"{failures} failed in a row; the last: {ended.reason}")
    escalated = state.step_failures == 0  # a step was taken just now
    if escalated and (person := spec.escalation[state.escalation - 1].person):
        return End("needs_person", f"{person} The last failure: {ended.reason}")
    if not escalated and ended.is_permanent:
        return End("failed", ended.reason)
    wait_s = backoff_s(spec.retry, max(1, state.step_failures), random())
    return GoOn(wait_s, "backoff", ended.reason)


def backoff_s(retry: LoopRetrySpec, failures: int, random: float) -> float:
    """The delay after so many failures in a row: it grows up to the configured maximum, which jitter may exceed."""
    grown: float = retry.delay_seconds * retry.factor ** min(failures - 1, _LARGEST_EXPONENT)
    return min(grown, retry.max_delay_seconds) * (1 + retry.jitter * (2 * random - 1))


def _after_success(state: LoopState, ended: Ended, spec: EventLoopSpec) -> Decision:
    has_not_changed = ended.files_changed == 0  # known only if a checkpoint was taken
    if spec.stale_after and state.repeats >= spec.stale_after and has_not_changed:
        return End(
            "stale",
            f"the last {plural(state.repeats, 'iteration')} printed the same, and changed neither a file nor a task",
        )
    return GoOn(spec.cooldown_delay_seconds)
