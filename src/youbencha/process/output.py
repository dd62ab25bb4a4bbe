"""The output of a program: split into lines as it is printed; merged, bounded, redacted and logged to be shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import BinaryIO, NamedTuple

from youbencha.process.redact import Redactor

LineSink = Callable[[bytes], None]
TRUNCATION_MARK = "[OUTPUT TRUNCATED"
_END_BYTES = 256 * 1024


class Stream(IntEnum):
    OUT = 0
    ERR = 1


class LineMerger:
    """Merges two streams at line ends, so that a JSON line stays one line."""

    def __init__(self, most_held: int = 1024 * 1024) -> None:
        self._most_held = most_held
        self._held = bytearray()  # data of the stream that waits for the end of the other one's line
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
    """Passes on complete lines, without their line feed. The end of a line that is too long is dropped."""

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

    @property
    def unfinished(self) -> bool:
        return bool(self._partial)

    def finish(self) -> None:
        if self._partial:
            self._sink(bytes(self._partial))
            self._partial.clear()

    def _append(self, data: bytes) -> None:
        self._partial += data[: max(0, self._longest - len(self._partial))]


def truncation_marker(limit: int) -> bytes:
    return f"\n{TRUNCATION_MARK}: the limit of {limit // (1024 * 1024)}MB ({limit} bytes) was reached]\n".encode()


def whole_characters(data: bytes) -> int:
    """How many bytes form complete UTF-8 characters; the rest begins another."""
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
    """At most 256 KiB, with its secrets masked."""
    left_out_bytes: int
    """How much is missing before it."""


class OutputTail:
    """The end of an output, kept for the case that it becomes longer than its limit."""

    def __init__(self) -> None:
        self._total = 0
        self._chunks: deque[tuple[Stream, bytearray]] = deque()
        self._size = 0

    def feed(self, stream: Stream, data: bytes) -> None:
        self._total += len(data)
        self._size += len(data)
        if self._chunks and self._chunks[-1][0] is stream and len(self._chunks[-1][1]) < _END_BYTES:
            self._chunks[-1][1].extend(data)
        else:
            self._chunks.append((stream, bytearray(data)))
        while self._size - len(self._chunks[0][1]) >= 2 * _END_BYTES:
            self._size -= len(self._chunks.popleft()[1])

    def take(self, limit: int, redactor: Redactor) -> OutputEnd:
        """Return the end of what came after the first `limit` bytes.

        What is before it is masked, too, and then dropped: the second half of a secret would not be recognised.
        """
        beyond = self._total - limit
        if beyond <= 0:  # only masking made the output too long
            beyond = _END_BYTES
        skipped = self._size - min(beyond, _END_BYTES)
        redacted, merger, text = (redactor.stream(), redactor.stream()), LineMerger(), bytearray()
        for stream, data in self._chunks:
            merger.feed(stream, redacted[stream].feed(bytes(data[:skipped])))
            text += merger.feed(stream, redacted[stream].feed(bytes(data[skipped:])))
            skipped = max(0, skipped - len(data))
        for stream in Stream:
            text += merger.feed(stream, redacted[stream].finish())
        text += merger.finish()
        return OutputEnd(text.decode("utf-8", "replace"), max(0, beyond - _END_BYTES))


class BoundedText:
    """The first `limit` bytes of a stream, then a marker. Never cuts a character in two."""

    def __init__(self, limit: int, log: BinaryIO | None) -> None:
        self._limit = limit
        self._log = log
        self.kept = bytearray()
        self._half_character = b""
        self.truncated = False
        self.log_error: str | None = None

    def feed(self, data: bytes) -> None:
        if self.truncated or not data:
            return
        data = self._half_character + data
        whole = whole_characters(data)
        self._half_character = data[whole:]
        self._keep(data[:whole])

    def finish(self) -> None:
        if not self.truncated:
            self._keep(self._half_character)

    def take(self) -> str:
        """Return the text, once: it may be large, so that no second copy is kept."""
        kept, self.kept = self.kept, bytearray()
        return kept.decode("utf-8", "replace")

    def _keep(self, data: bytes) -> None:
        room = self._limit - len(self.kept)
        if len(data) > room:
            data = data[: whole_characters(data[:room])] + truncation_marker(self._limit)
            self.truncated = True
        self.kept += data
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._log is None:
            return
        rest = memoryview(data)
        try:
            while rest:  # an unbuffered file may write only a part, for example if the disk is almost full
                rest = rest[self._log.write(rest) :]
        except OSError as error:  # a full disk must not cost the run its result
            self.log_error = str(error)
            self._log = None


class Capture:
    """Processes a program's output, from bytes to lines, log file and text."""

    def __init__(
        self,
        *,
        redactor: Redactor,
        limit: int,
        longest_line: int,
        log: BinaryIO | None = None,
        on_line: LineSink | None = None,
    ) -> None:
        self._redactor = redactor
        self._limit = limit
        self._redacted = (redactor.stream(), redactor.stream())
        self._merger = LineMerger()
        self._text = BoundedText(limit, log)
        self._printed = BoundedText(limit, None)
        self._printed_merger = LineMerger()
        self._tail = OutputTail()
        self._lines = LineSplitter(on_line, longest_line) if on_line else None
        self.total_bytes = 0
        self.unfinished_line = False

    def feed(self, stream: Stream, data: bytes) -> None:
        self.total_bytes += len(data)
        if self._lines and stream is Stream.OUT:
            self._lines.feed(data)
        self._tail.feed(stream, data)
        if not self._printed.truncated:
            self._printed.feed(self._printed_merger.feed(stream, data))
        if not self._text.truncated:
            self._text.feed(self._merger.feed(stream, self._redacted[stream].feed(data)))

    def finish(self) -> None:
        for stream in Stream:
            self._text.feed(self._merger.feed(stream, self._redacted[stream].finish()))
        for text, merger in ((self._text, self._merger), (self._printed, self._printed_merger)):
            text.feed(merger.finish())
            text.finish()
        if self._lines:
            self.unfinished_line = self._lines.unfinished
            self._lines.finish()

    @property
    def truncated(self) -> bool:
        return self._text.truncated

    @property
    def log_error(self) -> str | None:
        return self._text.log_error

    @property
    def end(self) -> OutputEnd | None:
        """The end of the output, if it was truncated."""
        return self._tail.take(self._limit, self._redactor) if self.truncated else None

    def take(self) -> tuple[str, str]:
        """Return, once, the text to be shown and that to be parsed. They are one object if nothing was masked."""
        if self._text.kept == self._printed.kept:
            self._printed.kept.clear()  # before the other is decoded: both may be large
            text = self._text.take()
            return text, text
        return self._text.take(), self._printed.take()
