"""Read an agent's output while it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    EventSink,
    OutputTruncated,
    ProcessEnded,
    ProcessStarted,
    SessionResult,
    ToolCalled,
    ToolReturned,
    UserText,
)
from youbencha.json_lines import strip_ansi
from youbencha.log import Message, ToolCall
from youbencha.process import OUTPUT_LIMIT_BYTES, ProcessResult, RedactedStream, Redactor, Started

if TYPE_CHECKING:
    import asyncio


class Fed(Protocol):
    """What is fed with each line of a stream, and says what it held."""

    def feed(self, line: bytes | str) -> Iterable[Event]: ...


class LiveWatch:
    """Between the process and whoever listens."""

    def __init__(
        self,
        session: Fed | None,
        on_event: EventSink | None,
        redactor: Redactor | None = None,
        stopping: asyncio.Event | None = None,
    ) -> None:
        """Without a session there are no lines to read, only a process that starts and ends."""
        self.finished_before_stop = False
        """A closing word came, and not only because the agent was told to end."""
        self._fed = session
        self._on_event = on_event
        self._redactor = redactor or Redactor()
        self._stopping = stopping
        self._drafts: dict[str | None, RedactedStream] = {}

    def started(self, process: Started) -> None:
        self._tell(ProcessStarted(pid=process.pid, executable=process.executable))

    def ended(self, done: ProcessResult) -> None:
        if done.truncated:
            self._tell(OutputTruncated(limit_bytes=OUTPUT_LIMIT_BYTES))
        self._tell(ProcessEnded(exit_code=done.exit.code, signal=done.exit.signal, timed_out=done.timed_out))

    def line(self, line: bytes) -> None:
        assert self._fed is not None
        self.tell_all(self._fed.feed(line))

    def tell_all(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._on_event is not None:
                for safe in self._redacted(event):
                    self._on_event(safe)
            if isinstance(event, SessionResult) and not (self._stopping and self._stopping.is_set()):
                self.finished_before_stop = True
            self.on_event(event)

    def on_event(self, event: Event) -> None:
        """For adapters that act on what they see."""

    def _redacted(self, event: Event) -> Iterator[Event]:
        """Every line came redacted; but a secret may lie across two pieces of a text that is being written."""
        if isinstance(event, AssistantTextDelta):
            draft = self._drafts.setdefault(event.parent, self._redactor.stream())
            if text := draft.feed(event.text.encode("utf-8", "surrogatepass")):
                yield replace(event, text=text.decode("utf-8", "surrogatepass"))
            return
        if isinstance(event, AssistantText):
            finished = self._drafts.pop(event.parent, None)
            if finished and (text := finished.finish()):
                yield AssistantTextDelta(text=text.decode("utf-8", "surrogatepass"), parent=event.parent)
            if finished:  # a reader may have put it together from the pieces
                event = replace(event, text=self._redactor.text(event.text))
        yield event

    def _tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)


# The conversation as it ends up in the log: messages, and tool calls joined with their results.

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
