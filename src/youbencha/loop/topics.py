"""The events that agents publish: lines of JSON in a file, which `ralph emit` writes and the loop reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from youbencha import json_lines
from youbencha.errors import YouBenchaError
from youbencha.files import nofollow_directory, open_nofollow, read_nofollow
from youbencha.store.layout import RALPH_DIR
from youbencha.text import clean_text

EVENTS_VARIABLE = "RALPH_EVENTS_FILE"
LOOP_VARIABLE = "RALPH_LOOP_ID"
ROOT_VARIABLE = "RALPH_WORKSPACE_ROOT"
CURRENT_EVENTS = f"{RALPH_DIR}/current-events"
"""Names the events file of the running loop, relative to the project."""
DEFAULT_EVENTS = f"{RALPH_DIR}/events.jsonl"

MAX_PAYLOAD = 20_000
MAX_LINE = 256 * 1024
_MAX_READ = 16 * 1024 * 1024
_MAX_EVENTS = 1000
_TOPIC = re.compile(r"[^\s\0-\x1f\x7f]{1,200}")
_CUT = " … (cut)"


@dataclass(frozen=True)
class TopicEvent:
    """A published event."""

    topic: str
    payload: str = ""
    """Text; an object is kept as JSON."""
    at: str = ""
    """When, as the agent wrote it."""


class MalformedLine(NamedTuple):
    """A line of the events file that is not an event."""

    text: str
    """Its start."""
    problem: str


class NewEvents(NamedTuple):
    """What was appended to the events file."""

    events: tuple[TopicEvent, ...]
    offset: int
    """The position to continue reading from."""
    malformed: tuple[MalformedLine, ...]


class TopicLog:
    """The events file of a loop. An agent could have written anything into it, or put a link in its place."""

    def __init__(self, file: Path, root: Path | None = None) -> None:
        """`root` is a directory above the file, below which no link is followed; by default, the file's own."""
        self.file = file
        self._root = root or file.parent
        self._name = str(file.relative_to(self._root))

    def append(self, event: TopicEvent, *, as_json: bool = False) -> None:
        """Append one line with one write, so that several processes can do so at once.

        `as_json` writes the payload, which must be JSON, as a value instead of a text. Raises `OSError`.
        """
        payload = json_lines.loads(event.payload) if as_json else event.payload or None
        line = json_lines.dumps({"topic": event.topic, "payload": payload, "ts": event.at}).encode("utf-8", "replace")
        with nofollow_directory(self._root, str(Path(self._name).parent)) as directory:
            directory.append(self.file.name, line + b"\n")

    def read_new(self, offset: int = 0) -> NewEvents:
        """Read what was appended since `offset`. A last line that is still being written is left for the next call.

        Raises `OSError`, but not for a missing file.
        """
        try:
            with open_nofollow(self._root, self._name) as file:
                cut = os.fstat(file.fileno()).st_size < offset
                start = 0 if cut else offset
                file.seek(start)
                data = file.read(_MAX_READ)
        except FileNotFoundError:
            return NewEvents((), offset, ())
        parsed = _parsed(data, start)
        if not cut:
            return parsed
        note = MalformedLine("", "the events file became shorter: it is read from its start")
        return parsed._replace(malformed=(note, *parsed.malformed))

    def read_all(self) -> tuple[list[TopicEvent], list[MalformedLine]]:
        """Read the whole file, piece by piece."""
        events: list[TopicEvent] = []
        malformed: list[MalformedLine] = []
        offset = -1
        while offset != (new := self.read_new(max(offset, 0))).offset:
            offset = new.offset
            events += new.events
            malformed += new.malformed
        return events, malformed

    def size(self) -> int:
        """Return the offset of its end; 0 if there is no such file."""
        try:
            with open_nofollow(self._root, self._name) as file:
                return os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return 0


def _parsed(data: bytes, offset: int) -> NewEvents:
    events: list[TopicEvent] = []
    malformed: list[MalformedLine] = []
    for line in _lines(data):
        if len(events) + len(malformed) == _MAX_EVENTS:
            break
        found = _event(line)
        complete = line.endswith(b"\n") or len(line) > MAX_LINE
        if not complete and not isinstance(found, TopicEvent):
            break  # still being written. A valid object is complete: no part of one is valid
        offset += len(line)
        if isinstance(found, TopicEvent):
            events.append(found)
        elif found:
            malformed.append(MalformedLine(json_lines.excerpt(line[:500].decode("utf-8", "replace").strip()), found))
    return NewEvents(tuple(events), offset, tuple(malformed))


def _lines(data: bytes) -> Iterable[bytes]:
    """Return the lines with their ends; `bytes.splitlines` would also end them at a CR."""
    *complete, last = data.split(b"\n")
    return [*(line + b"\n" for line in complete), *([last] if last else [])]


def _event(line: bytes) -> TopicEvent | str | None:
    """Return the event of a line, or what is wrong with it; None for a blank line."""
    if len(line) > MAX_LINE:
        return f"is longer than {MAX_LINE:,} bytes"
    if not line.strip():
        return None
    record = json_lines.loads_lossy(line)
    if not isinstance(record, dict):
        return "is not a JSON object"
    topic = record.get("topic")
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        return "has no valid `topic`"
    payload = record.get("payload")
    text = payload if isinstance(payload, str) else "" if payload is None else json_lines.dumps(payload)
    text = clean_text(text)
    if len(text) > MAX_PAYLOAD:
        text = text[:MAX_PAYLOAD] + _CUT
    return TopicEvent(clean_text(topic), text, json_lines.as_str(record.get("ts")) or "")


def check_topic(topic: str) -> None:
    if not _TOPIC.fullmatch(topic):
        message = f"{json_lines.excerpt(topic)!r} is not a topic: it is one word of up to 200 characters."
        raise YouBenchaError("TOPIC_INVALID", message, hint='For example `ralph emit build.done "tests: pass"`.')


def find_project(env: Mapping[str, str], directory: Path) -> Path:
    """Return the directory that holds `.ralph`: of the running loop, or the nearest above `directory`."""
    if root := env.get(ROOT_VARIABLE, "").strip():
        return Path(root)
    if (file := Path(env.get(EVENTS_VARIABLE) or "")).is_absolute() and file.parent.name == RALPH_DIR:
        return file.parent.parent
    above = (directory, *directory.parents)
    for mark in (RALPH_DIR, ".git"):
        if found := next((directory for directory in above if (directory / mark).exists()), None):
            return found
    return directory


def events_of_project(env: Mapping[str, str], project: Path) -> TopicLog:
    """Return the events file: of the running loop, the one that `.ralph/current-events` names, or the default."""
    if chosen := env.get(EVENTS_VARIABLE):
        file = project / chosen
        return TopicLog(file, project if file.is_relative_to(project) else None)
    try:
        named = read_nofollow(project, CURRENT_EVENTS, 4096).decode("utf-8", "replace").strip()
    except OSError:
        named = DEFAULT_EVENTS
    file = Path(os.path.normpath(project / named))
    if not file.is_relative_to(project / RALPH_DIR):  # an agent may have written that
        raise YouBenchaError(
            "EVENTS_FILE_OUTSIDE",
            f"{CURRENT_EVENTS} names {json_lines.excerpt(named)!r}, which is not in {RALPH_DIR}.",
            hint=f"Remove {CURRENT_EVENTS}, or name the file with --file.",
        )
    return TopicLog(file, project)
