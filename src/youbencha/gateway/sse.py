"""Parse and write server-sent events. No I/O.

The parser works on whole chunks for speed, because it sees every byte of a model's answers.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""A larger event is dropped; events with usage are much shorter."""

SseEvent = tuple[bytes, bytes]
"""Name (empty if there is none) and data. A named tuple would take as long as the rest of the parser."""

_MAX_HEAD_CHARS = 128
_BLANK_LINES = re.compile(rb"\n\n+")
_BOM = b"\xef\xbb\xbf"


class SseParser:
    """Splits chunks of any size into events. Lines may end with LF, CRLF or CR."""

    def __init__(self, *, skim: bytes = b"", max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        """`skim`: skip events that begin with it, for those that make up most of a stream."""
        self.dropped = 0
        """The number of events that were too large."""
        self._skim = skim
        self._max_bytes = max_event_bytes
        self._pending = bytearray()
        self._after_cr = False
        self._start: bytes | None = b""
        """The first bytes, until it is clear whether they are a byte order mark."""
        self._dropping = False
        """The pending event is too large, and its beginning was dropped."""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that are complete with this chunk."""
        if self._start is not None:
            chunk = self._without_mark(self._start + chunk)
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_lf(chunk)
        if not self._pending and chunk.endswith(b"\n\n") and not chunk.startswith(b"\n"):
            return self._events(chunk)  # most chunks are one or several complete events
        complete = self._complete_with(chunk)
        events = self._events(complete) if complete else []
        self._limit_pending()
        return events

    def finish(self) -> list[SseEvent]:
        """Return the last event, if the stream ended without the blank line after it."""
        return self.feed(b"\n\n")

    def _without_mark(self, start: bytes) -> bytes:
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BOM)

    def _with_lf(self, chunk: bytes) -> bytes:
        """Replace all line ends by LF. A CRLF may be split over two chunks: then its second half is dropped."""
        if not chunk:
            return chunk
        cut, self._after_cr = self._after_cr, chunk.endswith(b"\r")
        plain = chunk.removeprefix(b"\n") if cut else chunk
        return plain.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _complete_with(self, chunk: bytes) -> bytes:
        """Return the events that this chunk completes. The rest stays pending."""
        pending = self._pending
        if not pending:
            chunk = chunk.lstrip(b"\n")
        searched = max(0, len(pending) - 1)
        pending += chunk
        end = pending.rfind(b"\n\n", searched)
        if end < 0:
            return b""
        complete = bytes(memoryview(pending)[: end + 2])
        del pending[: end + 2]
        return complete

    def _limit_pending(self) -> None:
        """Drop the beginning of a large event. A last line end is kept: it may be half of the event's end."""
        beyond = len(self._pending) - 1
        if beyond > 0 and (self._dropping or beyond > self._max_bytes):
            del self._pending[:beyond]
            self._dropping = True

    def _events(self, complete: bytes) -> list[SseEvent]:
        more_blanks = b"\n\n\n" in complete
        blocks = _BLANK_LINES.split(complete.rstrip(b"\n")) if more_blanks else complete[:-2].split(b"\n\n")
        if self._dropping or len(complete) > self._max_bytes:
            blocks = [block for block in blocks if not self._drops(block)]
        if self._skim:
            blocks = [block for block in blocks if not block.startswith(self._skim)]
        return [event for block in blocks if (event := parse_event(block))]

    def _drops(self, block: bytes) -> bool:
        if not self._dropping and len(block) <= self._max_bytes:
            return False
        self.dropped += 1
        self._dropping = False
        return True


def parse_event(block: bytes) -> SseEvent | None:
    """Parse the lines of one event, separated by LF. None if they have no data."""
    head, _, data = block.partition(b"data: ")
    if data and b"\n" not in data and len(head) < _MAX_HEAD_CHARS and (name := _name_in(head)) is not None:
        return name, data
    return _parse_lines(block)


def write_event(name: bytes, data: bytes) -> bytes:
    """Write one event; `name` may be empty."""
    head = b"event: " + name + b"\n" if name else b""
    return head + b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


@lru_cache(maxsize=256)
def _name_in(head: bytes) -> bytes | None:
    """Return the name, if nothing else precedes the data. Cached, because there are few names."""
    if not head:
        return b""
    is_name = head.startswith(b"event: ") and head.find(b"\n") == len(head) - 1
    return head[7:-1] if is_name else None


def _parse_lines(block: bytes) -> SseEvent | None:
    """Parse according to the standard: comments, several lines of data, other fields."""
    name, data = b"", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return (name, b"\n".join(data)) if data else None
