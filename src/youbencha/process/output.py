"""The output of a program: split into lines as it is printed; merged, bounded, masked and logged to be shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import BinaryIO, NamedTuple

from youbencha.process.redact import Redactor

LineSink = Callable[[bytes], None]
TRUNCATION_MARK = "[OUTPUT TRUNCATED"
_END_BYTES = 256 * 1024
_BEYOND_BYTES = 256 * 1024
"""The size that is kept beyond the limit: a secret across it could otherwise not be recognised."""


class Stream(IntEnum):
    OUT = 0
    ERR = 1


class LineMerger:
    """Merges two streams at line ends, so that a JSON line stays one line."""

    def __init__(self, max_held: int = 1024 * 1024) -> None:
        self._max_held = max_held
        self._held = bytearray()
        """Data of the stream that waits for the end of the other one's line."""
        self._unfinished: Stream | None = None

    def feed(self, stream: Stream, data: bytes) -> bytes:
        if not data:
            return b""
        if self._unfinished not in (None, stream):
            self._held += data
            return self._release(stream) if len(self._held) > self._max_held else b""
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
    """Passes on complete lines, without their line feed. The end of a line that is too long is dropped."""

    def __init__(self, sink: LineSink, max_bytes: int) -> None:
        self._sink = sink
        self._max_bytes = max_bytes
        self._partial = bytearray()

    def feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._partial:
                self._append(line)
                line = bytes(self._partial)
                self._partial.clear()
            self._sink(line[: self._max_bytes])
        self._append(rest)

    @property
    def unfinished(self) -> bool:
        return bool(self._partial)

    def finish(self) -> None:
        if self._partial:
            self._sink(bytes(self._partial))
            self._partial.clear()

    def _append(self, data: bytes) -> None:
        self._partial += data[: max(0, self._max_bytes - len(self._partial))]


def cut(data: bytes, limit: int) -> bytes:
    """Return the first `limit` bytes and a marker. Never cuts a character in two."""
    return data[: whole_characters(data[:limit])] + truncation_marker(limit)


def truncation_marker(limit: int) -> bytes:
    return f"\n{TRUNCATION_MARK}: the limit of {limit // (1024 * 1024)}MB ({limit} bytes) was reached]\n".encode()


def whole_characters(data: bytes) -> int:
    """Return how many bytes form complete UTF-8 characters; the rest begins another."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # the first byte of a character of 2, 3 or 4
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if length > back else len(data)
        if byte < 0x80:
            break
    return len(data)


class OutputEnd(NamedTuple):
    """The end of an output of which otherwise only the beginning was kept."""

    text: str
    """The last output, at most 256 KiB, with its secrets masked."""
    left_out_bytes: int
    """The size of what is missing before it."""


class OutputTail:
    """The end of an output, kept in case it becomes longer than its limit."""

    def __init__(self) -> None:
        self._total = 0
        self._chunks: deque[bytearray] = deque()
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        self._size += len(data)
        if self._chunks and len(self._chunks[-1]) < _END_BYTES:
            self._chunks[-1].extend(data)
        else:
            self._chunks.append(bytearray(data))
        while self._size - len(self._chunks[0]) >= 2 * _END_BYTES:
            self._size -= len(self._chunks.popleft())

    def take(self, limit: int, redactor: Redactor) -> OutputEnd:
        """Return the end of what came after the first `limit` bytes.

        What is before it is masked as well, and then dropped: the second half of a secret would not be recognised.
        """
        beyond = self._total - limit
        if beyond <= 0:  # only masking made the output too long
            beyond = _END_BYTES
        data = b"".join(self._chunks)
        start = len(data) - min(beyond, _END_BYTES)
        masked = redactor.stream()
        masked.feed(data[:start])
        text = masked.feed(data[start:]) + masked.finish()
        return OutputEnd(text.decode("utf-8", "replace"), max(0, beyond - _END_BYTES))


class BoundedLog:
    """A log file that gets the first `limit` bytes of the masked output, then a marker."""

    def __init__(self, file: BinaryIO, limit: int, redactor: Redactor) -> None:
        self._file: BinaryIO | None = file
        self._limit = limit
        self._redacted = redactor.stream()
        self._written = 0
        self._half_character = b""
        self.error: str | None = None

    def feed(self, data: bytes) -> None:
        if self._file is not None:
            self._add(self._redacted.feed(data))

    def finish(self) -> None:
        if self._file is not None:
            self._add(self._redacted.finish())
            self._write(self._half_character)

    def _add(self, data: bytes) -> None:
        data = self._half_character + data
        room = self._limit - self._written
        if len(data) > room:
            self._write(data[: whole_characters(data[:room])] + truncation_marker(self._limit))
            self._file, self._half_character = None, b""
            return
        whole = whole_characters(data)
        self._half_character = data[whole:]
        self._written += whole
        self._write(data[:whole])

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        rest = memoryview(data)
        try:
            while rest:  # an unbuffered file may write only a part, for example if the disk is almost full
                rest = rest[self._file.write(rest) :]
        except OSError as error:  # a full disk must not cost the run its result
            self.error = str(error)
            self._file = None


class Captured(NamedTuple):
    """The text of an output."""

    output: str
    """To be written and shown: secrets are masked."""
    printed: str
    """Unmasked, to be parsed. The same object as `output` if there is no secret in it."""
    end: OutputEnd | None
    """None if the output was not truncated."""


class Capture:
    """Processes a program's output, from bytes to lines, log file and text."""

    def __init__(
        self,
        redactor: Redactor,
        limit: int,
        max_line_bytes: int,
        log: BinaryIO | None = None,
        on_line: LineSink | None = None,
    ) -> None:
        self._redactor = redactor
        self._limit = limit
        self._merger = LineMerger()
        self._kept = bytearray()
        self._tail = OutputTail()
        self._log = BoundedLog(log, limit, redactor) if log else None
        self._lines = LineSplitter(on_line, max_line_bytes) if on_line else None
        self.total_bytes = 0
        self.unfinished_line = False

    def feed(self, stream: Stream, data: bytes) -> None:
        self.total_bytes += len(data)
        if self._lines and stream is Stream.OUT:
            self._lines.feed(data)
        self._add(self._merger.feed(stream, data))

    def finish(self) -> None:
        self._add(self._merger.finish())
        if self._log:
            self._log.finish()
        if self._lines:
            self.unfinished_line = self._lines.unfinished
            self._lines.finish()

    @property
    def truncated(self) -> bool:
        return self.total_bytes > self._limit

    @property
    def log_error(self) -> str | None:
        return self._log.error if self._log else None

    def take(self) -> Captured:
        """Return the text, once: it may be large, so no second copy is kept."""
        kept, self._kept = bytes(self._kept), bytearray()
        printed = (cut(kept, self._limit) if self.truncated else kept).decode("utf-8", "replace")
        if not self._redactor.finds_secret(kept):
            return Captured(printed, printed, self._end() if self.truncated else None)
        stream = self._redactor.stream()
        masked = stream.feed(kept) + stream.finish()
        is_cut = self.truncated or len(masked) > self._limit
        output = (cut(masked, self._limit) if is_cut else masked).decode("utf-8", "replace")
        return Captured(output, printed, self._end() if is_cut else None)

    def _end(self) -> OutputEnd:
        return self._tail.take(self._limit, self._redactor)

    def _add(self, data: bytes) -> None:
        if not data:
            return
        if self._log:
            self._log.feed(data)
        self._kept += data[: max(0, self._limit + _BEYOND_BYTES - len(self._kept))]
        self._tail.feed(data)
