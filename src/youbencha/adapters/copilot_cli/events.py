"""Read the JSON events of the Copilot CLI (1.0.102), and its session file, which has the tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from youbencha import json_lines
from youbencha.adapters.cli_agent import CallFailed, CallMetered, Handler, StreamReader, TurnTaken
from youbencha.adapters.cli_agent.agent_files import matching_records
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    AssistantThinking,
    Event,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
)
from youbencha.json_lines import Record
from youbencha.usage import SessionUsage, Tokens, add_all


class CopilotReader(StreamReader):
    """Remembers the names of tool calls and the last status: a result has only an id, and a retry no status."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._last_status: int | None = None

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "session.tools_updated": self._started,
            "assistant.turn_start": self._turn,
            "assistant.message": self._message,
            "assistant.message_delta": self._delta,
            "tool.execution_start": self._tool_started,
            "tool.execution_complete": self._tool_ended,
            "model.call_failure": self._call_failed,
            "assistant.turn_retry": self._retried,
            "session.error": self._error,
            "result": self._result,
        }

    def _started(self, record: Record) -> Iterator[Event]:
        model = json_lines.as_str(_data(record).get("model"))
        yield SessionStarted(session_id=None, model=model, agent_version=None)

    def _turn(self, record: Record) -> Iterator[Event]:
        if _parent(record) is None:
            yield TurnTaken()

    def _message(self, record: Record) -> Iterator[Event]:
        data, parent = _data(record), _parent(record)
        if parent is None:
            yield CallMetered(tokens=Tokens(), model=json_lines.as_str(data.get("model")))
        if thought := json_lines.as_str(data.get("reasoningText")):
            yield AssistantThinking(text=thought, parent=parent)
        if text := json_lines.as_str(data.get("content")):
            yield AssistantText(text=text, parent=parent, sent_at=json_lines.as_str(record.get("timestamp")))

    def _delta(self, record: Record) -> Iterator[Event]:
        if text := json_lines.as_str(_data(record).get("deltaContent")):
            yield AssistantTextDelta(text=text, parent=_parent(record))

    def _tool_started(self, record: Record) -> Iterator[Event]:
        data = _data(record)
        call_id = json_lines.as_str(data.get("toolCallId"))
        name = json_lines.as_str(data.get("toolName")) or "(unnamed)"
        if call_id is not None:
            self._tools[call_id] = name
        arguments = json_lines.as_mapping(data.get("arguments"))
        yield ToolCalled(call_id=call_id, name=name, arguments=arguments, parent=_parent(record))

    def _tool_ended(self, record: Record) -> Iterator[Event]:
        data = _data(record)
        call_id = json_lines.as_str(data.get("toolCallId"))
        error = json_lines.as_mapping(data.get("error"))
        if error.get("code") == "denied":
            yield ToolDenied(call_id=call_id, name=self._tools.get(call_id or "", "(unnamed)"))
        content = json_lines.as_str(json_lines.as_mapping(data.get("result")).get("content"))
        yield ToolReturned(
            call_id=call_id,
            content=content if content is not None else json_lines.as_str(error.get("message")) or "",
            is_error=data.get("success") is not True,
            parent=_parent(record),
        )

    def _call_failed(self, record: Record) -> Iterator[Event]:
        self._last_status = json_lines.as_count(_data(record).get("statusCode"))
        return iter(())

    def _retried(self, record: Record) -> Iterator[Event]:
        reason = json_lines.as_str(_data(record).get("reason"))
        yield RequestRetried(attempt=None, status=self._last_status, reason=reason, delay_ms=None)

    def _error(self, record: Record) -> Iterator[Event]:
        data = _data(record)
        yield CallFailed(
            kind=json_lines.as_str(data.get("errorType")),
            status=json_lines.as_count(data.get("statusCode")),
            text=json_lines.as_str(data.get("message")) or "",
        )

    def _result(self, record: Record) -> Iterator[Event]:
        yield SessionResult(
            subtype=None,
            is_error=record.get("exitCode") != 0,
            text=None,
            turns=None,
            duration_ms=json_lines.as_count(json_lines.as_mapping(record.get("usage")).get("sessionDurationMs")),
            session_id=json_lines.as_str(record.get("sessionId")),
        )


def _data(record: Record) -> Record:
    return json_lines.as_mapping(record.get("data"))


def _parent(record: Record) -> str | None:
    """The tool call that started the subagent whose event this is."""
    return json_lines.as_str(_data(record).get("parentToolCallId"))


# Tokens of a session, from `session-state/ID/events.jsonl` in the CLI's home.
#
# `inputTokens` there includes the cached ones (1,000 new, 700 read and 50 written make 1,750); `Tokens.input` does not.
# The last line, `session.shutdown`, has the totals; a session that was stopped has only a record for each call.

_WANTED = (b'"session.usage_record"', b'"session.shutdown"')


def usage_in(home: Path | None, session_id: str | None) -> SessionUsage | None:
    """Read the usage of a session; None if the CLI did not record it."""
    if home is None or session_id is None or Path(session_id).name != session_id:
        return None
    calls: list[Tokens] = []
    path = home / "session-state" / session_id / "events.jsonl"
    for record in matching_records(path, home, _WANTED):
        data = json_lines.as_mapping(record.get("data"))
        if record.get("type") == "session.usage_record":
            calls.append(_tokens(json_lines.as_mapping(data.get("usage"))))
        elif totals := _totals(data):
            return SessionUsage(add_all(totals))
    return SessionUsage(add_all(calls), partial=True) if calls else None


def _totals(shutdown: Record) -> list[Tokens]:
    metrics = json_lines.as_mapping(json_lines.as_mapping(shutdown.get("accountingSnapshot")).get("modelMetrics"))
    return [_tokens(json_lines.as_mapping(json_lines.as_mapping(model).get("usage"))) for model in metrics.values()]


def _tokens(usage: Record) -> Tokens:
    given = json_lines.as_count(usage.get("inputTokens"))
    read, written = (
        json_lines.as_count(usage.get("cacheReadTokens")),
        json_lines.as_count(usage.get("cacheWriteTokens")),
    )
    new = None if given is None else max(0, given - (read or 0) - (written or 0))
    return Tokens(new, json_lines.as_count(usage.get("outputTokens")), read, written)
