"""The Messages API. Its `input_tokens` are without the cached ones, as ours are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.gateway.metering.reader import Reader
from youbencha.gateway.metering.values import count, error_word, mapping, model_name, read_json
from youbencha.log.tokens import Tokens

_WRITTEN = {b"content_block_delta", b"content_block_start"}
_WITH_NEWS = {b"message_start", b"message_delta", b"message_stop", b"error", b""}
"""All other events are not looked into. One without a name has its type in its data only."""
_AROUND_TEXT = len('{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}')
"""An answer is mostly these events: without what is the same in each, their size is a bound at no cost."""


class MessagesReader(Reader):
    skim = b"event: content_block_delta\ndata: "
    around_text = _AROUND_TEXT

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}
        self._final = False

    def event(self, name: bytes, data: bytes) -> None:
        if name in _WRITTEN:
            self.output_bytes += max(0, len(data) - _AROUND_TEXT)
        elif name in _WITH_NEWS:
            self._news(mapping(read_json(data)), data)

    def body(self, document: Any) -> None:
        message = mapping(document)
        if message.get("type") == "error":
            self.error = error_word(message.get("error"), "type")
            return
        self._message(message)
        self.ended = True

    def tokens(self) -> Tokens:
        known = self._counts.get
        return Tokens(
            input=known("input_tokens"),
            output=known("output_tokens"),
            cache_read=known("cache_read_input_tokens"),
            cache_creation=known("cache_creation_input_tokens"),
        )

    def cache_creation_1h(self) -> int:
        return min(self._counts.get("1h", 0), self._counts.get("cache_creation_input_tokens", 0))

    def _news(self, event: Mapping[str, Any], data: bytes) -> None:
        match event.get("type"):
            case "message_start":
                self._message(mapping(event.get("message")))
            case "message_delta":
                self._usage(event)
                self._final = self._final or count(mapping(event.get("usage")).get("output_tokens")) is not None
            case "message_stop":  # without a message_delta, all that is known of the output is its beginning
                self.ended = self._final
            case "error":
                self.error = error_word(event.get("error"), "type")
            case "content_block_delta" | "content_block_start":
                self.output_bytes += max(0, len(data) - _AROUND_TEXT)

    def _message(self, message: Mapping[str, Any]) -> None:
        self.model = model_name(message.get("model")) or self.model
        self._usage(message)

    def _usage(self, holder: Mapping[str, Any]) -> None:
        """All counts are totals so far: the latest of each holds."""
        usage = mapping(holder.get("usage"))
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            self._keep(name, usage.get(name))
        self._keep("1h", mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))

    def _keep(self, name: str, value: Any) -> None:
        if (number := count(value)) is not None:
            self._counts[name] = number
