"""The date of the day, in the forms in which agents tell it to their models. Pure.

An agent says what day it is; that is another one in another run. All other dates are somebody's words, and count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta

Clock = Callable[[], date]

CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})(?![A-Za-z0-9]))"
WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
"""Not from `calendar`, which speaks the language of the machine."""
_NTH = "(?:st|nd|rd|th)?"
_TIME = rf"(?:(?:T|,? (?:at )?){CLOCK}(?: ?[AP]M(?![a-z]))?{ZONE}?(?:[+-]\d{{4}}(?: \([A-Z][A-Za-z ]+\))?)?)?"
_EPOCH_BLOCK = 100_000
"""Seconds: what numbers of ten digits have in common if their first five are the same."""


def around(day: date) -> frozenset[date]:
    """The day before and after, too: a run may go on over midnight, and a container live in another time zone."""
    return frozenset(day + timedelta(days=shift) for shift in (-1, 0, 1))


def letter_first(days: Iterable[date]) -> Mapping[str, str]:
    days = sorted(days)
    if not days:
        return {}
    written = _either(f"{_iso(day)}|{_slashes(day)}|{_day_first(day)}" for day in days)
    named = _either(
        rf"{_month(day)} +0?{day.day}{_NTH},? +(?:{CLOCK}(?: [AP]M)? (?:[A-Z]{{3,5}} )?)?{day.year}" for day in days
    )
    return {
        "today_named": rf"(?:{WEEKDAY},? +)?{named}(?!\d){_TIME}",
        "today_weekday": rf"{WEEKDAY},? +{written}{_TIME}",
        "this_month": rf"(?:[Cc]urrent|[Tt]his) (?:month|year) is (?P<month>{_either(map(_this_month, days))})(?!\d)",
    }


def digit_first(days: Iterable[date]) -> Mapping[str, str]:
    days = sorted(days)
    if not days:
        return {}
    epochs = _either(sorted({block for day in days for block in _epoch_blocks(day)}))
    return {
        "today_iso": _either(map(_iso, days)) + _TIME,
        "today_slashes": _either(map(_slashes, days)) + _TIME,
        "today_packed": _either(f"{day:%Y%m%d}" for day in days) + r"(?:[T_-]?\d{4,6}Z?)?(?![A-Za-z0-9])",
        "today_day_first": _either(map(_day_first, days)) + _TIME,
        "now_in_ms": rf"{epochs}\d{{8}}(?![A-Za-z0-9])",
        "now": rf"{epochs}\d{{5}}(?:\.\d+)?(?![A-Za-z0-9])",
    }


def _iso(day: date) -> str:
    return rf"{day:%Y-%m-%d}(?!\d)"


def _slashes(day: date) -> str:
    """As it is written in America and elsewhere, and in Germany with dots."""
    year = rf"(?:{day.year}|{day:%y})"
    month_and_day = rf"(?:0?{day.month}/0?{day.day}|0?{day.day}/0?{day.month})/{year}"
    return rf"(?:{month_and_day}|{day.year}/0?{day.month}/0?{day.day}|0?{day.day}\.0?{day.month}\.{day.year})(?![\w/])"


def _day_first(day: date) -> str:
    return rf"0?{day.day}{_NTH} {_month(day)},? {day.year}(?!\d)"


def _this_month(day: date) -> str:
    return f"(?:{_month(day)} )?{day.year}"


def _month(day: date) -> str:
    name = _MONTHS[day.month - 1]
    return f"(?:{name}|{name[:3]})"


def _epoch_blocks(day: date) -> Iterable[str]:
    start = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    return (str(second // _EPOCH_BLOCK) for second in (start, start + 86_399))


def _either(patterns: Iterable[str]) -> str:
    return "(?:" + "|".join(patterns) + ")"
