"""Watches a session live: turns lines into events, and knows when going on makes no sense."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from youbencha.adapters.claude_code.session import Session
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    EventSink,
    OutputTruncated,
    ProcessEnded,
    ProcessStarted,
    RequestRetried,
)
from youbencha.process import OUTPUT_LIMIT_BYTES, ProcessResult, RedactedStream, Redactor, Started

_UNAUTHORIZED = 401


class Watch:
    """Fed with each line of the CLI's output. `stop` is set when the key was rejected for good."""

    def __init__(
        self,
        on_event: EventSink | None,
        *,
        redactor: Redactor | None = None,
        session_id: str | None = None,
        key_may_recover: bool = False,
    ) -> None:
        """`key_may_recover`: the CLI can renew its login by itself, so that one rejection is not the end."""
        self._on_event = on_event
        self._redactor = redactor or Redactor()
        self._drafts: dict[str | None, RedactedStream] = {}
        self._given_id = session_id
        self._rejections_allowed = 1 if key_may_recover else 0
        self.session = Session()
        self.stop = asyncio.Event()

    @property
    def session_id(self) -> str | None:
        return self._given_id or self.session.session_id

    def started(self, process: Started) -> None:
        self._tell(ProcessStarted(pid=process.pid, executable=process.executable))

    def ended(self, done: ProcessResult) -> None:
        if done.truncated:
            self._tell(OutputTruncated(limit_bytes=OUTPUT_LIMIT_BYTES))
        self._tell(ProcessEnded(exit_code=done.exit.code, signal=done.exit.signal, timed_out=done.timed_out))

    def line(self, line: bytes) -> None:
        for event in self.session.feed(line):
            if self._on_event is not None:
                for safe in self._redacted(event):
                    self._on_event(safe)
            if isinstance(event, RequestRetried) and event.status == _UNAUTHORIZED:
                self.on_rejected_key()

    def on_rejected_key(self) -> None:
        """The API rejected the key. The CLI would try it ten times more, for three minutes."""
        if self._rejections_allowed:
            self._rejections_allowed -= 1
            return
        self.stop.set()

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
        yield event

    def _tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)
