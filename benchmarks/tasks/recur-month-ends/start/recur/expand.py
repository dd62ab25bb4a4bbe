"""From a rule to dates."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import date, timedelta

from recur.rule import Rule

_DAYS = {"days": 1, "weeks": 7}
_MONTHS = {"months": 1, "years": 12}


def add_months(day: date, months: int) -> date:
    """The same day of a later month, or the last one of that month."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def step(rule: Rule, day: date) -> date:
    """The date that follows `day`."""
    if rule.unit in _DAYS:
        return day + timedelta(days=_DAYS[rule.unit] * rule.interval)
    return add_months(day, _MONTHS[rule.unit] * rule.interval)


def occurrences(rule: Rule) -> Iterator[date]:
    """All dates of a rule, in order; without an end if the rule has none."""
    day = rule.start
    number = 0
    while not _over(rule, day, number):
        if day not in rule.excepted:
            yield day
        day = step(rule, day)
        number += 1


def first_on_or_after(rule: Rule, day: date) -> date | None:
    """The first occurrence on a day or later, without walking through all those before it. None if there is none."""
    number = _jump(rule, day)
    current = _at(rule, number)
    while not _over(rule, current, number):
        if current >= day and current not in rule.excepted:
            return current
        current = step(rule, current)
        number += 1
    return None


def _over(rule: Rule, day: date, number: int) -> bool:
    """Whether the rule ended before its occurrence with this number, from 0, on that day."""
    if rule.times is not None and number >= rule.times:
        return True
    return rule.until is not None and day > rule.until


def _jump(rule: Rule, day: date) -> int:
    """The number of an occurrence that is near to a day, and not after it."""
    if day <= rule.start:
        return 0
    if rule.unit in _DAYS:
        return (day - rule.start).days // (_DAYS[rule.unit] * rule.interval)
    months = (day.year - rule.start.year) * 12 + day.month - rule.start.month
    return max(0, months // (_MONTHS[rule.unit] * rule.interval) - 1)


def _at(rule: Rule, number: int) -> date:
    if rule.unit in _DAYS:
        return rule.start + timedelta(days=_DAYS[rule.unit] * rule.interval * number)
    return add_months(rule.start, _MONTHS[rule.unit] * rule.interval * number)
