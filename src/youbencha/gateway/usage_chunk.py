"""Request the usage of a chat stream if the client does not, and remove it from the answer. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from youbencha.gateway.sse import parse_event
from youbencha.json_lines import as_mapping, loads_lossy

_MAX_HELD = 64 * 1024
"""A larger event is not the usage, and is passed on as it arrives."""
_EVENT_END = re.compile(rb"(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r|\n)")
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_ASKED = b'"stream_options":{"include_usage":true},'


def with_usage_asked(body: bytes, parsed: Mapping[str, Any]) -> tuple[bytes, bool]:
    """Return the body to send, and whether it now requests more than the client did.

    The client's bytes are kept if possible, because numbers may change when JSON is written again.
    """
    options = parsed.get("stream_options")
    is_plain = options is None or isinstance(options, dict)
    if parsed.get("stream") is not True or not is_plain or as_mapping(options).get("include_usage") is True:
        return body, False
    start = body.find(b"{") + 1
    if "stream_options" not in parsed and start and not body[: start - 1].strip():
        return body[:start] + _ASKED + body[start:], True
    asking = {**parsed, "stream_options": {**as_mapping(options), "include_usage": True}}
    try:
        return json.dumps(asking).encode(), True
    except (TypeError, ValueError, RecursionError):
        return body, False


class UsageChunkFilter:
    """Passes on a stream byte for byte, without the event that only the gateway requested."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._too_large = False
        """The current event is passed on as it arrives."""
        self._last_cr_passed: bool | None = None
        """After an event that ended with CR: whether it was passed on. A following LF is still part of it."""

    def feed(self, chunk: bytes) -> bytes:
        if not chunk:
            return b""
        out = bytearray()
        if self._last_cr_passed is not None and chunk.startswith(b"\n"):
            out += b"\n" if self._last_cr_passed else b""
            chunk = chunk[1:]
        self._last_cr_passed = None
        searched = max(0, len(self._held) - 2)
        self._held += chunk
        self._pass_events(out, searched)
        return bytes(out)

    def finish(self) -> bytes:
        """Return what is left if the stream ended in the middle of an event."""
        rest = bytes(self._held)
        self._held.clear()
        return rest if self._passes(rest) else b""

    def _pass_events(self, out: bytearray, searched: int) -> None:
        held, start = self._held, 0
        for end in _event_ends(held, searched):
            event = bytes(memoryview(held)[start:end])
            start = end
            passes = self._passes(event)
            self._too_large = False
            if passes:
                out += event
            self._last_cr_passed = passes if event.endswith(b"\r") and start == len(held) else None
        del held[:start]
        self._limit_held(out)

    def _limit_held(self, out: bytearray) -> None:
        """Pass on a large event, except for the last two bytes, which may be half of its end."""
        beyond = len(self._held) - 2
        if beyond > 0 and (self._too_large or beyond > _MAX_HELD):
            out += self._held[:beyond]
            del self._held[:beyond]
            self._too_large = True

    def _passes(self, event: bytes) -> bool:
        return self._too_large or len(event) > _MAX_HELD or not _is_usage_chunk(event)


def _event_ends(held: bytearray, searched: int) -> Iterator[int]:
    if b"\r" in held:
        yield from (found.end() for found in _EVENT_END.finditer(held, searched))
        return
    while (found := held.find(b"\n\n", searched)) >= 0:  # by far the most frequent, and ten times as fast
        searched = found + 2
        yield searched


def _is_usage_chunk(event: bytes) -> bool:
    if not _NO_CHOICES.search(event):
        return False
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").strip(b"\n")
    found = parse_event(lines)
    chunk = as_mapping(loads_lossy(found[1])) if found else {}
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
