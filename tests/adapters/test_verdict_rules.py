"""Where agents differ in the meaning of their exit: each agent's own rules for the verdict."""

from __future__ import annotations

from typing import Any

import pytest

from endings import run_ending
from youbencha.adapters.aider import AiderAdapter
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.adapters.cli_agent import CliAdapter, SessionFacts
from youbencha.adapters.cli_agent.verdict import judge, session_warnings
from youbencha.adapters.codex import CodexAdapter
from youbencha.adapters.command import CommandAdapter
from youbencha.adapters.gemini_cli import GeminiCliAdapter
from youbencha.events import AssistantText, Event, RequestRetried, SessionResult, ToolCalled
from youbencha.log.session import CallMetered, SessionRecorder
from youbencha.usage import Tokens

AT = "2026-01-01T00:00:00.000Z"
NO_LOGIN = "Error: not logged in"

Agent = type[CliAdapter[Any]]


def codes_of(agent: Agent, exit_code: int | None, **how: Any) -> list[str | None]:
    ending = run_ending(exit_code, stream_expected=how.pop("stream_expected", agent.emits_json), **how)
    return [error.code for error in judge(agent, ending, at=AT).errors]


@pytest.mark.parametrize(
    ("agent", "exit_code", "code"),
    [
        (CodexAdapter, 0, "CODEX_AUTH_FAILED"),
        (AiderAdapter, 0, "AIDER_AUTH_FAILED"),  # which exits with 0 whatever happened
        (GeminiCliAdapter, 1, "GEMINI_AUTH_FAILED"),
        (ClaudeCodeAdapter, 0, "CLAUDE_NO_RESULT"),
        (ClaudeCodeAdapter, 1, "CLAUDE_AUTH_FAILED"),
        (CommandAdapter, 1, "COMMAND_EXIT_CODE"),  # its prose is its answer
    ],
)
def test_plain_text_instead_of_events(agent: Agent, exit_code: int, code: str) -> None:
    assert codes_of(agent, exit_code, output=NO_LOGIN) == [code]


def test_plain_text_on_request() -> None:
    assert codes_of(ClaudeCodeAdapter, 0, output=NO_LOGIN, stream_expected=False) == []
    assert codes_of(ClaudeCodeAdapter, 1, output=NO_LOGIN, stream_expected=False) == ["CLAUDE_AUTH_FAILED"]
    assert codes_of(CommandAdapter, 0, output=NO_LOGIN) == []


@pytest.mark.parametrize(("agent", "codes"), [(CodexAdapter, []), (ClaudeCodeAdapter, ["CLAUDE_EXECUTION_ERROR"])])
def test_result_subtypes(agent: Agent, codes: list[str]) -> None:
    result = SessionResult(subtype="completed", is_error=False, text="done", turns=None, duration_ms=None)
    assert codes_of(agent, 0, facts=SessionFacts(stream_seen=True, results=1, result=result)) == codes


RETRIED = RequestRetried(attempt=1, status=429, reason="rate_limit", delay_ms=None)


@pytest.mark.parametrize(
    ("events", "codes"),
    [
        ((RETRIED,), ["CODEX_TIMEOUT", "CODEX_RATE_LIMIT"]),
        ((AssistantText(text="Well."), RETRIED), ["CODEX_TIMEOUT", "CODEX_RATE_LIMIT"]),
        ((RETRIED, AssistantText(text="Well.")), ["CODEX_TIMEOUT"]),
        ((RETRIED, ToolCalled(name="sh", arguments={}, call_id=None)), ["CODEX_TIMEOUT"]),
        ((RETRIED, CallMetered(tokens=Tokens(input=1))), ["CODEX_TIMEOUT"]),
    ],
)
def test_a_timeout_is_the_providers_if_the_last_call_failed(events: tuple[Event, ...], codes: list[str]) -> None:
    recorder = SessionRecorder()
    for event in events:
        recorder.record(event)
    assert codes_of(CodexAdapter, None, timed_out=True, facts=recorder.facts()) == codes


@pytest.mark.parametrize(("agent", "warned"), [(CodexAdapter, False), (ClaudeCodeAdapter, True)])
def test_another_model_than_at_the_start(agent: Agent, warned: bool) -> None:
    facts = SessionFacts(stream_seen=True, init_model="one", model="another")
    found = list(session_warnings(agent, facts, AT))
    assert bool(found) is warned


def test_the_reset_time_is_read_for_every_agent() -> None:
    said = "Claude AI usage limit reached|1750000000"
    result = SessionResult(subtype="failed", is_error=True, text=said, turns=None, duration_ms=None)
    ending = run_ending(1, facts=SessionFacts(stream_seen=True, results=1, result=result))
    (error,) = judge(CodexAdapter, ending, at=AT).errors
    assert (error.code, error.context and error.context["resets_at"]) == (
        "CODEX_RATE_LIMIT",
        "2025-06-15T15:06:40.000Z",
    )
