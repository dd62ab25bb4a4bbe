"""Reading what an upstream says, without trusting it: whatever is not as it should be is unknown. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

MOST_TOKENS = 10**12
"""A count beyond this is no count."""

_MOST_NAME = 256

_WORD = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)

_NOTHING: Mapping[str, Any] = {}


def read_json(data: bytes | bytearray) -> Any:
    """None for what is no JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _read_leniently(data) if data.rstrip().endswith((b"}", b"]")) else None


def _read_leniently(data: bytes | bytearray) -> Any:
    """Half a character in a text, as models do write it, is no reason to lose the counts beside it."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _NOTHING


def mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """A number of tokens. True is none, though Python counts with it."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def first_count(holder: Mapping[str, Any], *names: str) -> int | None:
    """The first of several names for one thing that has a number."""
    return next((number for name in names if (number := count(holder.get(name))) is not None), None)


def model_name(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MOST_NAME and value.isprintable() else None


def error_word(error: Any, *names: str) -> str:
    """What an error is called. Only a word is taken: messages may hold anything."""
    said = (mapping(error).get(name) for name in names)
    return next((word for word in said if isinstance(word, str) and _WORD.fullmatch(word)), "unknown_error")


# JSON as it is written: in one line for machines, in short lines for people and for `git diff`. Pure.

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
