"""Messages as lines of JSON, and lines out of WebSocket frames."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from youbencha.control.reading import Message

_LONGEST_HELD = 64 * 1024 * 1024


def encode(message: Mapping[str, Any]) -> str:
    """ASCII only: half an emoji, which JavaScript may have cut out of a text, then goes back as it came."""
    return json.dumps(message) + "\n"


def decode(line: bytes | str) -> Message | None:
    """None for whatever is not an object."""
    try:
        message = orjson.loads(line)
    except orjson.JSONDecodeError:
        message = _salvage(line)
    return message if isinstance(message, dict) else None


def _salvage(line: bytes | str) -> object:
    """Python's own reader takes the halves of emojis that orjson refuses."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class Frames:
    """Lines out of frames. A frame holds one message or several; its last line need not end, and may go on in the
    next frame: what is JSON by itself is a message, what is not waits."""

    def __init__(self) -> None:
        self._begun = ""

    def feed(self, frame: str) -> list[str]:
        *lines, rest = frame.split("\n")
        if self._begun:
            first, *more = [*lines, rest]
            lines, rest = [*self._joined(first), *more[:-1]], more[-1] if more else ""
        found = [line for line in lines if line.strip()]
        if not rest.strip():
            return found
        if decode(rest) is not None or len(rest) > _LONGEST_HELD:
            return [*found, rest]
        self._begun = rest
        return found

    def finish(self) -> list[str]:
        """Nothing more comes."""
        begun, self._begun = self._begun, ""
        return [begun] if begun else []

    def _joined(self, first: str) -> list[str]:
        """Two frames that are no message together are two things that went wrong, or one."""
        begun, self._begun = self._begun, ""
        return [begun, first] if decode(begun + first) is None else [begun + first]
