"""Read and write JSON lines, and take typed fields out of their records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

Record = Mapping[str, Any]

_EMPTY: Record = {}


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def count(value: object) -> int | None:
    """A whole number from 0 up. `true` is not a number, whatever Python says."""
    return value if type(value) is int and value >= 0 else None


def number(value: object) -> float | None:
    return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def amount(value: object) -> float | None:
    """A number from 0 up."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def mapping(value: object) -> Record:
    return value if isinstance(value, dict) else _EMPTY


def records(value: object) -> list[Record]:
    """The objects of a list; whatever else is in it is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


# One line of an agent's JSON stream -> its record. No line, however broken, is an exception.

QUOTE_CHARS = 120

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def decode(line: bytes | str) -> Record | str:
    """The line's object, if it names its `type`; or, if there is none on it, what is there instead."""
    if line[-1:] not in (b"}", "}"):
        # Found out before parsing: an exception of orjson costs as much as a whole line of 10 KB.
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


def quoted(text: str) -> str:
    """The start of a line that is no event, fit for a journal."""
    quote = text if len(text) <= QUOTE_CHARS else text[:QUOTE_CHARS] + "…"
    # A lone surrogate could not be written to the journal.
    return quote.encode("utf-8", "replace").decode("utf-8")


def _readable(line: bytes | str) -> str:
    """Without what a PTY puts around a line: a carriage return, and on some lines a reset of the terminal."""
    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
    return strip_ansi(text).strip()


def _salvage(text: str) -> object:
    """The line's value, if only the terminal's trimmings or half an emoji stood in the way; else None."""
    try:
        return orjson.loads(text.encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        if not _SURROGATE_ESCAPE.search(text):
            return None
    # JavaScript cuts strings between the halves of a surrogate pair (a tool's output cut at N characters) and writes
    # "\ud83d" alone, which orjson refuses. The round trip turns the half into "?".
    try:
        return orjson.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


# What a terminal adds to a text, and how to take it out again.

# The seeds' `\x1B\[[0-9;]*m` misses what CLIs really write to a PTY: ESC[?25h, ESC[<u, ESC]9;4;0;BEL, ESC 7.
# Every alternative is linear, and a sequence that never ends costs its introducer only, not the text after it.
ANSI_PATTERN = re.compile(
    r"""\x1b(?:
        \[[0-?]*[\x20-/]*[@-~]                  # CSI, private ones too
      | \][^\x07\x1b\n]*(?:\x07|\x1b\\)         # OSC
      | [PX^_][^\x1b\n]*\x1b\\                  # DCS, SOS, PM, APC
      | [\x20-/]*[0-~]                          # ESC 7, ESC 8, ESC =, ESC ( B
    )?""",
    re.VERBOSE,
)


def strip_ansi(text: str) -> str:
    """The text without terminal sequences; no ESC is left in it."""
    return ANSI_PATTERN.sub("", text) if "\x1b" in text else text


def clean_text(text: str) -> str:
    """The text as a person would read it: no terminal sequences, plain line ends, no half characters."""
    text = strip_ansi(text).replace("\r\n", "\n")
    # Half of a surrogate pair cannot be written to a UTF-8 file; the capture may have let one through.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
