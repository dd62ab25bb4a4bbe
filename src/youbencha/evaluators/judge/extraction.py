"""JSON objects in what a judge said: bare, fenced, with words around them, one inside another.

Nothing is parsed twice for each brace in it, so that a hostile megabyte of `{` takes no longer than any other
megabyte: braces are paired in one pass, and what is nested deeper than any verdict is never looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

LOOKED_AT = 300_000
"""Characters, from the end: a verdict comes last."""
DEEPEST = 16
"""Objects within objects. A verdict has three of them."""

_STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
"""No JSON string holds a line's end, so a stray quotation mark spoils no more than its own line."""
_INSIDE = re.compile(rf"{_STRING}|[{{}}]")
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")


class _Group(NamedTuple):
    start: int
    end: int


def objects_in(text: str, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Every JSON object that has one of the keys, the last one first; one that holds others comes before them."""
    text = text[-LOOKED_AT:]
    quoted = [f'"{key}"' for key in keys]
    shortest = min(map(len, quoted)) + len("{:0}")
    for start, end in reversed(list(_groups(text))):
        if end - start < shortest or not any(text.find(key, start, end) >= 0 for key in quoted):
            continue  # nearly all that is hostile, or code, ends here
        found = _parsed(text[start:end])
        if found is not None and any(key in found for key in keys):
            yield found


def _groups(text: str) -> Iterator[_Group]:
    """Whatever stands between a brace and its partner, in the order of their ends."""
    starts: list[int] = []
    heights: list[int] = []
    position = text.find("{")
    while position >= 0:
        starts.append(position)
        heights.append(0)
        position += 1
        # Quotation marks mean something inside of braces only: words around them may hold any number.
        while starts and (token := _INSIDE.search(text, position)) is not None:
            position = token.end()
            if token[0] == "{":
                starts.append(token.start())
                heights.append(0)
            elif token[0] == "}":
                start, height = starts.pop(), heights.pop()
                if heights:
                    heights[-1] = max(heights[-1], height + 1)
                if height < DEEPEST:
                    yield _Group(start, position)
        if starts:
            return
        position = text.find("{", position)


def _parsed(text: str) -> dict[str, Any] | None:
    return _loaded(text) or _loaded(_TRAILING_COMMA.sub(r"\1", text))


def _loaded(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # the latter for lists within lists
        return None
    return found if isinstance(found, dict) else None
