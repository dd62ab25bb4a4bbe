"""The two kinds of meters: for a stream of events, and for an answer in one piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from youbencha.gateway.encoding import Decoder
from youbencha.gateway.json_fields import read_json
from youbencha.gateway.metering.readers import Metered, Reader
from youbencha.gateway.sse import EventSplitter

MOST_BODY_BYTES = 64 * 1024 * 1024


class Meter(Protocol):
    """Reads along. Neither of its methods ever raises, whatever comes."""

    def feed(self, chunk: bytes) -> None: ...

    def result(self) -> Metered:
        """What is known by now. May be asked at any time, and again."""


class StreamMeter:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._events = EventSplitter(skim=reader.skim)

    def feed(self, chunk: bytes) -> None:
        hear = self._reader.event
        for name, data in self._events.feed(chunk):
            hear(name, data)

    def result(self) -> Metered:
        events, reader = self._events, self._reader
        skimmed = max(0, events.skimmed_bytes - events.skimmed_events * reader.around_text)
        return reader.metered(unread_bytes=skimmed + events.pending_bytes + events.skipped_bytes)


class BodyMeter:
    """Keeps the answer until somebody asks: half of a JSON document says nothing."""

    def __init__(self, new_reader: Callable[[], Reader], most_bytes: int = MOST_BODY_BYTES) -> None:
        self._new_reader = new_reader
        self._most = most_bytes
        self._body = bytearray()
        self._size = 0
        self._result: Metered | None = None

    def feed(self, chunk: bytes) -> None:
        self._result = None
        self._size += len(chunk)
        if self._size > self._most:
            self._body.clear()
        else:
            self._body += chunk

    def result(self) -> Metered:
        if self._result is None:
            reader = self._new_reader()
            if self._body and (document := read_json(self._body)) is not None:
                reader.body(document)
            self._result = reader.metered(unread_bytes=self._size)
        return self._result


class DecodedMeter:
    """For an answer that is compressed on its way."""

    def __init__(self, meter: Meter, decoder: Decoder) -> None:
        self._meter = meter
        self._decoder = decoder

    def feed(self, chunk: bytes) -> None:
        for piece in self._decoder.feed(chunk):
            self._meter.feed(piece)

    def result(self) -> Metered:
        return self._meter.result()


class BlindMeter:
    """For an answer that nobody here can read."""

    def feed(self, chunk: bytes) -> None:
        pass

    def result(self) -> Metered:
        return Metered()
