"""Counting tokens from what is on the wire. Pure: reads along, changes nothing, and never raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from youbencha.gateway.api import WireName
from youbencha.gateway.encoding import Decoder
from youbencha.gateway.metering.meter import BlindMeter, BodyMeter, DecodedMeter, Meter, StreamMeter
from youbencha.gateway.metering.readers import ChatUsage, GeminiUsage, MessagesReader, Reader, ResponsesUsage

_READERS: Mapping[WireName, Callable[[], Reader]] = {
    "anthropic-messages": MessagesReader,
    "openai-chat": ChatUsage,
    "openai-responses": ResponsesUsage,
    "gemini": GeminiUsage,
}


def meter_for(wire: WireName, *, content_type: str, content_encoding: str = "") -> Meter:
    """`content_type` and `content_encoding` as the answer's headers give them."""
    new_reader = _READERS[wire]
    is_stream = content_type.strip().lower().startswith("text/event-stream")
    meter: Meter = StreamMeter(new_reader()) if is_stream else BodyMeter(new_reader)
    match [name for part in content_encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]:
        case []:
            return meter
        case ["gzip" | "x-gzip"]:
            return DecodedMeter(meter, Decoder(gzip=True))
        case ["deflate"]:
            return DecodedMeter(meter, Decoder(gzip=False))
    return BlindMeter()
