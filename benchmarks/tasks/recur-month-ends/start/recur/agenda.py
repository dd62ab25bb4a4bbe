"""Several events together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from recur.expand import first_on_or_after, step
from recur.rule import Rule


@dataclass(frozen=True, order=True)
class Entry:
    day: date
    name: str


class Agenda:
    """Named events and when they are."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}

    def add(self, name: str, rule: Rule) -> None:
        if name in self._rules:
            raise ValueError(f"there is already an event {name}")
        self._rules[name] = rule

    def remove(self, name: str) -> None:
        del self._rules[name]

    def between(self, first: date, last: date) -> list[Entry]:
        """What happens from the first day to the last, both included."""
        return sorted(Entry(day, name) for name, rule in self._rules.items() for day in _days(rule, first, last))

    def next_after(self, day: date) -> Entry | None:
        """What happens next after a day, by date and then by name."""
        tomorrow = day + timedelta(days=1)
        coming = ((first_on_or_after(rule, tomorrow), name) for name, rule in self._rules.items())
        return min((Entry(when, name) for when, name in coming if when is not None), default=None)

    def busy_days(self, first: date, last: date) -> dict[date, list[str]]:
        """The names of what happens, by day."""
        days: dict[date, list[str]] = {}
        for entry in self.between(first, last):
            days.setdefault(entry.day, []).append(entry.name)
        return days


def _days(rule: Rule, first: date, last: date) -> Iterator[date]:
    day = first_on_or_after(rule, first)
    while day is not None and day <= last:
        yield day
        day = first_on_or_after(rule, step(rule, day))
