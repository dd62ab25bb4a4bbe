"""Trials that were answered the same need not be kept apart. Pure."""

from __future__ import annotations

from datetime import date
from typing import Any

from youbencha.gateway.cassette.normal import numbered
from youbencha.gateway.cassette.written import one_line

_WHEN = frozenset({"ms"})


def distinct(takes: list[list[dict[str, Any]]], days: frozenset[date]) -> list[list[dict[str, Any]]]:
    """Without those that say no more than another does, but for ids, the time of these days, and how long it took."""
    told = [[_told(answer, days) for answer in take] for take in takes]
    kept: list[int] = []
    for number, one in enumerate(told):
        if not any(one == told[other][: len(one)] for other in kept):
            kept = [other for other in kept if told[other] != one[: len(told[other])]] + [number]
    return [takes[number] for number in kept]


def _told(answer: dict[str, Any], days: frozenset[date]) -> str:
    return numbered(one_line(_timeless(answer)), days)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in _WHEN}
    return [_timeless(each) for each in value] if isinstance(value, list) else value
