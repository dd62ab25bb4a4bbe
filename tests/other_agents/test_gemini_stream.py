"""How Gemini CLI's events are read. Each was printed by Gemini CLI 0.61."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from printing_clis import printing_cli, run_printing

from systems import ON_WINDOWS
from youbencha.adapters.cli_agent import CallFailed, CallMetered
from youbencha.adapters.gemini_cli import GeminiCliAdapter, GeminiCliReader
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    UsageReported,
    WarningRaised,
)

AT = "2026-11-15T23:27:51.123Z"
INIT = {"type": "init", "timestamp": AT, "session_id": "s1", "model": "gemini-2.5-pro"}
ASKED = {"type": "message", "timestamp": AT, "role": "user", "content": "Do it."}
TOOL = {"type": "tool_use", "timestamp": AT, "tool_name": "write_file", "tool_id": "t1", "parameters": {"a": 1}}
STATS = {
    "total_tokens": 4100,
    "input_tokens": 4000,
    "output_tokens": 80,
    "cached": 2800,
    "input": 1200,
    "duration_ms": 346,
    "tool_calls": 2,
    "models": {"gemini-flash": {"total_tokens": 100}, "gemini-pro": {"total_tokens": 4000}},
}
DONE = {"type": "result", "timestamp": AT, "status": "success", "stats": STATS}
NOTHING = {"total_tokens": 0, "input_tokens": 0, "output_tokens": 0, "cached": 0, "input": 0, "models": {}}


def piece(text: str) -> dict[str, Any]:
    return {"type": "message", "timestamp": AT, "role": "assistant", "content": text, "delta": True}


def failed(message: str) -> dict[str, Any]:
    return {"type": "result", "status": "error", "error": {"type": "unknown", "message": message}, "stats": NOTHING}


BAD_KEY = failed('[API Error: {"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}]')


def read(*records: dict[str, Any], end: bool = True) -> list[Event]:
    reader = GeminiCliReader()
    handlers = reader.handlers()
    events = [event for record in records for event in handlers[record["type"]](record)]
    return [*events, *reader.finish()] if end else events


def test_the_beginning() -> None:
    (started,) = read(INIT, ASKED)
    assert isinstance(started, SessionStarted)
    assert (started.session_id, started.model) == ("s1", "gemini-2.5-pro")


@pytest.mark.parametrize("after", [TOOL, DONE, {"type": "error", "severity": "warning", "message": "x"}])
def test_a_text_ends_at_the_next_event(after: dict[str, Any]) -> None:
    first, second, whole, *_ = read(piece("I wi"), piece("ll."), after)
    assert isinstance(first, AssistantTextDelta)
    assert isinstance(second, AssistantTextDelta)
    assert isinstance(whole, AssistantText)
    assert (first.text, second.text, whole.text, whole.sent_at) == ("I wi", "ll.", "I will.", AT)


def test_unfinished_text_is_kept() -> None:
    assert [type(event) for event in read(piece("I wi"))] == [AssistantTextDelta, AssistantText]
    assert [type(event) for event in read(piece("I wi"), end=False)] == [AssistantTextDelta]


def test_texts_are_separate() -> None:
    events = read(piece("One."), TOOL, piece("Two."), DONE)
    assert [event.text for event in events if isinstance(event, AssistantText)] == ["One.", "Two."]


def test_a_text_in_one_piece() -> None:
    (whole,) = read({"type": "message", "role": "assistant", "content": "Done."})
    assert isinstance(whole, AssistantText)
    assert whole.text == "Done."


def test_a_tool() -> None:
    called, returned = read(TOOL, {"type": "tool_result", "tool_id": "t1", "status": "success", "output": "out"})
    assert isinstance(called, ToolCalled)
    assert (called.call_id, called.name, called.arguments) == ("t1", "write_file", {"a": 1})
    assert isinstance(returned, ToolReturned)
    assert (returned.call_id, returned.content, returned.is_error) == ("t1", "out", False)


def test_a_tool_without_output_and_a_failed_tool() -> None:
    error = {"type": "invalid_tool_params", "message": "Path not in workspace"}
    _, silent = read(TOOL, {"type": "tool_result", "tool_id": "t1", "status": "success"})
    _, wrong = read(TOOL, {"type": "tool_result", "tool_id": "t1", "status": "error", "error": error})
    assert isinstance(silent, ToolReturned)
    assert isinstance(wrong, ToolReturned)
    assert (silent.content, wrong.content, wrong.is_error) == ("", "Path not in workspace", True)


def test_a_tool_that_was_denied() -> None:
    error = {"type": "policy_violation", "message": "Tool execution denied by policy."}
    _, denied, _ = read(TOOL, {"type": "tool_result", "tool_id": "t1", "status": "error", "error": error})
    assert isinstance(denied, ToolDenied)
    assert denied.name == "write_file"


def test_the_end() -> None:
    usage, model, result = read(DONE)
    assert isinstance(usage, UsageReported)
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_creation_tokens) == (1200, 2800, None)
    assert usage.output_tokens == 100  # 80 said, 20 thought
    assert isinstance(model, CallMetered)
    assert model.model == "gemini-pro"
    assert isinstance(result, SessionResult)
    assert (result.is_error, result.duration_ms) == (False, 346)


def test_missing_numbers_are_unknown() -> None:
    (usage, *_) = read({"type": "result", "status": "success", "stats": {"output_tokens": 5}})
    assert isinstance(usage, UsageReported)
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (None, 5, None)
    assert not any(isinstance(event, UsageReported) for event in read({"type": "result", "status": "success"}))


def test_errors_and_notices() -> None:
    error, notice = read(
        {"type": "error", "severity": "error", "message": "Model stream ended without a finish reason."},
        {"type": "error", "severity": "warning", "message": "Loop detected."},
    )
    assert isinstance(error, CallFailed)
    assert isinstance(notice, WarningRaised)


@pytest.mark.parametrize("broken", [None, 5, "x", [], {"models": {"m": 5}}])
@pytest.mark.parametrize("kind", sorted(GeminiCliReader().handlers()))
def test_malformed_fields_do_not_raise(kind: str, broken: Any) -> None:
    keys = ("role", "content", "delta", "tool_id", "tool_name", "parameters", "output", "error", "stats", "message")
    read({"type": kind, **dict.fromkeys(keys, broken)}, {"type": "message", "role": "assistant", "content": broken})


@pytest.mark.skipif(ON_WINDOWS, reason="a shell script")
@pytest.mark.parametrize(
    ("records", "exit_code", "stderr", "code"),
    [
        ([INIT, BAD_KEY], 144, "", "GEMINI_AUTH_FAILED"),
        ([INIT, failed('[API Error: {"error":{"code":429,"message":"Later."}}]')], 173, "", "GEMINI_RATE_LIMIT"),
        ([INIT, failed("[API Error: Requested entity was not found.]")], 1, "", "GEMINI_API_ERROR"),
        ([INIT, failed("Reached max session turns for this session.")], 53, "", "GEMINI_MAX_TURNS"),
        ([INIT, failed("something else")], 1, "", "GEMINI_EXECUTION_ERROR"),
        ([INIT, {**DONE, "status": "error"}], 0, "", "GEMINI_EXECUTION_ERROR"),
        ([], 41, "Invalid auth method selected.\n", "GEMINI_AUTH_FAILED"),
        ([], 41, "Please set an Auth method in your settings\n", "GEMINI_AUTH_FAILED"),
        ([INIT], 0, "", "GEMINI_NO_RESULT"),
        ([INIT], 1, "TypeError: x\n", "GEMINI_EXIT_CODE"),
    ],
)
async def test_failures(tmp_path: Path, records: list[dict[str, Any]], exit_code: int, stderr: str, code: str) -> None:
    cli = printing_cli(tmp_path, "0.61.0", records, exit_code=exit_code, stderr=stderr)
    result, _ = await run_printing(GeminiCliAdapter(env={"PATH": "/usr/bin:/bin"}), tmp_path, cli)
    assert (result.status, [error.code for error in result.errors]) == ("failed", [code])
    assert (tmp_path / "in").read_text() == "Do it."


@pytest.mark.skipif(ON_WINDOWS, reason="a shell script")
async def test_a_notice_is_a_warning_in_the_log(tmp_path: Path) -> None:
    loop = {"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}
    cli = printing_cli(tmp_path, "0.61.0", [INIT, piece("I stop."), loop, loop, DONE])
    _, log = await run_printing(GeminiCliAdapter(env={"PATH": "/usr/bin:/bin"}), tmp_path, cli)
    assert [(warning.code, warning.message) for warning in log.warnings] == [("GEMINI_NOTICE", loop["message"])]


@pytest.mark.skipif(ON_WINDOWS, reason="a shell script")
async def test_a_secret_across_two_pieces_is_masked(tmp_path: Path) -> None:
    cli = printing_cli(tmp_path, "0.61.0", [INIT, piece("It is sk-secret-"), piece("0123456789."), DONE])
    env = {"PATH": "/usr/bin:/bin", "GEMINI_API_KEY": "sk-secret-0123456789"}
    events: list[Event] = []
    result, log = await run_printing(GeminiCliAdapter(env=env), tmp_path, cli, on_event=events.append)
    assert result.status == "success", result.errors
    assert "It is" in log.messages[-1].content
    assert "sk-secret-0123456789" not in log.model_dump_json()
    (text,) = (event.text for event in events if isinstance(event, AssistantText))
    assert text == log.messages[-1].content
