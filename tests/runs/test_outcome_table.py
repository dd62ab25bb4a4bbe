"""From errors and evaluations to outcome and verdict."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest

from youbencha.adapters import codes
from youbencha.log.model import ErrorRecord, FailureCause, Status
from youbencha.store.bundle import EvaluationResult, EvaluationStatus, GatewayReport, OutcomeName
from youbencha.trial.outcome import OUTCOMES, POLICIES, build_summary, determine_outcome

AT = "2026-01-01T00:00:00.000Z"


def result(status: EvaluationStatus, name: str = "x") -> EvaluationResult:
    return EvaluationResult(evaluator=name, status=status, message="m", timestamp=AT)


def error(code: str | None) -> ErrorRecord:
    return ErrorRecord(message=f"because of {code}", timestamp=AT, code=code)


@pytest.mark.parametrize(
    ("code", "outcome", "valid"),
    [
        ("CLAUDE_MAX_TURNS", "limit", True),
        ("CLAUDE_MAX_BUDGET", "limit", True),
        ("CLAUDE_REFUSED", "refused", True),
        ("CLAUDE_CRASHED", "agent_error", True),
        ("CLAUDE_EXIT_CODE", "agent_error", True),
        ("CLAUDE_NO_RESULT", "agent_error", True),
        ("CLAUDE_EXECUTION_ERROR", "agent_error", True),
        ("CLAUDE_AUTH_FAILED", "provider_error", False),
        ("CLAUDE_RATE_LIMIT", "provider_error", False),
        ("CLAUDE_OVERLOADED", "provider_error", False),
        ("CLAUDE_API_ERROR", "provider_error", False),
        ("COPILOT_RATE_LIMIT", "provider_error", False),
        ("SOMETHING_NEW", "agent_error", True),
        (None, "agent_error", True),
    ],
)
def test_outcomes_of_error_codes(code: str | None, outcome: OutcomeName, valid: bool) -> None:
    found = determine_outcome("failed", [error(code)], [result("passed")])
    assert (found.name, found.valid) == (outcome, valid)
    assert found.reason == f"because of {code}"


def test_a_timeout_is_a_limit_whatever_else_went_wrong() -> None:
    found = determine_outcome("timeout", [error("CLAUDE_API_ERROR"), error("CLAUDE_TIMEOUT")], [])
    assert (found.name, found.reason) == ("limit", "because of CLAUDE_TIMEOUT")
    assert determine_outcome("timeout", [], []).name == "limit"


def test_a_timeout_without_an_answer_is_a_provider_error() -> None:
    unanswered = error("CLAUDE_RATE_LIMIT").model_copy(update={"context": {"unanswered": True}})
    found = determine_outcome("timeout", [error("CLAUDE_TIMEOUT"), unanswered], [])
    assert (found.name, found.valid, found.reason) == (
        "provider_error",
        False,
        "because of CLAUDE_RATE_LIMIT",
    )


FAILED = {"provider_failure": "the provider failed"}
SILENT = {"provider_silent_ms": 9_000}


@pytest.mark.parametrize(
    ("seen", "status", "code", "outcome"),
    [
        (FAILED, "failed", "CLAUDE_EXIT_CODE", "provider_error"),
        (FAILED, "timeout", "CLAUDE_TIMEOUT", "provider_error"),
        (SILENT, "timeout", "CLAUDE_TIMEOUT", "provider_error"),
        (SILENT, "failed", "CLAUDE_UNRESPONSIVE", "provider_error"),
        (SILENT, "failed", "CLAUDE_EXIT_CODE", "agent_error"),
        ({}, "timeout", "CLAUDE_TIMEOUT", "limit"),
        # Only the agent says so.
        ({}, "failed", "CLAUDE_API_ERROR", "agent_error"),
        ({}, "failed", "CLAUDE_RATE_LIMIT", "agent_error"),
        ({}, "failed", "CLAUDE_AUTH_FAILED", "agent_error"),
        # The harness saw it itself.
        (FAILED, "failed", "CLAUDE_HOST_FAILED", "infra_error"),
        ({}, "failed", "CLAUDE_OUTPUT_LOST", "infra_error"),
        ({"ended_in_tool": True}, "failed", "CLAUDE_OUTPUT_LOST", "agent_error"),
        ({"unpriced": "no price"}, "failed", "CLAUDE_STOPPED", "agent_error"),
        ({**FAILED, "unpriced": "no price"}, "failed", "CLAUDE_STOPPED", "provider_error"),
        ({**FAILED, "refused": 1, "budget": {}}, "failed", "CLAUDE_STOPPED", "limit"),
    ],
)
def test_with_a_gateway_it_is_the_witness(
    seen: dict[str, Any], status: Status, code: str, outcome: OutcomeName
) -> None:
    report = GatewayReport.model_validate({"type": "builtin", "ledger": "x", **seen})
    assert determine_outcome(status, [error(code)], [], gateway=report).name == outcome


@pytest.mark.parametrize(
    ("seen", "judged", "outcome"),
    [(FAILED, "failed", "provider_error"), (FAILED, "passed", "solved"), ({}, "failed", "unsolved")],
)
def test_success_after_failed_calls(seen: dict[str, Any], judged: EvaluationStatus, outcome: OutcomeName) -> None:
    """Scripts may hide that their agent failed; but work that is done is done."""
    report = GatewayReport.model_validate({"type": "builtin", "ledger": "x", **seen})
    assert determine_outcome("success", [], [result(judged)], gateway=report).name == outcome


def test_what_a_cli_reports_about_its_retries_is_no_witness() -> None:
    unanswered = error("CLAUDE_RATE_LIMIT").model_copy(update={"context": {"unanswered": True}})
    report = GatewayReport.model_validate({"type": "builtin", "ledger": "x"})
    assert determine_outcome("timeout", [error("CLAUDE_TIMEOUT"), unanswered], [], gateway=report).name == "limit"


def test_a_failure_without_an_error_message() -> None:
    assert "without an error message" in determine_outcome("failed", [], []).reason


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        (["passed", "passed"], "solved"),
        (["passed", "failed"], "unsolved"),
        (["skipped", "failed"], "unsolved"),
        (["passed", "skipped"], "verifier_error"),
        (["skipped"], "verifier_error"),
    ],
)
def test_outcomes_of_a_successful_agent_by_evaluator_status(
    statuses: list[EvaluationStatus], outcome: OutcomeName
) -> None:
    assert determine_outcome("success", [], [result(status) for status in statuses]).name == outcome


def test_the_reason_says_what_each_evaluator_found() -> None:
    found = [
        EvaluationResult(evaluator=name, status="failed", message=message, timestamp=AT)
        for name, message in {"validation": "15 of 31 tests passed.", "command:lint": "3 issues\nin a.py"}.items()
    ]
    reason = determine_outcome("success", [], [*found, result("passed")]).reason
    assert reason == "validation: 15 of 31 tests passed; command:lint: 3 issues in a.py"


def test_a_failure_of_the_harness_is_not_the_agents() -> None:
    found = determine_outcome("success", [], [result("skipped")], failure="the disk is full")
    assert (found.name, found.valid, found.reason) == ("infra_error", False, "the disk is full")
    assert determine_outcome("failed", [error("CLAUDE_CRASHED")], [], failure="the disk is full").name == "agent_error"


def test_truncated_output_is_not_a_failure() -> None:
    assert determine_outcome("success", [error("CLAUDE_OUTPUT_TRUNCATED")], [result("passed")]).name == "solved"


def test_the_verdict_is_passed_only_if_everything_passed() -> None:
    """The verdict over every combination of what an agent and two evaluators can do."""
    statuses: tuple[EvaluationStatus, ...] = ("passed", "failed", "skipped")
    agents: tuple[Status | None, ...] = ("success", "failed", "timeout", None)
    for agent, first, second, complete in itertools.product(agents, statuses, statuses, (True, False)):
        verdict = build_summary([result(first), result(second)], expected=2, agent=agent, complete=complete)
        all_good = agent in ("success", None) and first == second == "passed" and complete
        any_bad = agent in ("failed", "timeout") or "failed" in (first, second)
        assert verdict.overall_status == ("passed" if all_good else "failed" if any_bad else "partial")


def test_a_missing_evaluator_makes_the_verdict_partial() -> None:
    assert build_summary([result("passed")], expected=2, agent="success", complete=True).overall_status == "partial"
    assert build_summary([], expected=1, agent="success", complete=True).overall_status == "partial"


def test_invalid_outcomes_may_be_retried() -> None:
    assert {name for name, policy in POLICIES.items() if not policy.valid} == {
        "provider_error",
        "infra_error",
        "verifier_error",
    }
    assert all(policy.retry is not policy.valid for policy in POLICIES.values())


def test_the_cause_is_the_end_of_a_code() -> None:
    assert error("CLAUDE_TIMEOUT").cause == error("MY_AGENT_TIMEOUT").cause == "TIMEOUT"
    assert error("TIMEOUTS_ARE_FINE").cause is None
    assert error(None).cause is None


def test_every_cause_has_an_outcome() -> None:
    assert set(OUTCOMES) == set(get_args(FailureCause))
    assert set(OUTCOMES) <= {value for name, value in vars(codes).items() if name.isupper() and isinstance(value, str)}
