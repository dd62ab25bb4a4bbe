"""The JSON events of the Copilot CLI (1.0.102) -> ours. Tokens are in none of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from youbencha.adapters.cli_agent import (
    CallFailed,
    CallMetered,
    Handler,
    SessionNamed,
    StreamReader,
    TurnTaken,
    fields,
)
from youbencha.adapters.cli_agent.fields import Record
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
from youbencha.log.tokens import Tokens


class CopilotReader(StreamReader):
    """Remembers what calls are called: a result names only their id, and a retry not its reason."""

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
        model = fields.text(_data(record).get("model"))
        yield SessionStarted(session_id=None, model=model, agent_version=None)

    def _turn(self, record: Record) -> Iterator[Event]:
        if _parent(record) is None:
            yield TurnTaken()

    def _message(self, record: Record) -> Iterator[Event]:
        data, parent = _data(record), _parent(record)
        if parent is None:
            yield CallMetered(tokens=Tokens(), model=fields.text(data.get("model")))
        if thought := fields.text(data.get("reasoningText")):
            yield AssistantThinking(text=thought, parent=parent)
        if text := fields.text(data.get("content")):
            yield AssistantText(text=text, parent=parent, sent_at=fields.text(record.get("timestamp")))

    def _delta(self, record: Record) -> Iterator[Event]:
        if text := fields.text(_data(record).get("deltaContent")):
            yield AssistantTextDelta(text=text, parent=_parent(record))

    def _tool_started(self, record: Record) -> Iterator[Event]:
        data = _data(record)
        call_id = fields.text(data.get("toolCallId"))
        name = fields.text(data.get("toolName")) or "(unnamed)"
        if call_id is not None:
            self._tools[call_id] = name
        arguments = fields.mapping(data.get("arguments"))
        yield ToolCalled(call_id=call_id, name=name, arguments=arguments, parent=_parent(record))

    def _tool_ended(self, record: Record) -> Iterator[Event]:
        data = _data(record)
        call_id = fields.text(data.get("toolCallId"))
        error = fields.mapping(data.get("error"))
        if error.get("code") == "denied":
            yield ToolDenied(call_id=call_id, name=self._tools.get(call_id or "", "(unnamed)"))
        content = fields.text(fields.mapping(data.get("result")).get("content"))
        yield ToolReturned(
            call_id=call_id,
            content=content if content is not None else fields.text(error.get("message")) or "",
            is_error=data.get("success") is not True,
            parent=_parent(record),
        )

    def _call_failed(self, record: Record) -> Iterator[Event]:
        self._last_status = fields.count(_data(record).get("statusCode"))
        return iter(())

    def _retried(self, record: Record) -> Iterator[Event]:
        reason = fields.text(_data(record).get("reason"))
        yield RequestRetried(attempt=None, status=self._last_status, reason=reason, delay_ms=None)

    def _error(self, record: Record) -> Iterator[Event]:
        data = _data(record)
        yield CallFailed(
            kind=fields.text(data.get("errorType")),
            status=fields.count(data.get("statusCode")),
            text=fields.text(data.get("message")) or "",
        )

    def _result(self, record: Record) -> Iterator[Event]:
        yield SessionNamed(session_id=fields.text(record.get("sessionId")))
        yield SessionResult(
            subtype=None,
            is_error=record.get("exitCode") != 0,
            text=None,
            turns=None,
            duration_ms=fields.count(fields.mapping(record.get("usage")).get("sessionDurationMs")),
        )


def _data(record: Record) -> Record:
    return fields.mapping(record.get("data"))


def _parent(record: Record) -> str | None:
    """The tool call that started the subagent whose event this is."""
    return fields.text(_data(record).get("parentToolCallId"))
