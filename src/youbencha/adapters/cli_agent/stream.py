"""Read an agent's output, live or afterwards: line -> record -> events -> facts and transcript."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.kind import AgentKind
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    EventSink,
    OutputTruncated,
    ProcessEnded,
    ProcessStarted,
    RequestRetried,
    SessionResult,
    ToolCalled,
    ToolReturned,
    UserText,
    WarningRaised,
)
from youbencha.json_lines import Record, clean_text, decode_event, dumps, quoted, strip_ansi
from youbencha.log.masking import without_secrets_in_event
from youbencha.log.model import Message, Role, ToolCall
from youbencha.log.session import CallMetered, SessionFacts, SessionRecord, SessionRecorder, StreamReader
from youbencha.process import OUTPUT_LIMIT_BYTES, ProcessResult, Redactor, Started

if TYPE_CHECKING:
    import asyncio

MALFORMED_WARNINGS = 20
"""The number of lines that are reported; the rest is only counted: a broken stream can have millions."""

TRANSCRIPT_LIMIT = 10 * 1024 * 1024
"""In characters."""

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


class OutputReader:
    """Reads lines until `finish()`. Without a `reader`, only reports the process's start and end."""

    def __init__(
        self,
        kind: AgentKind,
        reader: StreamReader | None,
        *,
        on_event: EventSink | None = None,
        redactor: Redactor | None = None,
        stopping: asyncio.Event | None = None,
    ) -> None:
        """`stopping`: set when the harness ends the agent."""
        self.recorder = SessionRecorder()
        self.finished_before_stop = False
        """There was a result before the agent was asked to end."""
        self.stream_seen = False
        """True after the agent's first event."""
        self._kind = kind
        self._reader = reader
        self._handlers = reader.handlers() if reader else {}
        self._sink = on_event
        self._redactor = redactor or Redactor()
        self._stopping = stopping
        self._transcript = Transcript()
        self._drafts: dict[str | None, _Draft] = {}
        self._malformed = 0
        self._malformed_example: str | None = None
        self._plain = _PlainText(self._redactor)

    def started(self, process: Started) -> None:
        self._emit(ProcessStarted(pid=process.pid, executable=process.executable))

    def line(self, line: bytes | str) -> None:
        record = decode_event(line)
        if isinstance(record, str):
            self.on_other_line(record)
        else:
            self.read(record)

    def plain_line(self, line: bytes) -> None:
        """Show a line of an agent that prints no events."""
        if self._sink is not None and (text := self._plain.add(line + b"\n")):
            self._sink(AssistantTextDelta(text=text))

    def read(self, record: Record) -> None:
        handler = self._handlers.get(record.get("type", ""))
        if handler is None:
            return
        self.stream_seen = True
        for event in handler(record):
            self._handle(event)

    def finish(self) -> None:
        """Handle the end of the output."""
        if self._reader is not None:
            for event in self._reader.finish():
                self._handle(event)
        if self._sink is not None and (rest := self._plain.rest()):
            self._sink(AssistantTextDelta(text=rest))
        for parent, draft in self._drafts.items():
            # Texts that were unfinished when the stream ended: there is no message with the whole text.
            self._transcript.add(AssistantText(text=draft.text(), parent=parent))
        self._drafts.clear()

    def ended(self, done: ProcessResult) -> None:
        if done.truncated:
            self._emit(OutputTruncated(limit_bytes=OUTPUT_LIMIT_BYTES))
        self._emit(ProcessEnded(exit_code=done.exit.code, signal=done.exit.signal, timed_out=done.timed_out))

    def facts(self) -> SessionFacts:
        return self.recorder.facts()._replace(
            stream_seen=self.stream_seen,
            malformed_lines=self._malformed,
            malformed_example=self._malformed_example,
        )

    def session(self) -> SessionRecord:
        messages, tool_calls = self._transcript.messages, self._transcript.tool_calls()
        return SessionRecord(facts=self.facts(), messages=tuple(messages), tool_calls=tuple(tool_calls))

    def on_event(self, event: Event) -> None:
        """For subclasses that react to events."""

    def on_other_line(self, text: str) -> None:
        """Count and report a line that is not an event."""
        self._malformed += 1
        if self._malformed > MALFORMED_WARNINGS:
            return
        message = f"Skipped a line that is not an event of {self._kind.title}: {quoted(self._redactor.text(text))}"
        self._malformed_example = self._malformed_example or message
        self._emit(WarningRaised(code=self._kind.code(codes.MALFORMED_LINE), message=message))

    def _handle(self, event: Event) -> None:
        if self.recorder.is_repeated(event):
            return
        self.recorder.record(event)
        self._transcript.add(event)
        for shown in self._with_drafts(event):
            self._emit(shown)
        if isinstance(event, SessionResult) and not (self._stopping and self._stopping.is_set()):
            self.finished_before_stop = True
        # Not for the recorder, which would use it as the agent's own total.
        if self._sink and isinstance(event, CallMetered) and (usage := self.recorder.live_usage()):
            self._emit(usage)
        self.on_event(event)

    def _with_drafts(self, event: Event) -> Iterable[Event]:
        """Keep the pieces of unfinished texts, and hold back what may be the start of a secret."""
        if isinstance(event, AssistantTextDelta):
            draft = self._drafts.get(event.parent)
            if draft is None:
                draft = self._drafts[event.parent] = _Draft(self._redactor, live=self._sink is not None)
            return draft.add(event)
        if not self._drafts:
            return (event,)
        if isinstance(event, AssistantText) and (draft := self._drafts.pop(event.parent, None)):
            return (*draft.rest(event.parent), event)
        if isinstance(event, ToolCalled):
            self._drafts.pop(event.parent, None)
        elif isinstance(event, SessionResult | RequestRetried):  # unfinished texts have ended, or start again
            self._drafts.clear()
        return (event,)

    def _emit(self, event: Event) -> None:
        if self._sink is not None:
            self._sink(without_secrets_in_event(event, self._redactor.text))


class _PlainText:
    """Plain text as it is printed, masked, until it is too long to be shown."""

    def __init__(self, redactor: Redactor) -> None:
        self._stream = redactor.stream()
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._room = TRANSCRIPT_LIMIT

    def add(self, data: bytes) -> str:
        if self._room <= 0:
            return ""
        self._room -= len(data)
        return clean_text(self._decoder.decode(self._stream.feed(data)))

    def rest(self) -> str:
        return clean_text(self._decoder.decode(self._stream.finish(), final=True))


class _Draft:
    """An unfinished text, which arrives in pieces."""

    def __init__(self, redactor: Redactor, *, live: bool) -> None:
        """`live`: its pieces are shown when they arrive."""
        self._stream = redactor.stream() if live else None
        self._pieces: list[str] = []

    def add(self, event: AssistantTextDelta) -> Iterable[Event]:
        self._pieces.append(event.text)
        if self._stream is None:
            return ()
        masked = self._stream.feed(event.text.encode("utf-8", "surrogatepass"))
        return (replace(event, text=masked.decode("utf-8", "surrogatepass")),) if masked else ()

    def rest(self, parent: str | None) -> Iterable[Event]:
        """The text that was held back because it could have been the start of a secret."""
        masked = self._stream.finish() if self._stream else b""
        return (AssistantTextDelta(text=masked.decode("utf-8", "surrogatepass"), parent=parent),) if masked else ()

    def text(self) -> str:
        return "".join(self._pieces)


class Transcript:
    """The conversation for the log: messages, and tool calls joined with their results.

    What exceeds the limit is left out, so that a stream can have any length.
    """

    def __init__(self, limit: int = TRANSCRIPT_LIMIT) -> None:
        self.messages: list[Message] = []
        self._room = limit
        self._calls: list[tuple[ToolCalled, str]] = []
        self._called: set[str] = set()
        self._returned: dict[str, ToolReturned] = {}
        self._readers: dict[type[Event], Callable[[Any], None]] = {
            AssistantText: self._on_assistant,
            UserText: self._on_user,
            ToolCalled: self._on_call,
            ToolReturned: self._on_return,
        }

    def add(self, event: Event) -> None:
        if reader := self._readers.get(type(event)):
            reader(event)

    def tool_calls(self) -> list[ToolCall]:
        return [self._joined(event, arguments) for event, arguments in self._calls]

    def _fits(self, text: str) -> bool:
        self._room -= len(text)
        return self._room >= 0

    def _on_assistant(self, event: AssistantText) -> None:
        self._add_message("assistant", event)

    def _on_user(self, event: UserText) -> None:
        self._add_message("user", event)

    def _add_message(self, role: Role, event: AssistantText | UserText) -> None:
        if self._fits(event.text):
            content, timestamp = strip_ansi(event.text), moment(event.sent_at)
            self.messages.append(Message(role=role, content=content, timestamp=timestamp, parent=event.parent))

    def _on_call(self, event: ToolCalled) -> None:
        if event.call_id is not None and event.call_id in self._called:
            return
        arguments = dumps(event.arguments)
        if self._fits(arguments):
            self._calls.append((event, arguments))
            self._called |= {event.call_id} if event.call_id is not None else set()

    def _on_return(self, event: ToolReturned) -> None:
        if event.call_id is not None and event.call_id in self._called and self._fits(event.content):
            self._returned[event.call_id] = event

    def _joined(self, event: ToolCalled, arguments: str) -> ToolCall:
        returned = self._returned.get(event.call_id or "")
        return ToolCall(
            name=event.name,
            arguments=arguments,
            result=None if returned is None else strip_ansi(returned.content),
            is_error=None if returned is None else returned.is_error,
            id=event.call_id,
            parent=event.parent,
        )


def moment(text: str | None) -> str | None:
    """The timestamp, if it is valid."""
    if text is None or not _RFC3339.fullmatch(text):
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text
