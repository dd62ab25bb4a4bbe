"""Meters for the answers of four APIs: as a stream of events or in one piece, compressed or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from youbencha.gateway.api import WireName
from youbencha.gateway.encoding import Decoder, encoding_of
from youbencha.gateway.metering.readers import (
    AnthropicUsage,
    ChatUsage,
    GeminiUsage,
    Metered,
    ResponsesUsage,
    UsageReader,
)
from youbencha.gateway.sse import SseParser
from youbencha.json_lines import loads_lossy

MAX_BODY_BYTES = 64 * 1024 * 1024


class Meter(Protocol):
    """Reads an answer as it passes. Neither method ever raises, whatever comes."""

    def feed(self, chunk: bytes) -> None: ...

    def result(self) -> Metered:
        """Return what is known by now. May be called at any time, and again."""


_READERS: Mapping[WireName, Callable[[], UsageReader]] = {
    "anthropic-messages": AnthropicUsage,
    "openai-chat": ChatUsage,
    "openai-responses": ResponsesUsage,
    "gemini": GeminiUsage,
}


def meter_for(wire: WireName, *, content_type: str, content_encoding: str = "") -> Meter:
    """Return the meter for an answer with these headers."""
    new_reader = _READERS[wire]
    is_stream = content_type.strip().lower().startswith("text/event-stream")
    meter: Meter = StreamMeter(new_reader()) if is_stream else BodyMeter(new_reader)
    match encoding_of(content_encoding):
        case None:
            return UnreadableMeter()
        case "identity":
            return meter
        case encoding:
            return DecodingMeter(meter, Decoder(encoding))


class StreamMeter:
    """Meters a stream of events."""

    def __init__(self, reader: UsageReader) -> None:
        self._reader = reader
        self._parser = SseParser(skim=reader.skim)

    def feed(self, chunk: bytes) -> None:
        read = self._reader.event
        for name, data in self._parser.feed(chunk):
            read(name, data)

    def result(self) -> Metered:
        return self._reader.metered()


class BodyMeter:
    """Meters an answer in one piece. It is kept until it is asked about: half of a JSON document says nothing."""

    def __init__(self, new_reader: Callable[[], UsageReader], max_bytes: int = MAX_BODY_BYTES) -> None:
        self._new_reader = new_reader
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._size = 0
        self._result: Metered | None = None

    def feed(self, chunk: bytes) -> None:
        self._result = None
        self._size += len(chunk)
        if self._size > self._max_bytes:
            self._body.clear()
        else:
            self._body += chunk

    def result(self) -> Metered:
        if self._result is None:
            reader = self._new_reader()
            if self._body and (document := loads_lossy(self._body)) is not None:
                reader.body(document)
            self._result = reader.metered()
        return self._result


class DecodingMeter:
    """Meters an answer that is compressed on the wire."""

    def __init__(self, meter: Meter, decoder: Decoder) -> None:
        self._meter = meter
        self._decoder = decoder

    def feed(self, chunk: bytes) -> None:
        for piece in self._decoder.feed(chunk):
            self._meter.feed(piece)

    def result(self) -> Metered:
        return self._meter.result()


class UnreadableMeter:
    """For an answer in an encoding that cannot be decoded: nothing is known of it."""

    def feed(self, chunk: bytes) -> None:
        pass

    def result(self) -> Metered:
        return Metered()
