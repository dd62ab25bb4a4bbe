"""OpenAI's chat completions, and all the servers that speak like it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.gateway.metering.openai import tokens_of
from youbencha.gateway.metering.reader import Reader
from youbencha.gateway.metering.values import error_word, mapping, mappings, model_name, read_json, size_of
from youbencha.log.tokens import Tokens


class ChatReader(Reader):
    """Knows the tokens of a stream only if somebody asked for its `usage`."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens = Tokens()

    def event(self, name: bytes, data: bytes) -> None:
        if data == b"[DONE]":
            self.ended = True
            return
        chunk = mapping(read_json(data))
        self._about(chunk)
        for choice in mappings(chunk.get("choices")):
            if delta := choice.get("delta"):
                self.output_bytes += size_of(delta, at_most=len(data))

    def body(self, document: Any) -> None:
        self._about(mapping(document))
        self.ended = True

    def tokens(self) -> Tokens:
        return self._tokens

    def _about(self, answer: Mapping[str, Any]) -> None:
        if (model := answer.get("model")) != self.model:
            self.model = model_name(model) or self.model
        if usage := mapping(answer.get("usage")):
            # Some servers send totals so far with each chunk: the latest hold.
            self._tokens = tokens_of(usage, read="prompt_tokens", written="completion_tokens")
        if error := answer.get("error"):
            self.error = error_word(error, "code", "type")
