"""The JSON events of `opencode run` (1.18.33) -> ours. A tool call is told when it is over, with its result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from youbencha.adapters.cli_agent import (
    CallFailed,
    CallMetered,
    Handler,
    StreamReader,
    TurnTaken,
    fields,
)
from youbencha.adapters.cli_agent.fields import Record
from youbencha.events import (
    AssistantText,
    AssistantThinking,
    Event,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
)
from youbencha.log.tokens import Tokens

_GOES_ON = "tool-calls"
_BROKEN_OFF = frozenset({"length", "content-filter", "error"})
_DENIED = re.compile(r"rejected permission|prevents you from using", re.IGNORECASE)


class OpenCodeReader(StreamReader):
    def __init__(self) -> None:
        self._started = False

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "step_start": self._step,
            "text": self._text,
            "reasoning": self._thought,
            "tool_use": self._tool,
            "step_finish": self._finished,
            "error": self._error,
        }

    def _step(self, record: Record) -> Iterator[Event]:
        yield from self._start(record)
        yield TurnTaken()

    def _start(self, record: Record) -> Iterator[Event]:
        if not self._started:
            self._started = True
            session_id = fields.text(record.get("sessionID"))
            yield SessionStarted(session_id=session_id, model=None, agent_version=None)

    def _text(self, record: Record) -> Iterator[Event]:
        if text := fields.text(_part(record).get("text")):
            yield AssistantText(text=text)

    def _thought(self, record: Record) -> Iterator[Event]:
        if text := fields.text(_part(record).get("text")):
            yield AssistantThinking(text=text)

    def _tool(self, record: Record) -> Iterator[Event]:
        part = _part(record)
        state = fields.mapping(part.get("state"))
        call_id, name = fields.text(part.get("callID")), fields.text(part.get("tool")) or "(unnamed)"
        yield ToolCalled(call_id=call_id, name=name, arguments=fields.mapping(state.get("input")))
        error = fields.text(state.get("error"))
        if error is not None and _DENIED.search(error):
            yield ToolDenied(call_id=call_id, name=name)
        content = fields.text(state.get("output")) if error is None else error
        failed = state.get("status") != "completed"
        yield ToolReturned(call_id=call_id, content=content or "", is_error=failed)

    def _finished(self, record: Record) -> Iterator[Event]:
        part = _part(record)
        yield CallMetered(tokens=_tokens(fields.mapping(part.get("tokens"))), cost_usd=fields.amount(part.get("cost")))
        reason = fields.text(part.get("reason"))
        if reason != _GOES_ON:
            broken = reason in _BROKEN_OFF
            yield SessionResult(subtype=reason, is_error=broken, text=None, turns=None, duration_ms=None)

    def _error(self, record: Record) -> Iterator[Event]:
        yield from self._start(record)
        error = fields.mapping(record.get("error"))
        data = fields.mapping(error.get("data"))
        name = fields.text(error.get("name"))
        text = fields.text(data.get("message")) or name or ""
        yield CallFailed(kind=name, status=fields.count(data.get("statusCode")), text=text)
        yield SessionResult(subtype="error", is_error=True, text=text, turns=None, duration_ms=None)


def _part(record: Record) -> Record:
    return fields.mapping(record.get("part"))


def _tokens(tokens: Record) -> Tokens:
    """Reasoning is output that the model does not show; the API charges it as such."""
    cache = fields.mapping(tokens.get("cache"))
    output, reasoning = fields.count(tokens.get("output")), fields.count(tokens.get("reasoning"))
    return Tokens(
        fields.count(tokens.get("input")),
        None if output is None else output + (reasoning or 0),
        fields.count(cache.get("read")),
        fields.count(cache.get("write")),
    )
