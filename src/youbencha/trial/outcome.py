"""Classify runs: one table of outcomes, and whether each is valid and worth a retry.

A run that did not measure the agent (a provider's failure, a broken verifier) is not a failure of the agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from youbencha.log.model import ErrorRecord, FailureCause, Status
from youbencha.store.bundle import EvaluationResult, GatewayReport, Outcome, OutcomeName, OverallStatus, Summary
from youbencha.text import first_few, one_line


class Policy(NamedTuple):
    valid: bool
    retry: bool


POLICIES: Mapping[OutcomeName, Policy] = {
    "solved": Policy(valid=True, retry=False),
    "unsolved": Policy(valid=True, retry=False),
    "limit": Policy(valid=True, retry=False),
    "refused": Policy(valid=True, retry=False),
    "agent_error": Policy(valid=True, retry=False),
    "provider_error": Policy(valid=False, retry=True),
    "infra_error": Policy(valid=False, retry=True),
    "verifier_error": Policy(valid=False, retry=True),
}

OUTCOMES: Mapping[FailureCause, OutcomeName] = {
    "TIMEOUT": "limit",
    "MAX_TURNS": "limit",
    "MAX_BUDGET": "limit",
    "STOPPED": "limit",
    "SANDBOX_LIMIT": "limit",
    "OUT_OF_MEMORY": "limit",
    "REFUSED": "refused",
    "AUTH_FAILED": "provider_error",
    "RATE_LIMIT": "provider_error",
    "OVERLOADED": "provider_error",
    "API_ERROR": "provider_error",
    "GAVE_UP": "unsolved",
    "CLI_NOT_FOUND": "infra_error",
    "VERSION_TOO_OLD": "infra_error",
    "HOST_FAILED": "infra_error",
    "OUTPUT_LOST": "infra_error",
    "CRASHED": "agent_error",
    "EXIT_CODE": "agent_error",
    "EXECUTION_ERROR": "agent_error",
    "NO_RESULT": "agent_error",
    "UNRESPONSIVE": "agent_error",
}

_MAX_NAMES, _MAX_NAME_CHARS = 3, 100


def build_summary(
    results: Sequence[EvaluationResult], *, expected: int, agent: Status | None, complete: bool
) -> Summary:
    """Count the results. `agent` is None if none was run: then the evaluators alone decide."""
    count = {status: sum(result.status == status for result in results) for status in ("passed", "failed", "skipped")}
    return Summary(
        total_evaluators=expected,
        passed=count["passed"],
        failed=count["failed"],
        skipped=count["skipped"],
        overall_status=_overall(results, expected, agent, complete),
    )


def _overall(results: Sequence[EvaluationResult], expected: int, agent: Status | None, complete: bool) -> OverallStatus:
    accepted = sum(result.advisory or result.status == "passed" for result in results)
    if any(result.status == "failed" for result in _deciding(results)) or agent in ("failed", "timeout"):
        return "failed"
    if not complete or accepted < expected:  # a skipped check did not pass
        return "partial"
    return "passed"


def determine_outcome(
    status: Status,
    errors: Sequence[ErrorRecord],
    results: Sequence[EvaluationResult],
    *,
    failure: str | None = None,
    gateway: GatewayReport | None = None,
) -> Outcome:
    """The outcome of a run. With a gateway, only the gateway can say that the provider failed.

    An agent could print that, or make a request that is refused, to make a bad result invalid. Without a gateway, what
    its CLI reports is the only source. `failure` is one of the harness, after the agent had ended.
    """
    name: OutcomeName
    if (known := _known_by_gateway(status, errors, gateway)) is not None:
        name, reason = known
    elif status != "success":
        name, reason = _agent_failure(status, errors, gateway)
    elif failure is not None:
        name, reason = "infra_error", failure
    else:
        name, reason = _judged(results)
        if name == "unsolved" and gateway and gateway.provider_failure:
            # Scripts hide that their agent failed, and Claude Code 2.0.62 takes half a stream for a whole answer.
            name, reason = "provider_error", gateway.provider_failure
    policy = POLICIES[name]
    return Outcome(name=name, valid=policy.valid, retry=policy.retry, reason=reason)


def _known_by_gateway(
    status: Status, errors: Sequence[ErrorRecord], gateway: GatewayReport | None
) -> tuple[OutcomeName, str] | None:
    if gateway is None or _is_host_failure(errors):
        return None
    if gateway.cassette is not None and gateway.cassette.unmatched:
        return "infra_error", f"the recording has no answer to {gateway.cassette.unmatched} of the agent's requests"
    if gateway.budget is not None and gateway.refused:
        return "limit", gateway.budget.reason or "the budget was exceeded"
    return _provider_failure(status, errors, gateway)


def _provider_failure(
    status: Status, errors: Sequence[ErrorRecord], gateway: GatewayReport
) -> tuple[OutcomeName, str] | None:
    """Whether calls to the model explain that the agent failed. `gateway/witness.py` has the rule."""
    if status == "success":
        return None
    if gateway.provider_failure is not None:
        return "provider_error", gateway.provider_failure
    ended_while_waiting = status == "timeout" or any(error.cause == "UNRESPONSIVE" for error in errors)
    if ended_while_waiting and gateway.provider_silent_ms is not None:
        waited = f"{gateway.provider_silent_ms / 1000:.0f} s"
        return "provider_error", f"the provider did not answer: the last call had waited for {waited} when time was up"
    return ("agent_error", gateway.unpriced) if gateway.unpriced else None


def _is_host_failure(errors: Sequence[ErrorRecord]) -> bool:
    return any(error.cause == "HOST_FAILED" for error in errors)


def _agent_failure(
    status: Status, errors: Sequence[ErrorRecord], gateway: GatewayReport | None
) -> tuple[OutcomeName, str]:
    unanswered = [error for error in errors if (error.context or {}).get("unanswered")]
    if status == "timeout" and unanswered and gateway is None:
        return "provider_error", unanswered[0].message
    for error in errors:
        outcome = OUTCOMES[error.cause] if error.cause else None
        if outcome == "provider_error" and gateway is not None and status != "timeout":
            return "agent_error", f"{error.message.rstrip('.')}; the gateway saw no failure of the provider"
        if error.cause == "OUTPUT_LOST" and gateway is not None and gateway.ended_in_tool:
            return "agent_error", f"{error.message.rstrip('.')}, while one of its tools ran"
        if outcome is not None and (status != "timeout" or outcome == "limit"):
            return outcome, error.message
    if status == "timeout":
        return "limit", "the agent did not finish in time"
    return "agent_error", errors[0].message if errors else "the agent failed without an error message"


def _deciding(results: Sequence[EvaluationResult]) -> list[EvaluationResult]:
    return [result for result in results if not result.advisory]


def _judged(results: Sequence[EvaluationResult]) -> tuple[OutcomeName, str]:
    failed = [result for result in _deciding(results) if result.status == "failed"]
    skipped = [result.evaluator for result in _deciding(results) if result.status == "skipped"]
    if failed:
        return "unsolved", "; ".join(map(_why_failed, failed))
    if skipped:
        return "verifier_error", f"no verdict from {', '.join(skipped)}"
    return "solved", "every evaluator passed"


def _why_failed(result: EvaluationResult) -> str:
    """Return the evaluator's message with the names of failed assertions that have no message, such as tests."""
    unexplained = [assertion.name for assertion in result.assertions if not (assertion.passed or assertion.message)]
    shown = first_few([one_line(name, _MAX_NAME_CHARS) for name in unexplained[: _MAX_NAMES + 1]], _MAX_NAMES)
    names = f" (not passed: {shown})" if unexplained else ""
    return f"{result.evaluator}: {one_line(result.message).rstrip('.')}{names}"
