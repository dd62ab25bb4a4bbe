"""JSON as it is written: in one line for machines, in short lines for people and for `git diff`. Pure."""

from __future__ import annotations

import json
from typing import Any

import orjson

_WIDTH = 110
_INDENT = "  "


def compact(value: object) -> bytes:
    """The same bytes for the same value, however its keys are ordered."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # half a surrogate pair, or a number with more than 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def one_line(value: object) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, separators=(",", ":"))


def parsed(data: bytes | str) -> Any:
    """Raises ValueError."""
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)  # takes what orjson does not: numbers with more than 64 bits, half a surrogate pair


def for_people(value: object) -> str:
    """What fits into a line is in one line, and an event is always: a thousand of them are a thousand lines."""
    return _lines(value, "") + "\n"


def _lines(value: object, indent: str, *, flat_items: bool = False) -> str:
    flat = one_line(value)
    inner = indent + _INDENT
    if len(flat) + len(indent) <= _WIDTH or not value:
        return flat
    if isinstance(value, dict):
        rows = [
            f"{inner}{one_line(key)}: {_lines(each, inner, flat_items=key == 'events')}" for key, each in value.items()
        ]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list):
        rows = [inner + (one_line(each) if flat_items else _lines(each, inner)) for each in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return flat
