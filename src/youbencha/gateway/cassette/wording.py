"""A request as lines that a person can read, and how two of them differ, in not too many. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from youbencha.gateway.cassette.written import one_line

_WIDEST = 200
_MOST_LINES = 120
_CONTEXT = 3
_SHORT = 80
_LEAD = 30


def lines_of(value: Any) -> list[str]:
    return list(_lines(value, ""))


def diff(recorded: list[str], now: list[str]) -> list[str]:
    """As `diff -u` has it. What is equal before the first difference and after the last is not even looked at."""
    start, end = equal_ends(recorded, now)
    skipped = max(0, start - _CONTEXT)
    before, after = (lines[skipped : len(lines) - max(0, end - _CONTEXT)] for lines in (recorded, now))
    found = list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=_CONTEXT))
    shown = found[:_MOST_LINES]
    for at, (one, other) in enumerate(pairwise(shown)):
        if one.startswith("-") and other.startswith("+"):
            cut, same = from_difference(one[1:], other[1:])
            shown[at : at + 2] = [f"-{cut}", f"+{same}"]
    shown = [clipped(line, _WIDEST) for line in shown]
    return [*shown, f"… and {len(found) - _MOST_LINES} more lines"] if len(found) > _MOST_LINES else shown


def from_difference(one: str, other: str) -> tuple[str, str]:
    """Two long lines, without most of what they have in common before they differ."""
    same = _equal(one, other)
    if same < _SHORT - _LEAD:
        return one, other
    return f"…{one[same - _LEAD :]}", f"…{other[same - _LEAD :]}"


def clipped(text: str, width: int = _SHORT) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def equal_ends(first: list[str], second: list[str]) -> tuple[int, int]:
    """How many lines are the same from the beginning on, and how many of the others at the end."""
    start = _equal(first, second)
    return start, _equal(first[start:][::-1], second[start:][::-1])


def _equal(first: Sequence[str], second: Sequence[str]) -> int:
    return next(
        (at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other),
        min(len(first), len(second)),
    )


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _item(f"{indent}{key}:", each, indent)
    elif isinstance(value, list) and value:
        for each in value:
            yield from _item(f"{indent}-", each, indent)
    elif isinstance(value, str):
        yield from (f"{indent}{line}" for line in value.split("\n"))
    else:
        yield indent + one_line(value)


def _item(head: str, value: Any, indent: str) -> Iterator[str]:
    """In one line with its key, if it has but one."""
    if isinstance(value, str) and "\n" not in value:
        yield f"{head} {value}"
    elif isinstance(value, dict | list | str) and value:
        yield head
        yield from _lines(value, indent + "  ")
    else:
        yield f"{head} {one_line(value)}"
