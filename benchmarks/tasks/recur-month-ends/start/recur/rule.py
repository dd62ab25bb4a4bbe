"""What recurs when: the rule, and how people write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

UNITS = ("days", "weeks", "months", "years")
_RULE = re.compile(
    r"every\s+(?:(?P<interval>\d+)\s+)?(?P<unit>day|week|month|year)s?"
    r"\s+from\s+(?P<start>\S+)"
    r"(?:\s+until\s+(?P<until>\S+))?"
    r"(?:\s+times\s+(?P<times>\d+))?"
    r"(?:\s+except\s+(?P<excepted>.+))?",
    re.IGNORECASE,
)


class RuleError(ValueError):
    """A rule that cannot be understood."""


@dataclass(frozen=True)
class Rule:
    start: date
    unit: str
    interval: int = 1
    until: date | None = None
    times: int | None = None
    excepted: frozenset[date] = frozenset()

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise RuleError(f"unknown unit: {self.unit}")
        if self.interval < 1:
            raise RuleError("the interval must be at least 1")
        if self.until is not None and self.until < self.start:
            raise RuleError("a rule cannot end before it starts")


def parse_rule(text: str) -> Rule:
    """Read a rule such as `every 2 weeks from 2024-01-05 until 2024-06-30`."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise RuleError(f"not a rule: {text}")
    excepted = match["excepted"]
    return Rule(
        start=_date(match["start"]),
        unit=match["unit"].lower() + "s",
        interval=int(match["interval"] or 1),
        until=_date(match["until"]) if match["until"] else None,
        times=int(match["times"]) if match["times"] else None,
        excepted=frozenset(_date(each.strip()) for each in excepted.split(",")) if excepted else frozenset(),
    )


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise RuleError(f"not a date: {text}") from None
