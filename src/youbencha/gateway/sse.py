"""Server-sent events out of bytes that come in any pieces. Pure.

Works on whole chunks: this is in the way of every byte that a model writes.
"""

from __future__ import annotations

import re
from functools import lru_cache

MOST_EVENT_BYTES = 16 * 1024 * 1024
"""A larger event is not kept: nobody's usage is that long."""

_LONGEST_HEAD = 128

_BLANKS = re.compile(rb"\n\n+")

_BOM = b"\xef\xbb\xbf"

Event = tuple[bytes, bytes]
"""Its name, empty where the stream gives none, and its data. A named tuple would cost as much as all else here."""


class EventSplitter:
    """Fed with chunks, gives the events that are whole by then."""

    def __init__(self, *, skim: bytes = b"", most_bytes: int = MOST_EVENT_BYTES) -> None:
        """Events that begin with `skim` are only measured: they make up most of a stream."""
        self._skim = skim
        self._most = most_bytes
        self._pending = bytearray()
        self._after_cr = False
        self._start: bytes | None = b""
        """The first bytes, until it is known whether they are a byte order mark."""
        self._skipping = False
        self.skipped_bytes = 0
        """Of events that were too large."""
        self.skimmed_events = 0
        self.skimmed_bytes = 0
        """Without those of `skim`."""

    @property
    def pending_bytes(self) -> int:
        """Of an event that has begun and is not whole."""
        return len(self._pending)

    def feed(self, chunk: bytes) -> list[Event]:
        if self._start is not None:
            chunk = self._without_mark(self._start + chunk)
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_plain_ends(chunk)
        if not self._pending and chunk.endswith(b"\n\n") and not chunk.startswith(b"\n"):
            return self._events(chunk)  # as most chunks are: one event or several, each whole
        found = self._events(whole) if (whole := self._whole_with(chunk)) else []
        self._stay_small()
        return found

    def _without_mark(self, start: bytes) -> bytes:
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BOM)

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        """All three ends of a line as one. A CRLF may come in two chunks: then its second half is nothing."""
        if not chunk:
            return chunk
        cut, self._after_cr = self._after_cr, chunk.endswith(b"\r")
        plain = chunk.removeprefix(b"\n") if cut else chunk
        return plain.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _whole_with(self, chunk: bytes) -> bytes:
        """The events that are whole with this chunk. What comes after them is pending."""
        pending = self._pending
        if not pending:
            chunk = chunk.lstrip(b"\n")
        searched = max(0, len(pending) - 1)
        pending += chunk
        end = pending.rfind(b"\n\n", searched)
        if end < 0:
            return b""
        whole = bytes(memoryview(pending)[: end + 2])
        del pending[: end + 2]
        return whole

    def _stay_small(self) -> None:
        """A last end of line may be the first half of the event's end, so it stays."""
        beyond = len(self._pending) - 1
        if beyond > 0 and (self._skipping or beyond > self._most):
            self.skipped_bytes += beyond
            del self._pending[:beyond]
            self._skipping = True

    def _events(self, whole: bytes) -> list[Event]:
        more_blanks = b"\n\n\n" in whole
        blocks = _BLANKS.split(whole.rstrip(b"\n")) if more_blanks else whole[:-2].split(b"\n\n")
        if self._skipping or len(whole) > self._most:
            blocks = [block for block in blocks if self._is_kept(block)]
        if self._skim:
            blocks = self._skimmed(blocks)
        return [event for block in blocks if (event := event_of(block))]

    def _is_kept(self, block: bytes) -> bool:
        if not self._skipping and len(block) <= self._most:
            return True
        self.skipped_bytes += len(block)
        self._skipping = False
        return False

    def _skimmed(self, blocks: list[bytes]) -> list[bytes]:
        begin, rest = self._skim, []
        for block in blocks:
            if block.startswith(begin):
                self.skimmed_events += 1
                self.skimmed_bytes += len(block) - len(begin)
            else:
                rest.append(block)
        return rest


def event_of(block: bytes) -> Event | None:
    """The lines of one event, each ended by LF. None if they carry no data."""
    head, _, data = block.partition(b"data: ")
    if data and b"\n" not in data and len(head) < _LONGEST_HEAD and (name := _name_in(head)) is not None:
        return name, data
    return _event_of_lines(block)


@lru_cache(maxsize=256)
def _name_in(head: bytes) -> bytes | None:
    """The name, where nothing but a name comes before the data. There are few, so that each is read once."""
    if not head:
        return b""
    is_name = head.startswith(b"event: ") and head.find(b"\n") == len(head) - 1
    return head[7:-1] if is_name else None


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
    return (name, b"\n".join(data)) if data else None
