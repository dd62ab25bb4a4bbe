"""The conversation as it ends up in the log: messages, and tool calls joined with their results."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from youbencha.adapters.cli_agent.terminal_text import strip_ansi
from youbencha.events import AssistantText, Event, ToolCalled, ToolReturned, UserText
from youbencha.log import Message, ToolCall

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


@dataclass(slots=True)
class _Call:
    event: ToolCalled
    returned: ToolReturned | None = None


class Transcript:
    """Keeps what was said. Only for a bounded output; a live run is watched by `Session` alone."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._calls: list[_Call] = []
        self._open: dict[str, _Call] = {}
        self._readers: dict[type[Event], Callable[[Any], None]] = {
            AssistantText: self._on_assistant,
            UserText: self._on_user,
            ToolCalled: self._on_call,
            ToolReturned: self._on_return,
        }

    def observe(self, event: Event) -> None:
        if reader := self._readers.get(type(event)):
            reader(event)

    def tool_calls(self) -> list[ToolCall]:
        return [_joined(call) for call in self._calls]

    def _on_assistant(self, event: AssistantText) -> None:
        message = Message(
            role="assistant",
            content=strip_ansi(event.text),
            timestamp=moment(event.sent_at),
            parent=event.parent,
        )
        self.messages.append(message)

    def _on_user(self, event: UserText) -> None:
        message = Message(
            role="user", content=strip_ansi(event.text), timestamp=moment(event.sent_at), parent=event.parent
        )
        self.messages.append(message)

    def _on_call(self, event: ToolCalled) -> None:
        if event.call_id is not None and event.call_id in self._open:
            return
        call = _Call(event)
        self._calls.append(call)
        if event.call_id is not None:
            self._open[event.call_id] = call

    def _on_return(self, event: ToolReturned) -> None:
        call = self._open.get(event.call_id or "")
        if call is not None:
            call.returned = event


def moment(text: str | None) -> str | None:
    """The time stamp, if it is one that our files may hold."""
    if text is None or not _RFC3339.fullmatch(text):
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def _joined(call: _Call) -> ToolCall:
    returned = call.returned
    return ToolCall(
        name=call.event.name,
        arguments=orjson.dumps(call.event.arguments).decode(),
        result=None if returned is None else strip_ansi(returned.content),
        is_error=None if returned is None else returned.is_error,
        id=call.event.call_id,
        parent=call.event.parent,
    )
