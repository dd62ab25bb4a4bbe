"""Watches a session live: lines become events, with secrets masked even where they lie across two pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    EventSink,
    OutputTruncated,
    ProcessEnded,
    ProcessStarted,
    SessionResult,
)
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
        self.answered_first = False
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
                self.answered_first = True
            self.on_event(event)

    def on_event(self, event: Event) -> None:
        """For adapters that act on what they see."""

    def _redacted(self, event: Event) -> Iterator[Event]:
        """Every line came redacted; but a secret may lie across two pieces of a text that is being written."""
        if isinstance(event, AssistantTextDelta):
            draft = self._drafts.setdefault(event.parent, self._redactor.stream())
            if text := draft.feed(event.text.encode("utf-8", "surrogatepass")):
                yield event.but(text=text.decode("utf-8", "surrogatepass"))
            return
        if isinstance(event, AssistantText):
            finished = self._drafts.pop(event.parent, None)
            if finished and (text := finished.finish()):
                yield AssistantTextDelta(text=text.decode("utf-8", "surrogatepass"), parent=event.parent)
            if finished:  # a reader may have put it together from the pieces
                event = event.but(text=self._redactor.text(event.text))
        yield event

    def _tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)
