"""Record the events of a loop, one JSON line each, and read them again.

A recording is bounded: pieces of unfinished text are joined, and left out first (the whole text follows), long texts
are cut, and at the limit only the events of the loop itself are written. Agents could have written to the file, so it
is read as any file of theirs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from youbencha import json_lines
from youbencha.events import (
    AssistantTextDelta,
    CompletionRefused,
    Event,
    EventSink,
    GuidanceGiven,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    LoopWaiting,
    TopicPublished,
    WarningRaised,
)
from youbencha.files import NO_FOLLOW
from youbencha.json_lines import Record
from youbencha.log.masking import UNMASKED_IN_EVENTS, Mask, masked
from youbencha.loop.line_writer import LineWriter
from youbencha.process.redact import Redactor
from youbencha.text import plural

MOST_BYTES = 64 << 20
"""Of a recording. A quarter of it is for pieces of text; a sixteenth is kept for the events of the loop itself."""

_LONGEST_LINE = 256 << 10
_LONGEST_TEXT = 64 << 10
"""Of a text in a line that is too long."""
_LONGEST_READ = 4 << 20
_MOST_ITEMS = 200
_MOST_WAITING = 16 << 20

_JOINED_FOR_S = 0.1
"""Pieces of text that arrive within this time are one line."""
_MOST_JOINED = 200

_OF_THE_LOOP = frozenset(
    {
        LoopStarted,
        IterationStarted,
        CompletionRefused,
        IterationEnded,
        TopicPublished,
        LoopWaiting,
        GuidanceGiven,
        LoopEnded,
    }
)


class Recorder:
    """Writes events to a file, in a thread. It never raises: if it cannot go on, `on_problem` gets one warning."""

    def __init__(
        self,
        file: Path,
        redactor: Redactor,
        *,
        most_bytes: int = MOST_BYTES,
        on_problem: EventSink = lambda event: None,
    ) -> None:
        """The file of a loop that continues is appended to."""
        self._file = file
        self._redactor = redactor
        self._on_problem = on_problem
        self._room = most_bytes
        self._room_for_pieces = most_bytes // 4
        self._kept_for_loop = most_bytes // 16
        self._full = False
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
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_FOLLOW | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(self._file, flags, 0o644)
        present = os.fstat(self._descriptor).st_size
        self._room -= present
        self._writer = LineWriter(
            self._descriptor, most_waiting=_MOST_WAITING, dropped_line=dropped_line, joined=self._masked
        )
        if present:
            self._writer.put(b"\n")  # the last line is incomplete if the harness was killed

    def __call__(self, event: Event) -> None:
        if self._writer is None:
            return
        if self._writer.error is not None:
            self._stop(self._writer.error)
        elif type(event) is AssistantTextDelta:
            self._add_piece(event)
        elif type(event) in TYPE_NAMES:
            self._write_pieces()
            if type(event) is IterationStarted and not self._is_in_place():
                self.close()
                self._start()
            self._write(event)

    def _is_in_place(self) -> bool:
        """Whether the file still has its name: an agent can remove it, or put another there."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self._file))
        except OSError:
            return False

    def close(self) -> None:
        """Write what waits, and close the file."""
        if self._writer is None:
            return
        self._write_pieces()
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
        if self._writer is None:
            return 0
        of_the_loop = type(event) in _OF_THE_LOOP
        if self._full and not of_the_loop:
            return 0
        line = event_to_json(event)
        if len(line) > _LONGEST_LINE:
            line = event_to_json(_cut(event))
        if len(line) > self._room - (0 if of_the_loop else self._kept_for_loop):
            if self._full:
                return 0
            self._full = True
            message = "The recording is full: from here on, it has only the events of the loop itself."
            line = event_to_json(WarningRaised(at=event.at, code="RECORDING_FULL", message=message))
        self._room -= len(line)
        self._writer.put(line, now=type(event) is IterationEnded)
        return len(line)

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
        message = f"The recording {self._file} is not complete: {error.strerror or error}"
        self._on_problem(WarningRaised(code="RECORDING_STOPPED", message=message))


def _without_secrets(record: Record, mask: Mask) -> Record:
    kept = UNMASKED_IN_EVENTS.get(_TYPES[record["type"]].make, frozenset()) | {"type"}
    return {name: value if name in kept else masked(value, mask) for name, value in record.items()}


def _joins(pieces: list[AssistantTextDelta], event: AssistantTextDelta) -> bool:
    first = pieces[0]
    return first.parent == event.parent and event.at - first.at < _JOINED_FOR_S and len(pieces) < _MOST_JOINED


def dropped_line(number: int) -> bytes:
    """The line in place of events that a slow disk or reader left no room for."""
    message = f"{plural(number, 'event')} left out: they could not be written in time."
    return event_to_json(WarningRaised(code="EVENTS_DROPPED", message=message))


def _cut(event: Event) -> Event:
    """Return the event with its long texts cut."""
    return replace(event, **{name: _cut_value(value) for name, value in vars(event).items()})


def _cut_value(value: Any) -> Any:
    match value:
        case str():
            return _cut_text(value)
        case tuple():
            return tuple(_cut_text(text)[: _LONGEST_TEXT // _MOST_ITEMS] for text in value[:_MOST_ITEMS])
        case Mapping():
            shorter = {key: _cut_text(item) if isinstance(item, str) else item for key, item in value.items()}
            text = json_lines.dumps(shorter)
            return shorter if len(text) <= 2 * _LONGEST_TEXT else {"cut": _cut_text(text)}
    return value


def _cut_text(text: str) -> str:
    left_out = len(text) - _LONGEST_TEXT
    return text if left_out <= 0 else f"{text[:_LONGEST_TEXT]}\n[{plural(left_out, 'character')} cut]"


def event_to_json(event: Event) -> bytes:
    """Return the event as a line: its type, and its fields."""
    record = {"type": TYPE_NAMES[type(event)], **vars(event)}
    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:  # a lone surrogate, an integer of more than 64 bits, or nested deeply
        if "Recursion" in str(error):  # a reader would not take it either
            record = {name: {} if isinstance(value, Mapping) else value for name, value in record.items()}
        return json_lines.dumps(record).encode() + b"\n"


def event_from_json(record: Record) -> Event | None:
    """Return the event; None if this version does not know it. Fields that it does not know are ignored."""
    known = _TYPES.get(json_lines.text(record.get("type")) or "")
    if known is None:
        return None
    values: dict[str, Any] = {}
    for field in known.fields:
        if field.name in record:
            value = record[field.name]
            if not field.accepts(value) and not (value is None and field.optional):
                return None
            values[field.name] = tuple(value) if isinstance(value, list) else value
        elif field.required:
            return None
    return known.make(**values)


class _Field(NamedTuple):
    name: str
    accepts: Callable[[Any], bool]
    optional: bool
    """It may be None."""
    required: bool


class _EventType(NamedTuple):
    make: type[Event]
    fields: tuple[_Field, ...]


_LAST_MOMENT = 253402300799.0
"""The end of the year 9999. No amount or duration is larger, and none is negative."""


_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: type(value) is int and abs(value) < 1 << 63,
    "float": lambda value: type(value) in (int, float) and 0 <= value <= _LAST_MOMENT,
    "bool": lambda value: isinstance(value, bool),
    "tuple[str, ...]": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "Mapping[str, Any]": lambda value: isinstance(value, dict),
}
"""By the annotation of a field in `events.py`."""

TYPE_NAMES: dict[type[Event], str] = {
    each: re.sub(r"(?<!^)(?=[A-Z])", "_", each.__name__).lower()
    for each in Event.__subclasses__()
    if each.__module__ == Event.__module__  # others are for the log only
}
"""The `type` of each event that is recorded."""

_TYPES = {
    name: _EventType(
        each,
        tuple(
            _Field(
                field.name,
                accepts=_ACCEPTS[str(field.type).removesuffix(" | None")],
                optional=str(field.type).endswith(" | None"),
                required=field.default is MISSING and field.name != "at",
            )
            for field in fields(each)
        ),
    )
    for each, name in TYPE_NAMES.items()
}


class RecordingReader:
    """Iterates over the events of an open recording, of which an agent could have written any line."""

    def __init__(self, file: BufferedReader, others: Callable[[Record], Iterable[Event]] = lambda record: ()) -> None:
        """`others` reads the records that are not events of a recording."""
        self.skipped = 0
        """Lines that were not read: of another version, damaged or too long."""
        self._file = file
        self._others = others

    def __iter__(self) -> Iterator[Event]:
        for line in self._lines():
            record = json_lines.decode_event(line)
            read = [] if isinstance(record, str) else self._read(record)
            self.skipped += not read
            yield from read

    def _read(self, record: Record) -> list[Event]:
        event = event_from_json(record)
        return [event] if event is not None else list(self._others(record))

    def _lines(self) -> Iterator[bytes]:
        while line := self._file.readline(_LONGEST_READ):
            if not line.endswith(b"\n") and len(line) == _LONGEST_READ:
                self.skipped += 1
                while (rest := self._file.readline(_LONGEST_READ)) and not rest.endswith(b"\n"):
                    pass
            elif stripped := line.strip():
                yield stripped
