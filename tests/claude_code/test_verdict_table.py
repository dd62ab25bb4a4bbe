"""How a run ended -> status, errors, warnings: one row for each way that was seen."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from stream_samples import AT, INIT, RESULT, VERSIONS, assistant, facts_of, line, lines, text, transcript

from endings import run_ending
from youbencha.adapters import codes
from youbencha.adapters.causes import COMMON_CAUSES, reset_time
from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.cli_agent.verdict import Verdict, session_warnings
from youbencha.adapters.cli_agent.verdict import judge as verdict_on
from youbencha.events import RequestRetried
from youbencha.log.model import ErrorRecord
from youbencha.log.session import CallFailed, ModelSwitched, RetriedCalls, SessionFacts
from youbencha.process import LimitHit
from youbencha.usage import SessionUsage, Tokens

NEW = ("2.1.197", "2.1.325")


CAUSES = (*ClaudeCode.causes, *COMMON_CAUSES)


class Judged(NamedTuple):
    status: str
    errors: tuple[ErrorRecord, ...]
    warnings: tuple[ErrorRecord, ...]


def judge(ended, *, at):
    verdict: Verdict = verdict_on(ClaudeCode, ended, at=at)
    return Judged(*verdict, tuple(session_warnings(ClaudeCode, ended.facts, at)))


def ending(*, facts=SessionFacts(), **how):  # noqa: B008  # it is frozen
    return run_ending(facts=facts, **how)


def verdict_of(name: str, exit_code: int | None = 0, **more):
    data = transcript(name)
    return judge(ending(exit_code=exit_code, output=data.decode(), facts=facts_of(data), **more), at=AT)


def only_error(verdict):
    (error,) = verdict.errors
    assert error.timestamp == AT
    assert error.hint
    return error


# (transcript, exit code as measured, code, kind, status in the context)
FAILURES = [
    *[(f"max_turns-{v}", int(v in NEW), "CLAUDE_MAX_TURNS", "max_turns", None) for v in VERSIONS],
    *[(f"max_budget-{v}", int(v in NEW), "CLAUDE_MAX_BUDGET", "max_budget", None) for v in VERSIONS[1:]],
    *[(f"budget-{v}", 1, "CLAUDE_MAX_BUDGET", "max_budget", 400) for v in VERSIONS],
    *[(f"noauth_stream-{v}", 1, "CLAUDE_AUTH_FAILED", "authentication", None) for v in VERSIONS],
    *[(f"noauth_json-{v}", 1, "CLAUDE_AUTH_FAILED", "authentication", None) for v in VERSIONS],
    *[(f"noauth_text-{v}", 1, "CLAUDE_AUTH_FAILED", "authentication", None) for v in VERSIONS],
    *[(f"err_401_retries0-{v}", 1, "CLAUDE_AUTH_FAILED", "authentication", 401) for v in NEW],
    *[(f"err_401_retries0-{v}", 1, "CLAUDE_AUTH_FAILED", "authentication", None) for v in VERSIONS[:2]],
    *[(f"err_429-{v}", 1, "CLAUDE_RATE_LIMIT", "rate_limit", 429) for v in VERSIONS],
    *[(f"refusal-{v}", 1, "CLAUDE_REFUSED", "refusal", None) for v in VERSIONS],
    *[(f"err_400-{v}", 1, "CLAUDE_API_ERROR", "other", 400) for v in VERSIONS],
    *[(f"err_404-{v}", 1, "CLAUDE_API_ERROR", "model_not_found", 404) for v in VERSIONS],
    *[(f"err_529-{v}", 1, "CLAUDE_OVERLOADED", "overloaded", 529) for v in VERSIONS],
    ("err_500-2.1.325", 1, "CLAUDE_API_ERROR", "server", 500),
    *[(f"hang-{v}", 1, "CLAUDE_API_ERROR", "server", None) for v in VERSIONS],
    *[(f"refused-{v}", 1, "CLAUDE_API_ERROR", "server", None) for v in VERSIONS],
    *[(f"garbage-{v}", 1, "CLAUDE_API_ERROR", "server", None) for v in NEW],
    *[(f"err_credit-{v}", 1, "CLAUDE_API_ERROR", "billing", 400) for v in NEW],
    *[(f"err_credit-{v}", 1, "CLAUDE_API_ERROR", "billing", None) for v in VERSIONS[:2]],
    *[(f"ctx_too_long-{v}", 1, "CLAUDE_API_ERROR", "prompt_too_long", 400) for v in NEW],
    *[(f"maxtok-{v}", 1, "CLAUDE_API_ERROR", "max_output_tokens", None) for v in VERSIONS],
    ("drop-1.0.128", 0, "CLAUDE_EXECUTION_ERROR", "execution", None),
    ("garbage-2.1.30", 0, "CLAUDE_EXECUTION_ERROR", "execution", None),
    ("killed_SIGINT-2.1.325", 0, "CLAUDE_EXECUTION_ERROR", "execution", None),
    ("killed_SIGINT-2.1.197", 1, "CLAUDE_EXECUTION_ERROR", "execution", None),
]


@pytest.mark.parametrize(("name", "exit_code", "code", "kind", "status"), FAILURES)
def test_failures_of_real_sessions(name, exit_code, code, kind, status):
    verdict = verdict_of(name, exit_code)
    assert verdict.status == "failed"
    error = only_error(verdict)
    assert error.code == code
    assert error.context["kind"] == kind
    assert error.context["status"] == status
    assert error.context["exit_code"] == exit_code


SUCCESSES = [
    *[f"{name}-{v}" for name, v in itertools.product(("simple", "tool_use", "multi_tool", "malformed_tool"), VERSIONS)],
    *["bg20-2.1.325", "subagent-2.1.325", "errmid-2.1.30", "ratelimit_oauth-2.1.325", "hooks_default-2.1.325"],
]


@pytest.mark.parametrize("name", SUCCESSES)
def test_successes_of_real_sessions(name):
    verdict = verdict_of(name)
    assert (verdict.status, verdict.errors, verdict.warnings) == ("success", (), ())


def test_cr_2_2_success_needs_exit_0_too():
    error = only_error(verdict_of("simple-2.1.325", 1))
    assert (error.code, error.context) == ("CLAUDE_EXIT_CODE", {"exit_code": 1})


@pytest.mark.parametrize("name", ["killed_SIGINT-1.0.128", "killed_SIGINT-2.1.30", "stall-2.1.325"])
def test_exit_0_without_result_is_not_a_success(name):
    assert only_error(verdict_of(name)).code == "CLAUDE_NO_RESULT"


def test_output_that_ends_in_the_middle_of_a_line_is_lost():
    assert only_error(verdict_of("stall-2.1.325", unfinished_line=True)).code == "CLAUDE_OUTPUT_LOST"
    assert verdict_of("simple-2.1.325", unfinished_line=True).status == "success"


def test_no_output_is_not_a_success_if_a_stream_was_requested():
    silent = ending(exit_code=0, stream_expected=True)
    assert only_error(judge(silent, at=AT)).code == "CLAUDE_NO_RESULT"
    assert judge(ending(exit_code=0), at=AT).status == "success"


@pytest.mark.parametrize(
    ("exit_code", "signal", "seen"),
    [(None, "SIGSEGV", "SIGSEGV"), (143, None, "SIGTERM"), (137, None, "SIGKILL"), (0, "SIGKILL", "SIGKILL")],
)
def test_crash_names_the_signal(exit_code, signal, seen):
    error = only_error(verdict_of("killed_SIGTERM-2.1.30", exit_code, signal=signal))
    assert error.code == "CLAUDE_CRASHED"
    assert error.context["signal"] == seen
    assert seen in error.message
    assert ("out of memory" in error.hint) == (seen == "SIGKILL")


def test_exit_code_without_result_quotes_stderr_between_the_events():
    tail = line(**INIT).decode() + "\n\x1b[31merror: not logged in to npm\x1b[0m\n" + assistant(text("x")).decode()
    ended = ending(exit_code=1, output=tail, facts=facts_of(lines(line(**INIT))))
    error = only_error(judge(ended, at=AT))
    assert error.code == "CLAUDE_EXIT_CODE"
    assert error.message == "Claude Code exited with code 1. Its last line:\nerror: not logged in to npm"


def test_exit_code_in_text_mode_quotes_the_last_lines():
    tail = "\n".join(f"line {number}" for number in range(100)) + "\n" + "y" * 1000
    error = only_error(judge(ending(exit_code=2, output=tail), at=AT))
    assert error.code == "CLAUDE_EXIT_CODE"
    assert "line 95" not in error.message
    assert "line 96\nline 97\nline 98\nline 99\nyyy" in error.message
    assert error.message.count("y") < 310
    assert "printed nothing" in only_error(judge(ending(exit_code=2), at=AT)).message


def test_what_is_not_quoted_was_printed_all_the_same():
    events = line(**INIT).decode() + "\n" + assistant(text("x")).decode()
    error = only_error(judge(ending(exit_code=2, output=events, facts=facts_of(lines(line(**INIT)))), at=AT))
    assert error.message == "Claude Code exited with code 2."


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("Error: Reached max turns (2)", "CLAUDE_MAX_TURNS"),
        ("API Error: 429 {...}", "CLAUDE_RATE_LIMIT"),
        ("API Error: 402 spent", "CLAUDE_MAX_BUDGET"),
        ("API Error: 529 Overloaded", "CLAUDE_OVERLOADED"),
        ("Failed to authenticate. API Error: 401 ...", "CLAUDE_AUTH_FAILED"),
        ("error: unknown option '--agent'", "CLAUDE_EXIT_CODE"),
    ],
)
def test_failures_in_plain_text(said, code):
    assert only_error(judge(ending(exit_code=1, output=said), at=AT)).code == code
    assert judge(ending(exit_code=0, output=said), at=AT).status == "success"


PROSE = (
    "API Error: 401 is what the page shows now.",
    "I added a rate limit of 10 requests, with 429 Too Many Requests above it.",
    "Credit balance is too low",
    "Not logged in · Please run /login",
    "The request was declined: it appears to violate our Usage Policy",
    "success",
)
"""Answers of a model, which also works on login pages, APIs and shops."""
ANSWERED = SessionFacts(turns=2, usage=SessionUsage(Tokens(100, 20), partial=True))
FAILED = ANSWERED._replace(failure=CallFailed(kind=None, status=529, text="API Error: Overloaded"))
MEASURED = {
    "success": ({"exit_code": 0, "facts": ANSWERED}, "success", []),
    "success without a session file": ({"exit_code": 0}, "success", []),
    "exit code": ({"exit_code": 1, "facts": ANSWERED}, "failed", ["CLAUDE_EXIT_CODE"]),
    "failed call": ({"exit_code": 1, "facts": FAILED}, "failed", ["CLAUDE_OVERLOADED"]),
    "signal": ({"exit_code": 137}, "failed", ["CLAUDE_CRASHED"]),
    "limit": ({"exit_code": 1, "limit_hit": LimitHit("disk", "1 MiB")}, "failed", ["CLAUDE_SANDBOX_LIMIT"]),
    "deadline": ({"exit_code": 143, "timed_out": True}, "timeout", ["CLAUDE_TIMEOUT"]),
    "stop": ({"exit_code": 143, "stopped": True}, "failed", ["CLAUDE_STOPPED"]),
}


@pytest.mark.parametrize("measured", MEASURED)
@pytest.mark.parametrize("prose", PROSE)
def test_prose_does_not_override_what_was_measured(prose, measured):
    how, status, found = MEASURED[measured]
    verdict = judge(ending(output=f"{prose}\n", **how), at=AT)
    assert (verdict.status, [error.code for error in verdict.errors]) == (status, found)


@pytest.mark.parametrize("prose", PROSE)
def test_a_text_does_not_override_the_status_of_a_failed_call(prose):
    by_kind = assistant(text(prose), model="<synthetic>", error="server_error")
    by_status = assistant(text(f"API Error: 500 {prose}"), model="<synthetic>")
    for failed in (by_kind, by_status):
        error = only_error(judge(ending(exit_code=1, facts=facts_of(failed)), at=AT))
        assert (error.code, error.context["kind"]) == ("CLAUDE_API_ERROR", "server")


def test_model_text_is_not_a_failure():
    """An agent that builds a login page talks like a client that is not logged in."""
    said = "Invalid API key · Please run /login. API Error: 429. Prompt is too long."
    stream = lines(line(**INIT), assistant(text(said)), line(**{**RESULT, "result": said}))
    assert judge(ending(exit_code=0, facts=facts_of(stream)), at=AT).status == "success"
    turns = lines(assistant(text(said)), line(**{**RESULT, "subtype": "error_during_execution"}))
    assert only_error(judge(ending(exit_code=1, facts=facts_of(turns)), at=AT)).code == "CLAUDE_EXECUTION_ERROR"


def test_auth_error_has_a_hint():
    error = only_error(verdict_of("noauth_text-2.1.325", 1))
    assert "authentication" in error.message
    assert "API key" in error.message
    assert "Not logged in" in error.message
    assert "ANTHROPIC_API_KEY" in error.hint
    assert "yb agents path claude-code" in error.hint


def test_rate_limit_with_its_reset_time_in_the_text():
    """Text as older versions print it for a subscription."""
    said = "Claude AI usage limit reached|1750000000"
    stream = lines(line(**{**RESULT, "is_error": True, "result": said}))
    error = only_error(judge(ending(exit_code=1, facts=facts_of(stream)), at=AT))
    assert (error.code, error.context["resets_at"]) == ("CLAUDE_RATE_LIMIT", "2025-06-15T15:06:40.000Z")


@pytest.mark.parametrize(("resets_at", "seen"), [(1794775561, "2026-11-15T20:46:01.000Z"), (1e300, None), (None, None)])
def test_rate_limit_with_its_reset_time_in_an_event(resets_at, seen):
    info = {"status": "rejected", "resetsAt": resets_at}
    failed = assistant(text("limit"), model="<synthetic>", error="rate_limit")
    stream = lines(
        line(type="rate_limit_event", rate_limit_info=info),
        failed,
        line(**{**RESULT, "is_error": True, "result": "You've hit your limit"}),
    )
    error = only_error(judge(ending(exit_code=1, facts=facts_of(stream)), at=AT))
    assert (error.code, error.context["resets_at"]) == ("CLAUDE_RATE_LIMIT", seen)


def test_a_failed_call_without_a_result_is_still_the_reason():
    stream = assistant(text("API Error: 529 x"), model="<synthetic>", error="server_error")
    error = only_error(judge(ending(exit_code=1, facts=facts_of(stream)), at=AT))
    assert (error.code, error.context["status"]) == ("CLAUDE_OVERLOADED", 529)


@pytest.mark.parametrize("kind", ["rate_limit", "overloaded", "server_error", "unknown", None])
def test_an_overloaded_provider_is_no_rate_limit_whatever_the_cli_calls_it(kind):
    stream = assistant(text("API Error: 529 Overloaded."), model="<synthetic>", **({"error": kind} if kind else {}))
    error = only_error(judge(ending(exit_code=1, facts=facts_of(stream)), at=AT))
    assert (error.code, error.context["kind"]) == ("CLAUDE_OVERLOADED", "overloaded")


def test_an_error_without_text_still_has_a_message():
    stream = line(**{**RESULT, "is_error": True, "result": None})
    assert (
        only_error(judge(ending(exit_code=1, facts=facts_of(stream)), at=AT)).message == "A call to the model failed."
    )


def test_unknown_subtype_is_a_failure():
    stream = line(**{**RESULT, "subtype": "error_of_the_future", "errors": ["new"]})
    error = only_error(judge(ending(exit_code=0, facts=facts_of(stream)), at=AT))
    assert (error.code, error.message) == (
        "CLAUDE_EXECUTION_ERROR",
        "Claude Code stopped in the middle of its work: new",
    )


def test_a_result_without_a_subtype_is_a_success():
    nameless = facts_of(line(type="result", is_error=False))
    assert judge(ending(exit_code=0, facts=nameless), at=AT).status == "success"
    assert judge(ending(exit_code=1, facts=nameless), at=AT).status == "failed"


def test_cr_2_3_timeout():
    verdict = verdict_of("stall-2.1.325", None, signal="SIGTERM", timed_out=True, timeout_ms=5000, duration_s=5.12)
    assert verdict.status == "timeout"
    error = only_error(verdict)
    assert error.code == "CLAUDE_TIMEOUT"
    assert "timeout of 5 s (5000 ms)" in error.message
    assert "5.1 s" in error.message
    assert error.context == {"timeout_ms": 5000, "duration_ms": 5120, "result_seen": False}
    assert "timeout" in only_error(judge(ending(exit_code=None, timed_out=True), at=AT)).message


def test_timeout_after_the_result():
    error = only_error(verdict_of("bg20-2.1.197", 0, timed_out=True, timeout_ms=1))
    assert error.context["result_seen"] is True
    assert "background" in error.hint


def test_cr_2_9_truncation_is_an_error_but_not_a_failure():
    verdict = verdict_of("simple-2.1.325", truncated=True)
    error = only_error(verdict)
    assert verdict.status == "success"
    assert error.code == "CLAUDE_OUTPUT_TRUNCATED"
    assert "truncated" in error.message
    assert "10MB" in error.message
    failed = verdict_of("max_turns-2.1.325", 1, truncated=True)
    assert [error.code for error in failed.errors] == ["CLAUDE_MAX_TURNS", "CLAUDE_OUTPUT_TRUNCATED"]


def test_stopped_at_the_first_401():
    verdict = verdict_of("err_401-2.1.325", None, signal="SIGTERM", key_rejected=True)
    error = only_error(verdict)
    assert (verdict.status, error.code, error.context["status"]) == ("failed", "CLAUDE_AUTH_FAILED", 401)


def test_warnings_of_a_success():
    verdict = verdict_of("automode_risky-2.1.325")
    (denied,) = verdict.warnings
    assert verdict.status == "success"
    assert denied.code == "CLAUDE_TOOL_DENIED"
    assert "Bash (1x)" in denied.message
    assert "allowed_tools" in denied.hint
    assert denied.context == {"tools": {"Bash": 1}}


def test_warning_of_failed_mcp_servers():
    facts = SessionFacts(failed_mcp_servers=("files", "web"))
    (failed,) = judge(ending(exit_code=0, facts=facts), at=AT).warnings
    assert failed.code == "CLAUDE_MCP_FAILED"
    assert failed.message.startswith("2 MCP servers did not start: files, web.")


ALL = ("Bash", "Read", "mcp__files__read")


@pytest.mark.parametrize(
    ("tools", "allowed", "warned"),
    [
        (None, ["read"], False),
        (ALL, [], False),
        (ALL, ["read", "search"], True),
        (ALL, ["read", "Bash(git *)"], False),
        (ALL, ["mcp__late"], False),
        (ALL, ["mcp__*"], False),
        ((), [], True),
        ((), ["Read"], True),
    ],
)
def test_warning_of_tools_that_do_not_exist(tools: tuple[str, ...] | None, allowed: list[str], warned: bool):
    found = session_warnings(ClaudeCode, SessionFacts(tools=tools), AT, allowed_tools=allowed)
    assert [warning.code for warning in found] == ["CLAUDE_NO_TOOLS"] * warned


def test_warning_of_another_model():
    codes = [warning.code for warning in verdict_of("fb-2.1.325").warnings]
    assert codes == ["CLAUDE_MODEL_FALLBACK", "CLAUDE_REQUESTS_RETRIED"]
    silent = SessionFacts(model="claude-b", init_model="claude-a[1m]")
    (warning,) = judge(ending(exit_code=0, facts=silent), at=AT).warnings
    assert warning.code == "CLAUDE_MODEL_FALLBACK"
    assert warning.context["fallback"] == "claude-b"
    bare = SessionFacts(switches=(ModelSwitched(original=None, fallback=None, trigger=None),))
    assert "its model to another" in judge(ending(exit_code=0, facts=bare), at=AT).warnings[0].message
    same = SessionFacts(model="claude-a", init_model="claude-a[1m]")
    assert judge(ending(exit_code=0, facts=same), at=AT).warnings == ()


def test_warning_of_retries():
    (warning,) = verdict_of("err_529-2.1.325", 1).warnings
    assert warning.code == "CLAUDE_REQUESTS_RETRIED"
    assert "10 times" in warning.message
    assert "529" in warning.message
    assert "no answer" in verdict_of("refused-2.1.325", 1).warnings[0].message


def test_a_timeout_while_calls_fail():
    """The status stays the seeds' own; the second error says whose fault it was."""
    retried = RequestRetried(attempt=7, status=429, reason="rate_limit", delay_ms=None)
    limited = SessionFacts(stream_seen=True, unanswered=retried, usage=SessionUsage(Tokens(input=100)))
    verdict = judge(ending(exit_code=None, timed_out=True, timeout_ms=5000, duration_s=5.1, facts=limited), at=AT)
    assert verdict.status == "timeout"
    assert [error.code for error in verdict.errors] == ["CLAUDE_TIMEOUT", "CLAUDE_RATE_LIMIT"]
    assert verdict.errors[1].context["unanswered"] is True
    assert "failed until the time was up" in verdict.errors[1].message
    assert verdict.errors[1].hint
    answered = limited._replace(unanswered=None, retries=(RetriedCalls(status=429, reason="rate_limit", times=7),))
    assert only_error(judge(ending(exit_code=None, timed_out=True, facts=answered), at=AT)).code == "CLAUDE_TIMEOUT"


def test_warning_of_malformed_lines_only_in_a_stream():
    stream = lines(line(**INIT), b"noise", line(**RESULT))
    (warning,) = judge(ending(exit_code=0, facts=facts_of(stream)), at=AT).warnings
    assert warning.code == "CLAUDE_MALFORMED_LINE"
    assert warning.message.startswith("1 line of the output was")
    assert "noise" in warning.context["example"]
    assert judge(ending(exit_code=0, facts=facts_of(b"noise\nmore")), at=AT).warnings == ()


@pytest.mark.parametrize(
    ("kind", "code"), [(kind, ClaudeCode.code(cause.code)) for cause in CAUSES for kind in sorted(cause.kinds)]
)
def test_the_error_kind_alone_is_enough(kind, code):
    stream = lines(assistant(text("?"), error=kind), line(**{**RESULT, "is_error": True, "result": "?"}))
    error = only_error(judge(ending(exit_code=1, facts=facts_of(stream)), at=AT))
    assert error.code == code


def test_a_refusal_event():
    refused = line(type="system", subtype="model_refusal_no_fallback")
    stream = lines(refused, line(**{**RESULT, "is_error": True, "result": "?"}))
    assert only_error(judge(ending(exit_code=1, facts=facts_of(stream)), at=AT)).code == "CLAUDE_REFUSED"


def test_is_error_with_exit_0_is_not_a_success():
    stream = line(**{**RESULT, "is_error": True, "result": "API Error: 500 x"})
    assert only_error(judge(ending(exit_code=0, facts=facts_of(stream)), at=AT)).code == "CLAUDE_API_ERROR"


def test_every_cause_can_match_and_has_valid_texts():
    for cause in CAUSES:
        assert cause.hint is None or cause.hint.endswith((".", ")."))
        assert cause.code in vars(codes).values()
        assert "{agent}" in cause.message or "{" not in cause.message
        assert cause.subtypes or cause.kinds or cause.statuses or cause.pattern or cause.refusal


OF_OTHERS = {"AGENT_IGNORED", "GAVE_UP", "METRICS_UNREADABLE", "NO_GATEWAY", "NOTICE"}
CODES = [ClaudeCode.code(value) for name, value in vars(codes).items() if name.isupper() and value not in OF_OTHERS]
PAGE = Path(__file__).parents[2] / "docs" / "claude-code.md"


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_documented(code: str) -> None:
    assert f"`{code}`" in PAGE.read_text(encoding="utf-8")


def test_the_page_lists_only_existing_codes() -> None:
    named = set(re.findall(r"`(CLAUDE_[A-Z_]+)`", PAGE.read_text(encoding="utf-8")))
    assert {code for code in named if not code.startswith("CLAUDE_CODE_")} == set(CODES)


NOW = datetime(2026, 11, 15, 20, 30, tzinfo=UTC)


def at(*moment: int) -> float:
    return datetime(*moment, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Claude AI usage limit reached|1794781501", 1794781501.0),
        ("5-hour limit reached · resets 10:25pm (UTC)", at(2026, 11, 15, 22, 25)),
        ("You've hit your session limit · resets 8:29pm (UTC)", at(2026, 11, 15, 20, 29)),
        ("You've hit your session limit · resets 8:28pm (UTC)", at(2026, 11, 16, 20, 28)),
        ("You've hit your weekly limit · resets Nov 18, 3:50pm (America/New_York)", at(2026, 11, 18, 20, 50)),
        ("Weekly limit reached · resets Jan 2, 12am (UTC)", at(2027, 1, 2, 0, 0)),
        ("Weekly limit reached · resets 12pm (UTC)", at(2026, 11, 16, 12, 0)),
        ("You've hit your limit · resets 3am (Asia/Tokyo)", at(2026, 11, 16, 18, 0)),
        ("Claude AI usage limit reached|0", None),
        ("You've hit your limit · resets Feb 30, 3pm (UTC)", None),
        ("You've hit your limit · resets 3pm (Nowhere/Land)", None),
        ("API Error: Request rejected (429) · slow down", None),
        ("", None),
    ],
)
def test_reset_time(text: str, expected: float | None) -> None:
    assert reset_time(text, NOW) == expected


def test_without_a_zone_local_time_is_assumed() -> None:
    local = datetime(2026, 11, 15, 22, 25).astimezone()
    assert reset_time("Session limit reached ∙ resets 10:25pm", local.replace(hour=20)) == local.timestamp()
