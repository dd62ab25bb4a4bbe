"""OpenAI's responses: what Codex speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.gateway.metering.openai import tokens_of
from youbencha.gateway.metering.reader import Reader
from youbencha.gateway.metering.values import error_word, mapping, model_name, read_json, size_of
from youbencha.log.tokens import Tokens

_LAST = {"response.completed", "response.incomplete", "response.failed"}
_WITH_RESPONSE = {"response.created", *_LAST}
_LOOKED_INTO = {name.encode() for name in _WITH_RESPONSE} | {b"error", b""}
"""Besides the deltas. The rest says again, at length, what those said. One without a name has it in its data only."""


class ResponsesReader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self._tokens = Tokens()

    def event(self, name: bytes, data: bytes) -> None:
        if not (name.endswith(b".delta") or name in _LOOKED_INTO):
            return
        event = mapping(read_json(data))
        kind = event.get("type")
        if not isinstance(kind, str):
            return
        if kind.endswith(".delta"):
            self.output_bytes += size_of(event.get("delta"), at_most=len(data))
        elif kind in _WITH_RESPONSE:
            self._response(mapping(event.get("response")))
            self.ended = self.ended or kind in _LAST
        elif kind == "error":
            self.error = error_word(event.get("error") or event, "code", "type")

    def body(self, document: Any) -> None:
        self._response(mapping(document))
        self.ended = True

    def tokens(self) -> Tokens:
        return self._tokens

    def _response(self, response: Mapping[str, Any]) -> None:
        self.model = model_name(response.get("model")) or self.model
        if usage := mapping(response.get("usage")):
            self._tokens = tokens_of(usage, read="input_tokens", written="output_tokens")
        if error := response.get("error"):
            self.error = error_word(error, "code", "type")
