"""Record the events of a run, one JSON line each, and read them again.

A recording is bounded. Pieces of unfinished text are joined, and left out first, because the whole text follows. Long
texts are cut in the middle, and more of them the larger the file is. At the limit, only the events of the harness, the
result and the last answer are written. Agents could have written to the file, so it is read as any file of theirs.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from youbencha import json_lines
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    CompletionRefused,
    EvaluatorFinished,
    Event,
    EventSink,
    GuidanceGiven,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    LoopWaiting,
    PhaseStarted,
    ProcessEnded,
    SessionResult,
    ToolCalled,
    ToolReturned,
    TopicPublished,
    TrialEnded,
    UserText,
    WarningRaised,
)
from youbencha.files import open_to_append
from youbencha.json_lines import Record
from youbencha.log.masking import UNMASKED_IN_EVENTS, Mask, masked, without_secrets_in_event
from youbencha.log.model import YouBenchaLog
from youbencha.log.session import CallMetered
from youbencha.process.redact import Redactor
from youbencha.text import plural
from youbencha.transcript.line_writer import LineWriter

TRANSCRIPT_FILE = "transcript.jsonl"
"""The events of one run of an agent, in its artifacts."""

MAX_BYTES = 64 << 20
"""For a run, or an iteration of a loop. A quarter of it is for pieces of text; a sixteenth is kept for `_ESSENTIAL`."""
_MAX_LOOP_BYTES = 8 * MAX_BYTES
_MAX_TEXT = 64 << 10
_MAX_SHORT_TEXT = 4 << 10
"""Characters of a text, once half of the room is used."""
_MAX_LINE = 256 << 10
"""Longer lines are read no further than this when they are written, and no further than `_MAX_READ` when read."""
_MAX_READ = 4 << 20
_MAX_ITEMS = 200
_MAX_WAITING = 16 << 20
_MAX_EARLY = 1_000

_JOINED_FOR_S = 0.1
"""Pieces of text that arrive within this time are one line."""
_MAX_JOINED = 200

_LOOP_EVENTS = (
    LoopStarted,
    IterationStarted,
    CompletionRefused,
    IterationEnded,
    TopicPublished,
    LoopWaiting,
    GuidanceGiven,
    LoopEnded,
)
_ESSENTIAL = frozenset(
    {*_LOOP_EVENTS, TrialEnded, PhaseStarted, EvaluatorFinished, WarningRaised, SessionResult, ProcessEnded}
)
"""Events that are written even if the recording is full."""
_ENDINGS = frozenset({SessionResult, ProcessEnded, IterationEnded})


class Recorder:
    """Writes events to a file, in a thread. It never raises: if it cannot continue, `on_problem` gets one warning."""

    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        *,
        max_bytes: int = MAX_BYTES,
        on_problem: EventSink = lambda event: None,
    ) -> None:
        """The file of a loop that continues is appended to."""
        self._path = path
        self._redactor = redactor
        self._on_problem = on_problem
        self._max_bytes = max_bytes
        self._room = max_bytes
        self._room_for_pieces = max_bytes // 4
        self._full = False
        self._left_out = 0
        self._last_answer: AssistantText | None = None
        """The newest that there was no room for."""
        self._pieces: list[AssistantTextDelta] = []
        self._descriptor = -1
        self._writer: LineWriter | None = None
        self._start()

    def _start(self) -> None:
        try:
            self._open()
        except OSError as error:
            self._stop(error)

    def _open(self) -> None:
        self._descriptor = open_to_append(self._path)
        self._writer = LineWriter(
            self._descriptor, max_waiting=_MAX_WAITING, dropped_line=dropped_line, join=self._masked
        )
        if self._size():
            self._writer.put(b"\n")  # the last line is incomplete if the harness was killed

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def __call__(self, event: Event) -> None:
        if self._writer is None:
            return
        if self._writer.error is not None:
            self._stop(self._writer.error)
        elif type(event) is AssistantTextDelta:
            self._add_piece(event)
        elif type(event) in TYPE_NAMES:
            self._write_pieces()
            if type(event) is IterationStarted:
                self._begin_iteration()
            elif type(event) in _ENDINGS:
                self._write_last_answer()
            self._write(event)

    def _begin_iteration(self) -> None:
        """Make room for another iteration, in a new file if an agent has removed or replaced this one."""
        try:
            is_in_place = os.path.samestat(os.fstat(self._descriptor), os.lstat(self._path))
        except OSError:
            is_in_place = False
        if not is_in_place:
            self.close()
            self._start()
        size = self._size() if self._descriptor >= 0 else 0
        self._room = max(0, min(self._max_bytes, _MAX_LOOP_BYTES - size))
        self._room_for_pieces = self._room // 4
        self._full = False

    def close(self) -> None:
        """Write what waits, and close the file."""
        if self._writer is None:
            return
        self._write_pieces()
        self._write_last_answer()
        self._writer.close()
        if self._writer.error is not None:
            self._stop(self._writer.error)
            return
        self._writer = None
        os.close(self._descriptor)
        self._descriptor = -1

    def _add_piece(self, event: AssistantTextDelta) -> None:
        if self._pieces and not _joins(self._pieces, event):
            self._write_pieces()
        self._pieces.append(event)

    def _write_pieces(self) -> None:
        if not self._pieces:
            return
        pieces, self._pieces = self._pieces, []
        if self._room_for_pieces > 0:
            joined = replace(pieces[0], text="".join(piece.text for piece in pieces))
            self._room_for_pieces -= self._write(joined)

    def _write(self, event: Event) -> int:
        """Write an event if there is room for it, and return its size."""
        is_essential = type(event) in _ESSENTIAL
        if self._full and not is_essential:
            self._leave_out(event)
            return 0
        line = self._line(event)
        if len(line) > self._room - (0 if is_essential else self._max_bytes // 16):
            self._leave_out(event)
            if self._full:
                return 0
            self._full = True
            message = "The recording is full: from here on, it contains only the most important events."
            line = event_to_json(WarningRaised(at=event.at, code="RECORDING_FULL", message=message))
        self._room -= len(line)
        if self._writer is not None:
            self._writer.put(line, now=type(event) is IterationEnded)
        return len(line)

    def _line(self, event: Event) -> bytes:
        max_text = _MAX_TEXT if self._room * 2 > self._max_bytes else _MAX_SHORT_TEXT
        line = event_to_json(event)
        if len(line) <= (_MAX_LINE if max_text == _MAX_TEXT else max_text):
            return line
        # A cut could leave a part of a secret, which would not be found.
        return event_to_json(_cut(without_secrets_in_event(event, self._redactor.text), max_text))

    def _leave_out(self, event: Event) -> None:
        self._left_out += type(event) is not AssistantTextDelta
        if isinstance(event, AssistantText) and event.parent is None:
            self._last_answer = event

    def _write_last_answer(self) -> None:
        answer, self._last_answer = self._last_answer, None
        left_out, self._left_out = self._left_out - (answer is not None), 0
        lines = (
            [event_to_json(_cut(without_secrets_in_event(answer, self._redactor.text), _MAX_SHORT_TEXT))]
            if answer
            else []
        )
        if left_out > 0:
            message = f"{plural(left_out, 'event')} left out, because the recording is full."
            lines.append(event_to_json(WarningRaised(code="EVENTS_LEFT_OUT", message=message)))
        for line in lines:
            if self._writer is not None and len(line) <= self._room:
                self._room -= len(line)
                self._writer.put(line, now=False)

    def _masked(self, lines: list[bytes]) -> bytes:
        """Called in the thread: one search for each secret in many lines takes a tenth of the time per line."""
        text = b"".join(lines)
        return b"".join(map(self._masked_line, lines)) if self._redactor.finds_secret(text) else text

    def _masked_line(self, line: bytes) -> bytes:
        if not self._redactor.finds_secret(line):
            return line
        try:
            return json_lines.dumps(_without_secrets(json_lines.loads(line), self._redactor.text)).encode() + b"\n"
        except RecursionError:
            return dropped_line(1)

    def _stop(self, error: OSError) -> None:
        self._writer = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        message = f"The recording {self._path} is not complete: {error.strerror or error}"
        self._on_problem(WarningRaised(code="RECORDING_STOPPED", message=message))


class RecordedEvents:
    """An event sink that passes events on, and records them. Until `record` names the file, it keeps the newest."""

    def __init__(self, sink: EventSink = lambda event: None) -> None:
        self._has_answer = False
        """Whether the agent reported what it said or did."""
        self._sink = sink
        self._early: deque[Event] = deque(maxlen=_MAX_EARLY)
        self._recorder: Recorder | None = None

    def __call__(self, event: Event) -> None:
        self.add(event)
        self._sink(event)

    def add(self, event: Event) -> None:
        """Only record an event."""
        self._has_answer = self._has_answer or isinstance(event, AssistantText | ToolCalled)
        if self._recorder is None:
            self._early.append(event)
        else:
            self._recorder(event)

    def record(self, path: Path, redactor: Redactor) -> None:
        self._recorder = Recorder(path, redactor, on_problem=self._sink)
        for event in self._early:
            self._recorder(event)
        self._early.clear()

    def complete(self, log: YouBenchaLog) -> None:
        """Record the conversation from the log, if the agent's text was only shown, or its adapter has no events."""
        if not self._has_answer:
            for event in events_of_log(log):
                self.add(event)

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()


def events_of_log(log: YouBenchaLog) -> Iterator[Event]:
    """The conversation of an agent that reported no events while it ran. The prompt is not repeated."""
    for message in log.messages[1:] if log.messages and log.messages[0].role == "user" else log.messages:
        say = AssistantText if message.role == "assistant" else UserText
        yield say(text=message.content, parent=message.parent, sent_at=message.timestamp)
    for number, call in enumerate(log.tool_calls):
        call_id = call.id or f"call-{number + 1}"
        arguments = json_lines.decode(call.arguments) or {"arguments": call.arguments}
        yield ToolCalled(call_id=call_id, name=call.name, arguments=arguments, parent=call.parent)
        if call.result is not None:
            yield ToolReturned(call_id=call_id, content=call.result, is_error=bool(call.is_error), parent=call.parent)


def _without_secrets(record: Record, mask: Mask) -> Record:
    kept = UNMASKED_IN_EVENTS.get(_TYPES[record["type"]], frozenset()) | {"type"}
    return {name: value if name in kept else masked(value, mask) for name, value in record.items()}


def _joins(pieces: list[AssistantTextDelta], event: AssistantTextDelta) -> bool:
    first = pieces[0]
    return first.parent == event.parent and event.at - first.at < _JOINED_FOR_S and len(pieces) < _MAX_JOINED


def dropped_line(number: int) -> bytes:
    """The line in place of events that a slow disk or reader left no room for."""
    message = f"{plural(number, 'event')} left out: they could not be written in time."
    return event_to_json(WarningRaised(code="EVENTS_DROPPED", message=message))


def _cut(event: Event, max_text: int) -> Event:
    """Return the event with its long texts cut in the middle, and the number of characters that were cut."""
    cut = 0

    def shorten(value: Any) -> Any:
        nonlocal cut
        match value:
            case str() if len(value) > max_text:
                cut += len(value) - max_text
                end = max_text // 4
                note = f"[{plural(len(value) - max_text, 'character')} cut]"
                return f"{value[: max_text - end]}\n{note}\n{value[-end:]}"
            case tuple():
                return tuple(shorten(text)[: max_text // _MAX_ITEMS] for text in value[:_MAX_ITEMS])
            case Mapping():
                shorter = {key: shorten(item) if isinstance(item, str) else item for key, item in value.items()}
                text = json_lines.dumps(shorter)
                return shorter if len(text) <= 2 * max_text else {"cut": shorten(text)}
        return value

    values = {name: shorten(value) for name, value in vars(event).items()}
    return replace(event, **{**values, "cut": event.cut + cut})


def event_to_json(event: Event) -> bytes:
    """Return the event as a line: its type, and its fields."""
    record = {"type": TYPE_NAMES[type(event)], **vars(event)}
    if not event.cut:
        del record["cut"]
    if isinstance(event, CallMetered):
        record["tokens"] = event.tokens._asdict()
    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:  # a lone surrogate, an integer of more than 64 bits, or nested deeply
        if "Recursion" in str(error):  # a reader would not take it either
            record = {name: {} if isinstance(value, Mapping) else value for name, value in record.items()}
        return json_lines.dumps(record).encode() + b"\n"


def event_from_json(record: Record) -> Event | None:
    """Return the event; None if this version does not know it. Fields that it does not know are ignored."""
    type_name = record.get("type")
    if not isinstance(type_name, str) or type_name not in _TYPES:
        return None
    try:
        event: Event = _type_adapter(type_name).validate_python(record)
    except (ValidationError, RecursionError):
        return None
    return event if all(map(_is_in_range, vars(event).values())) else None


@cache
def _type_adapter(type_name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_TYPES[type_name])


_LAST_MOMENT = 253402300799.0
"""The end of the year 9999. No amount or duration is larger, and none is negative."""


def _is_in_range(value: object) -> bool:
    if isinstance(value, float):
        return 0 <= value <= _LAST_MOMENT
    return not isinstance(value, int) or abs(value) < 1 << 63


TYPE_NAMES: dict[type[Event], str] = {
    event_type: re.sub(r"(?<!^)(?=[A-Z])", "_", event_type.__name__).lower()
    for event_type in Event.__subclasses__()
    if event_type.__module__ == Event.__module__ or event_type is CallMetered  # others are for the log only
}
"""The `type` of each event that is recorded."""

_TYPES = {name: event_type for event_type, name in TYPE_NAMES.items()}


class RecordingReader:
    """Iterates over the events of an open recording, of which an agent could have written any line."""

    def __init__(self, file: BufferedReader, others: Callable[[Record], Iterable[Event]] = lambda record: ()) -> None:
        """`others` reads the records that are not events of a recording."""
        self.skipped = 0
        """Lines that were not read: of another version, damaged or too long."""
        self.offset = file.tell()
        """Where the line of the present event begins; afterwards, the end of the last complete line."""
        self._file = file
        self._others = others

    def __iter__(self) -> Iterator[Event]:
        return self._events(complete_lines=False)

    def complete(self) -> Iterator[Event]:
        """The events on complete lines: the last one may still be being written."""
        return self._events(complete_lines=True)

    def _events(self, *, complete_lines: bool) -> Iterator[Event]:
        for line in self._lines():
            if complete_lines and not line.endswith(b"\n"):
                return
            if stripped := line.strip():
                record = json_lines.decode_event(stripped)
                events = [] if isinstance(record, str) else self._read(record)
                self.skipped += not events
                yield from events
            self.offset += len(line)

    def _read(self, record: Record) -> list[Event]:
        event = event_from_json(record)
        return [event] if event is not None else list(self._others(record))

    def _lines(self) -> Iterator[bytes]:
        while line := self._file.readline(_MAX_READ):
            if line.endswith(b"\n") or len(line) < _MAX_READ:
                yield line
                continue
            self.skipped += 1
            self.offset += len(line)
            while (rest := self._file.readline(_MAX_READ)) and not rest.endswith(b"\n"):
                self.offset += len(rest)
            self.offset += len(rest)
