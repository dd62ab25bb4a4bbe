"""Read and write JSON, one value or one line, and read typed fields of records.

A field reader returns None (or an empty value) for a value of another type: the input is not trusted.
The decoders differ in what they keep:

| function | result for invalid input | lone surrogates ("\\ud83d") | for |
|---|---|---|---|
| `loads` | ValueError | kept | files of youBencha |
| `loads_lossy` | None | kept; bytes that are not UTF-8 are replaced | answers of an upstream |
| `decode` | None | kept: what a control message holds is executed | control messages |
| `decode_event` | the line as text | replaced: an event goes into UTF-8 files | an agent's output |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from youbencha.text import encodable, shorten, strip_ansi

Record = Mapping[str, Any]
_EMPTY: Record = {}
_MAX_AMOUNT = 1e300
EXCERPT_CHARS = 120
BYTE_ORDER_MARK = "\ufeff"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def as_str(value: object) -> str | None:
    return value if isinstance(value, str) else None


def as_count(value: object, at_most: int | None = None) -> int | None:
    """Return a whole number from 0 up. `true` is not a number, although it is an `int` in Python."""
    if type(value) is not int or value < 0:
        return None
    return value if at_most is None or value <= at_most else None


def as_amount(value: object) -> float | None:
    """Return a finite number from 0 up."""
    if type(value) not in (int, float) or not 0 <= value < _MAX_AMOUNT:  # type: ignore[operator]
        return None
    return float(value)  # type: ignore[arg-type]


def as_mapping(value: object) -> Record:
    return value if isinstance(value, dict) else _EMPTY


def as_records(value: object) -> list[Record]:
    """Return the objects in a list, without other values."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_strs(value: object) -> tuple[str, ...]:
    return tuple([item for item in value if isinstance(item, str)]) if isinstance(value, list) else ()


def loads(data: bytes | str) -> Any:
    """Parse JSON; raise ValueError if it is invalid.

    Takes a lone surrogate, which orjson refuses. An integer of more than 64 bits becomes a float.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error


def loads_lossy(data: bytes | bytearray) -> Any:
    """Parse JSON; None if it is invalid. A text with an incomplete character does not make it invalid."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if not data.rstrip().endswith((b"}", b"]")):  # truncated: Python's parser need not read it all
            return None
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def dumps(value: object) -> str:
    """Return one line without spaces. Takes what orjson refuses: a lone surrogate, an integer of more than 64 bits."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, separators=(",", ":"))


def canonical(value: object) -> bytes:
    """Return one line that is the same for equal values: keys are sorted."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def encode(message: Record) -> str:
    """Return one line, ASCII only: a lone surrogate, which JavaScript cuts out of a text, is sent back unchanged."""
    return json.dumps(message) + "\n"


def decode(line: bytes | str) -> Record | None:
    """Return the line's object; None if it has none."""
    try:
        message = loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def decode_event(line: bytes | str) -> Record | str:
    """Return the line's object, if it names its `type`; otherwise the line's text. Never raises."""
    if line[-1:] not in (b"}", "}"):
        # Checked before parsing: an exception of orjson costs as much as parsing a line of 10 KB.
        line = _readable(line)
        if not line.endswith("}"):
            return line or {}
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        record = _salvage(_readable(line))
    if isinstance(record, dict) and isinstance(record.get("type"), str):
        return record
    return _readable(line)


def excerpt(text: str) -> str:
    """Return the start of a line, to be quoted in a message."""
    return encodable(shorten(text, EXCERPT_CHARS))


def _readable(line: bytes | str) -> str:
    """Return the line without what a PTY adds (a carriage return, and on some lines a reset of the terminal).

    A byte order mark, which some wrappers on Windows write before the first line, is removed as well.
    """
    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
    return strip_ansi(text).removeprefix(BYTE_ORDER_MARK).strip()


def _salvage(text: str) -> object:
    """Return the line's value, if only terminal sequences or a lone surrogate made it invalid; otherwise None."""
    try:
        return orjson.loads(text.encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        if not _SURROGATE_ESCAPE.search(text):
            return None
    # JavaScript cuts strings inside a surrogate pair (a tool's output cut at N characters) and writes "\ud83d" alone,
    # which orjson refuses. The round trip turns it into "?".
    try:
        return orjson.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
