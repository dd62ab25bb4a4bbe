"""Classify runs: one table of outcomes, and whether each is valid and worth a retry.

A run that did not measure the agent (a provider's failure, a broken verifier) is not a failure of the agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from youbencha.log.model import ErrorRecord, FailureCause, Status
from youbencha.log.results import EvaluationResult, GatewayReport, Outcome, OutcomeName, OverallStatus, Summary
from youbencha.text import one_line


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
    "API_ERROR": "provider_error",
    "GAVE_UP": "unsolved",
    "CLI_NOT_FOUND": "infra_error",
    "HOST_FAILED": "infra_error",
    "CRASHED": "agent_error",
    "EXIT_CODE": "agent_error",
    "EXECUTION_ERROR": "agent_error",
    "NO_RESULT": "agent_error",
    "UNRESPONSIVE": "agent_error",
}


def summary_of(results: Sequence[EvaluationResult], *, expected: int, agent: Status | None, complete: bool) -> Summary:
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


def outcome_of(
    status: Status,
    errors: Sequence[ErrorRecord],
    results: Sequence[EvaluationResult],
    *,
    failure: str | None = None,
    gateway: GatewayReport | None = None,
) -> Outcome:
    """The outcome of a run. What the gateway knows comes before what the agent reports.

    `failure` is one of the harness, after the agent had ended.
    """
    name: OutcomeName
    if (known := _known_by_gateway(status, gateway)) is not None:
        name, reason = known
    elif status != "success":
        name, reason = _agent_failure(status, errors)
    elif failure is not None:
        name, reason = "infra_error", failure
    else:
        name, reason = _judged(results)
    policy = POLICIES[name]
    return Outcome(name=name, valid=policy.valid, retry=policy.retry, reason=reason)


def _known_by_gateway(status: Status, gateway: GatewayReport | None) -> tuple[OutcomeName, str] | None:
    if gateway is None:
        return None
    if gateway.cassette is not None and gateway.cassette.unmatched:
        return "infra_error", f"the recording has no answer to {gateway.cassette.unmatched} of the agent's requests"
    if gateway.budget is not None and gateway.refused:
        return "limit", gateway.budget.reason or "the budget was exceeded"
    if gateway.unpriced:  # the gateway refused a request because it could not enforce a cap
        return "infra_error", gateway.unpriced
    if status == "timeout" and gateway.rate_limited and gateway.failed == gateway.requests:
        return "provider_error", f"rate limited by the provider: none of {gateway.requests} requests was answered"
    if gateway.circuit_opened and status != "success":
        return "provider_error", "the provider failed repeatedly, and the gateway stopped sending requests"
    return None


def _agent_failure(status: Status, errors: Sequence[ErrorRecord]) -> tuple[OutcomeName, str]:
    unanswered = [error for error in errors if (error.context or {}).get("unanswered")]
    if status == "timeout" and unanswered:
        return "provider_error", unanswered[0].message
    for error in errors:
        outcome = OUTCOMES[error.cause] if error.cause else None
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
        return "unsolved", "; ".join(f"{each.evaluator}: {one_line(each.message).rstrip('.')}" for each in failed)
    if skipped:
        return "verifier_error", f"no verdict from {', '.join(skipped)}"
    return "solved", "every evaluator passed"
