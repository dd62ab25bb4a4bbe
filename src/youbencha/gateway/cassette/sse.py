"""Server-sent events: bytes in any chunks to events, each with the time it was complete, and back. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from youbencha.gateway.cassette.written import one_line, parsed

_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class Event(NamedTuple):
    ms: float
    name: str | None
    data: Any
    """An object or a list, if it is JSON; otherwise text, as the `[DONE]` of OpenAI's."""


def events_in(chunks: Iterable[tuple[float, bytes]]) -> Iterator[Event]:
    held, ms = b"", 0.0
    for ms, chunk in chunks:
        *whole, held = _BLANK_LINE.split(held + chunk)
        for part in whole:
            yield from _event(ms, part)
    yield from _event(ms, held)  # some servers end without a blank line


def event_bytes(event: Event) -> bytes:
    data = event.data if isinstance(event.data, str) else one_line(event.data)
    name = f"event: {event.name}\n" if event.name else ""
    lines = "".join(f"data: {line}\n" for line in data.split("\n"))
    return f"{name}{lines}\n".encode("utf-8", "surrogatepass")


def _event(ms: float, part: bytes) -> Iterator[Event]:
    """None for a comment alone: it only keeps the connection open."""
    name, data = None, []
    for line in part.decode("utf-8", "replace").splitlines():
        field, _, value = line.partition(":")
        if field == "event":
            name = value.removeprefix(" ")
        elif field == "data":
            data.append(value.removeprefix(" "))
    if data:
        yield Event(ms, name, _value("\n".join(data)))


def _value(text: str) -> Any:
    try:
        value = parsed(text)
    except ValueError:
        return text
    return value if isinstance(value, dict | list) else text
