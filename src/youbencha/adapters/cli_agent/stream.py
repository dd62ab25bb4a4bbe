"""Read an agent's output, live or afterwards: line -> record -> events -> facts and transcript."""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from youbencha.adapters import codes
from youbencha.adapters.base import AgentDescription
from youbencha.adapters.cli_agent.transcript import TRANSCRIPT_LIMIT, Conversation, left_out_here
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
    WarningRaised,
)
from youbencha.json_lines import Record, decode_event, excerpt
from youbencha.log.masking import without_secrets_in_event
from youbencha.log.session import CallMetered, LeftOut, SessionFacts, SessionRecord, SessionRecorder, StreamReader
from youbencha.process import OUTPUT_LIMIT_BYTES, ProcessResult, Redactor, Started
from youbencha.text import clean_text

MALFORMED_WARNINGS = 20
"""The number of lines that are reported; the rest is only counted: a broken stream can have millions."""

_MAX_DRAFT = 2 * TRANSCRIPT_LIMIT
"""The maximum length in characters; the transcript shortens longer texts, with a note."""


class OutputReader:
    """Reads lines until `finish()`. Without a `reader`, only reports the process's start and end."""

    def __init__(
        self,
        agent: type[AgentDescription],
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
        self._agent = agent
        self._reader = reader
        self._handlers = reader.handlers() if reader else {}
        self._sink = on_event
        self._redactor = redactor or Redactor()
        self._stopping = stopping
        self._transcript = Conversation()
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
        read = self._transcript
        reports_calls = self.stream_seen and self._reader is not None and self._reader.has_conversation
        calls = read.tool_calls() if reports_calls else None
        return SessionRecord(self.facts(), read.messages(), calls, read.left_out())

    def on_event(self, event: Event) -> None:
        """For subclasses that react to events."""

    def on_other_line(self, text: str) -> None:
        """Count and report a line that is not an event."""
        self._malformed += 1
        if self._malformed > MALFORMED_WARNINGS:
            return
        message = f"Skipped a line that is not an event of {self._agent.title}: {excerpt(self._redactor.text(text))}"
        self._malformed_example = self._malformed_example or message
        self._emit(WarningRaised(code=self._agent.code(codes.MALFORMED_LINE), message=message))

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
    """The last part of an unfinished text, which arrives in pieces."""

    def __init__(self, redactor: Redactor, *, live: bool) -> None:
        """`live`: its pieces are shown when they arrive."""
        self._stream = redactor.stream() if live else None
        self._pieces: deque[str] = deque()
        self._size = 0
        self._left_out = 0

    def add(self, event: AssistantTextDelta) -> Iterable[Event]:
        self._pieces.append(event.text)
        self._size += len(event.text)
        while self._size > _MAX_DRAFT:
            length = len(self._pieces.popleft())
            self._size -= length
            self._left_out += length
        if self._stream is None:
            return ()
        masked = self._stream.feed(event.text.encode("utf-8", "surrogatepass"))
        return (replace(event, text=masked.decode("utf-8", "surrogatepass")),) if masked else ()

    def rest(self, parent: str | None) -> Iterable[Event]:
        """Return the text that was held back because it could have been the start of a secret."""
        masked = self._stream.finish() if self._stream else b""
        return (AssistantTextDelta(text=masked.decode("utf-8", "surrogatepass"), parent=parent),) if masked else ()

    def text(self) -> str:
        gap = f"{left_out_here(LeftOut(characters=self._left_out))}\n" if self._left_out else ""
        return gap + "".join(self._pieces)
