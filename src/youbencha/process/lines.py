"""Lines out of chunks: two streams joined without tearing a line, one stream cut into lines."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

LineSink = Callable[[bytes], None]


class Stream(IntEnum):
    OUT = 0
    ERR = 1


class LineMerger:
    """Joins two streams so that neither breaks into a line of the other: a JSON line stays one line."""

    def __init__(self, most_held: int = 1024 * 1024) -> None:
        self._most_held = most_held
        self._held = bytearray()  # of the stream that waits for the other one's line to end; never of both
        self._unfinished: Stream | None = None

    def feed(self, stream: Stream, data: bytes) -> bytes:
        if not data:
            return b""
        if self._unfinished not in (None, stream):
            self._held += data
            return self._release(stream) if len(self._held) > self._most_held else b""
        if not self._held or b"\n" not in data:
            self._unfinished = None if data.endswith(b"\n") else stream
            return data
        lines_end = data.rindex(b"\n") + 1
        released = self._release(Stream(1 - stream))
        return data[:lines_end] + released + self.feed(stream, data[lines_end:])

    def finish(self) -> bytes:
        return bytes(self._held)

    def _release(self, stream: Stream) -> bytes:
        data = bytes(self._held)
        self._held.clear()
        self._unfinished = None if data.endswith(b"\n") else stream
        return data


class LineSplitter:
    """Hands on complete lines, without their line feed. The end of a line that is too long is dropped."""

    def __init__(self, sink: LineSink, longest: int) -> None:
        self._sink = sink
        self._longest = longest
        self._partial = bytearray()

    def feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._partial:
                self._append(line)
                line = bytes(self._partial)
                self._partial.clear()
            self._sink(line[: self._longest])
        self._append(rest)

    def finish(self) -> None:
        if self._partial:
            self._sink(bytes(self._partial))
            self._partial.clear()

    def _append(self, data: bytes) -> None:
        self._partial += data[: max(0, self._longest - len(self._partial))]
