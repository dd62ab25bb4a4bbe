"""Server-sent events out of bytes that come in any pieces. Pure.

Works on whole chunks: this is in the way of every byte that a model writes.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_EVENT_BYTES = 16 * 1024 * 1024
"""A larger event is not kept: nobody's usage is that long."""
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    name: bytes
    """Empty where the stream gives none."""
    data: bytes


class EventSplitter:
    """Fed with chunks, gives the events that are whole by then."""

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self._most = most_bytes
        self._pending = bytearray()
        self._after_cr = False
        self._skipping = False
        self._at_start = True
        self.skipped_bytes = 0
        """Of events that were too large."""

    @property
    def pending_bytes(self) -> int:
        """Of an event that has begun and is not whole."""
        return len(self._pending)

    def feed(self, chunk: bytes) -> list[Event]:
        chunk = self._with_plain_ends(chunk)
        pending = self._pending
        if not pending and not self._skipping:
            chunk = chunk.lstrip(b"\n")
        searched = max(0, len(pending) - 1)
        pending += chunk
        end = pending.rfind(b"\n\n", searched)
        if end < 0:
            self._stay_small()
            return []
        blocks = bytes(memoryview(pending)[:end]).split(b"\n\n")
        del pending[: end + 2]
        found = [event for block in blocks if (event := self._event(block.strip(b"\n")))]
        self._stay_small()
        return found

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        """All three ends of a line as one. A CRLF may come in two chunks: then its second half is nothing."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" not in chunk:
            return chunk
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _event(self, block: bytes) -> Event | None:
        if self._at_start:
            block = block.removeprefix(_BOM)
            self._at_start = not block
        if self._skipping or len(block) > self._most:
            self.skipped_bytes += len(block)
            self._skipping = False
            return None
        return event_of(block)

    def _stay_small(self) -> None:
        """A last end of line may be the first half of the event's end, so it stays."""
        beyond = len(self._pending) - 1
        if self._skipping or beyond > self._most:
            if beyond > 0:
                self.skipped_bytes += beyond
                del self._pending[:beyond]
            self._skipping = True


def event_of(block: bytes) -> Event | None:
    """The lines of one event, each ended by LF. None if they carry no data."""
    name, rest = b"", block
    if block.startswith(b"event: "):
        name, _, rest = block[7:].partition(b"\n")
    if rest.startswith(b"data: ") and b"\n" not in rest:
        return Event(name, rest[6:])
    return _event_of_lines(block)


def _event_of_lines(block: bytes) -> Event | None:
    """As the standard has it: comments, several lines of data, fields that are nothing to us."""
    name, data = b"", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return Event(name, b"\n".join(data)) if data else None
