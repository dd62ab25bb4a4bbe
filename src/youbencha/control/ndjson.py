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
        found = []
        for line in lines:
            found += self._ended(line)
        return [*found, *self._perhaps_ended(rest)]

    def finish(self) -> list[str]:
        """Nothing more comes."""
        begun, self._begun = self._begun, ""
        return [begun] if begun else []

    def _ended(self, line: str) -> list[str]:
        """Of a line that has ended: what began it stands in the frame before, unless the two have nothing in common."""
        begun, self._begun = self._begun, ""
        if begun and decode(begun + line) is None and decode(line) is not None:
            return [begun, line]
        return [begun + line] if (begun + line).strip() else []

    def _perhaps_ended(self, rest: str) -> list[str]:
        whole = self._begun + rest
        if decode(whole) is not None or _is_message(rest) or len(whole) > _LONGEST_HELD:
            return self._ended(rest)
        self._begun = whole if whole.strip() else ""
        return []


def _is_message(text: str) -> bool:
    """Not any object: the middle of a message is one, too."""
    return "type" in (decode(text) or {})
