"""One line of an agent's JSON stream -> its record. No line, however broken, is an exception."""

from __future__ import annotations

import json
import re

import orjson

from youbencha.adapters.cli_agent.fields import Record
from youbencha.adapters.cli_agent.terminal_text import strip_ansi

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
