"""How Codex's events are read. Each was printed by Codex 0.166."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from printing_clis import printing_cli, run_printing

from systems import ON_WINDOWS
from youbencha.adapters.cli_agent import CallFailed, SessionFacts, SessionRecord
from youbencha.adapters.codex import CodexAdapter, CodexReader, with_session_file
from youbencha.events import (
    AssistantText,
    AssistantThinking,
    Event,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    UsageReported,
    WarningRaised,
)

THREAD = "01a1e189-caa7-7f43-836f-5a1d997fb047"
STARTED = {"type": "thread.started", "thread_id": THREAD}
USAGE = {
    "input_tokens": 4014,
    "cached_input_tokens": 2800,
    "cache_write_input_tokens": 14,
    "output_tokens": 100,
    "reasoning_output_tokens": 20,
}
COMPLETED = {"type": "turn.completed", "usage": USAGE}
REFUSED = (
    "unexpected status 401 Unauthorized: Incorrect API key provided., url: http://127.0.0.1:1/v1/responses, "
    "request id: req_1"
)


def item(kind: str, *, event: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{event}", "item": {"id": "item_1", "type": kind, **fields}}


def read(*records: dict[str, Any]) -> list[Event]:
    reader = CodexReader()
    handlers = reader.handlers()
    return [event for record in records for event in handlers[record["type"]](record)]


def kinds(events: list[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


def test_text_and_reasoning() -> None:
    started, thought, said = read(STARTED, item("reasoning", text="Hm."), item("agent_message", text="Done."))
    assert isinstance(started, SessionStarted)
    assert started.session_id == THREAD
    assert isinstance(thought, AssistantThinking)
    assert thought.text == "Hm."
    assert isinstance(said, AssistantText)
    assert said.text == "Done."


def test_a_command() -> None:
    line = "/bin/bash -lc 'ls'"
    called, returned = read(
        item("command_execution", event="started", command=line, aggregated_output="", exit_code=None),
        item("command_execution", command=line, aggregated_output="a\n", exit_code=2, status="failed"),
    )
    assert isinstance(called, ToolCalled)
    assert (called.call_id, called.name, called.arguments) == ("item_1", "command_execution", {"command": line})
    assert isinstance(returned, ToolReturned)
    assert (returned.call_id, returned.content, returned.is_error) == ("item_1", "a\n", True)


def test_a_tool_reported_only_at_its_end() -> None:
    changes = [{"path": "/w/new.txt", "kind": "add"}]
    called, returned = read(item("file_change", changes=changes, status="completed"))
    assert isinstance(called, ToolCalled)
    assert called.arguments == {"changes": changes}
    assert isinstance(returned, ToolReturned)
    assert not returned.is_error


def test_a_tool_of_an_mcp_server() -> None:
    fields: dict[str, Any] = {"server": "files", "tool": "read", "arguments": {"path": "a"}, "status": "completed"}
    called, returned = read(
        item("mcp_tool_call", **fields, result={"content": [{"type": "text", "text": "one"}, {"text": "two"}, 5]})
    )
    assert isinstance(called, ToolCalled)
    assert (called.name, called.arguments) == ("files.read", {"path": "a"})
    assert isinstance(returned, ToolReturned)
    assert returned.content == "one\ntwo"


def test_a_tool_that_was_denied() -> None:
    events = read(item("command_execution", command="rm", aggregated_output="", exit_code=-1, status="declined"))
    assert kinds(events) == [ToolCalled, ToolDenied, ToolReturned]


def test_an_error_item_is_only_a_warning() -> None:
    (notice,) = read(item("error", message="Model metadata for `x` not found."))
    assert isinstance(notice, WarningRaised)
    assert notice.message.startswith("Model metadata")


def test_the_end() -> None:
    _, usage, result = read(item("agent_message", text="Done."), COMPLETED)
    assert isinstance(usage, UsageReported)
    assert (usage.input_tokens, usage.output_tokens) == (1200, 100)
    assert (usage.cache_read_tokens, usage.cache_creation_tokens) == (2800, 14)
    assert isinstance(result, SessionResult)
    assert (result.is_error, result.text) == (False, "Done.")


def test_retried_calls() -> None:
    (retried,) = read({"type": "error", "message": f"Reconnecting... 2/5 ({REFUSED})"})
    assert isinstance(retried, RequestRetried)
    assert (retried.attempt, retried.status, retried.reason) == (2, 401, REFUSED)
    (plain,) = read({"type": "error", "message": "Reconnecting... 1/5"})
    assert isinstance(plain, RequestRetried)
    assert (plain.attempt, plain.status, plain.reason) == (1, None, None)


@pytest.mark.parametrize(
    ("said", "status", "text"),
    [
        (REFUSED, 401, REFUSED),
        ("exceeded retry limit, last status: 429 Too Many Requests, request id: r", 429, None),
        ('{"error": {"message": "the script says \\"no\\"", "type": "x"}}', None, 'the script says "no"'),
        ("wrote 500 files", None, "wrote 500 files"),
    ],
)
def test_a_turn_that_fails(said: str, status: int | None, text: str | None) -> None:
    failed, result = read({"type": "turn.failed", "error": {"message": said}})
    assert isinstance(failed, CallFailed)
    assert (failed.status, failed.text) == (status, text or said)
    assert isinstance(result, SessionResult)
    assert result.is_error


@pytest.mark.parametrize(
    "broken", [None, 5, "x", [], {"type": []}, {"id": 5, "type": "command_execution"}, {"type": "agent_message"}]
)
@pytest.mark.parametrize("kind", sorted(CodexReader().handlers()))
def test_malformed_fields_do_not_raise(kind: str, broken: Any) -> None:
    read({"type": kind, "item": broken, "usage": broken, "error": broken, "message": broken, "thread_id": broken})


# -- Codex's own record of a session ---------------------------------------------------------------------------


def session_file(home: Path, *records: dict[str, Any]) -> None:
    directory = home / "sessions" / "2026" / "11" / "15"
    directory.mkdir(parents=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (directory / f"rollout-2026-11-15T23-27-46-{THREAD}.jsonl").write_text(lines + '{"type":"event_msg","payload":{"ty')


def counted(usage: dict[str, int]) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": usage}}}


def test_a_stopped_run_has_usage_from_the_session_file(tmp_path: Path) -> None:
    first = {"input_tokens": 2007, "cached_input_tokens": 1400, "output_tokens": 50}
    context = {"type": "turn_context", "payload": {"model": "gpt-6", "note": '"token_count"'}}
    nothing = {"type": "event_msg", "payload": {"type": "token_count", "info": None}}
    session_file(tmp_path, context, nothing, counted(first), counted(first), counted(USAGE))
    facts = with_session_file(SessionRecord(facts=SessionFacts(session_id=THREAD)), tmp_path).facts
    assert (facts.model, facts.turns) == ("gpt-6", 2)
    assert facts.usage is not None
    assert (facts.usage.tokens.input, facts.usage.tokens.output, facts.usage.partial) == (1200, 100, True)


@pytest.mark.parametrize("session", [None, "01a1e189-0000-7f43-836f-5a1d997fb047", "*", "../../x"])
def test_without_a_session_file_nothing_changes(tmp_path: Path, session: str | None) -> None:
    session_file(tmp_path, counted(USAGE))
    before = SessionRecord(facts=SessionFacts(session_id=session))
    assert with_session_file(before, tmp_path) == before
    assert with_session_file(before, None) == before


@pytest.mark.skipif(ON_WINDOWS, reason="pipes")
def test_a_pipe_instead_of_the_session_file_does_not_block(tmp_path: Path) -> None:
    session_file(tmp_path, counted(USAGE))
    (path,) = tmp_path.glob("sessions/*/*/*/*")
    path.unlink()
    os.mkfifo(path)
    before = SessionRecord(facts=SessionFacts(session_id=THREAD))
    assert with_session_file(before, tmp_path) == before


# -- whole runs of a program that prints them ------------------------------------------------------------------


@pytest.mark.skipif(ON_WINDOWS, reason="a shell script")
@pytest.mark.parametrize(
    ("records", "exit_code", "code"),
    [
        ([STARTED, {"type": "turn.failed", "error": {"message": REFUSED}}], 1, "CODEX_AUTH_FAILED"),
        ([STARTED, {"type": "turn.failed", "error": {"message": "last status: 429 Too Many"}}], 1, "CODEX_RATE_LIMIT"),
        ([STARTED, {"type": "turn.failed", "error": {"message": "stream disconnected"}}], 1, "CODEX_API_ERROR"),
        ([STARTED], 0, "CODEX_NO_RESULT"),
        ([STARTED], 3, "CODEX_EXIT_CODE"),
        ([STARTED], 137, "CODEX_CRASHED"),
        ([STARTED, COMPLETED], 1, "CODEX_EXIT_CODE"),
    ],
)
async def test_failures(tmp_path: Path, records: list[dict[str, Any]], exit_code: int, code: str) -> None:
    cli = printing_cli(tmp_path, "codex-cli 0.166.0", records, exit_code=exit_code)
    result, _ = await run_printing(CodexAdapter(env={"PATH": "/usr/bin:/bin"}), tmp_path, cli)
    assert (result.status, [error.code for error in result.errors]) == ("failed", [code])
    assert result.agent_version == "0.166.0"
    assert (tmp_path / "in").read_text() == "Do it."


@pytest.mark.skipif(ON_WINDOWS, reason="a shell script")
async def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    cli = printing_cli(tmp_path, "codex-cli 0.166.0", ["\ufeff" + json.dumps(STARTED), COMPLETED])
    result, log = await run_printing(CodexAdapter(env={"PATH": "/usr/bin:/bin"}), tmp_path, cli)
    assert (result.status, result.warnings) == ("success", ())
    assert log.session_id == THREAD


@pytest.mark.skipif(ON_WINDOWS, reason="a shell script")
async def test_options_without_effect_are_reported(tmp_path: Path) -> None:
    records = [STARTED, item("agent_message", text="Done."), COMPLETED]
    cli = printing_cli(tmp_path, "codex-cli 0.166.0", records)
    adapter = CodexAdapter(env={"PATH": "/usr/bin:/bin"})
    result, log = await run_printing(adapter, tmp_path, cli, agent_name="tester", tools=["read"])
    assert result.status == "success", result.errors
    assert [warning.code for warning in result.warnings] == ["CODEX_AGENT_IGNORED", "CODEX_OPTION_IGNORED"]
    assert [message.content for message in log.messages] == ["Do it.", "Done."]
