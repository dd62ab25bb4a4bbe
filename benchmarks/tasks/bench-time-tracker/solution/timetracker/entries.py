"""Entries, and the rules that they obey."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta

_PROJECT = re.compile(r"[A-Za-z0-9._/-]+")


class Refused(Exception):
    """What the rules do not allow."""


@dataclass(frozen=True)
class Entry:
    project: str
    start: datetime
    end: datetime | None = None
    note: str = ""

    @property
    def minutes(self) -> int:
        return minutes_between(self.start, self.end) if self.end else 0

    def by_day(self) -> Iterator[tuple[date, int]]:
        """The minutes of each day that a finished entry is on."""
        start = self.start
        while self.end and start.date() < self.end.date():
            midnight = datetime.combine(start.date() + timedelta(days=1), time())
            yield start.date(), minutes_between(start, midnight)
            start = midnight
        if self.end:
            yield start.date(), minutes_between(start, self.end)


def minutes_between(start: datetime, end: datetime) -> int:
    return int((end - start).total_seconds()) // 60


@dataclass
class Timesheet:
    """All finished entries by start, and the one that is running."""

    finished: list[Entry] = field(default_factory=list)
    running: Entry | None = None

    def start(self, project: str, now: datetime, note: str = "") -> Entry:
        if self.running:
            raise Refused(f"{self.running.project} is running")
        if any(entry.start <= now < _end(entry) for entry in self.finished):
            raise Refused("there is an entry at that time")
        self.running = _checked(Entry(project, now, note=note))
        return self.running

    def stop(self, now: datetime) -> Entry:
        entry = replace(self._running(), end=now)
        self._add(entry)
        self.running = None
        return entry

    def cancel(self) -> Entry:
        entry = self._running()
        self.running = None
        return entry

    def add(self, project: str, start: datetime, end: datetime, note: str = "") -> Entry:
        entry = _checked(Entry(project, start, end, note))
        if self.running and end > self.running.start:
            raise Refused(f"it overlaps with {self.running.project}, which is running")
        self._add(entry)
        return entry

    def _running(self) -> Entry:
        if self.running is None:
            raise Refused("nothing is running")
        return self.running

    def _add(self, entry: Entry) -> None:
        if _end(entry) < entry.start:
            raise Refused("an entry cannot end before it starts")
        for other in self.finished:
            if entry.start < _end(other) and other.start < _end(entry):
                raise Refused(f"it overlaps with {other.project} at {other.start:%Y-%m-%dT%H:%M}")
        self.finished = sorted([*self.finished, entry], key=lambda each: each.start)


def _end(entry: Entry) -> datetime:
    return entry.end or entry.start


def _checked(entry: Entry) -> Entry:
    if not _PROJECT.fullmatch(entry.project):
        raise Refused(f"not the name of a project: {entry.project!r}")
    if len(entry.note.splitlines()) > 1:
        raise Refused("a note is a single line")
    return entry
