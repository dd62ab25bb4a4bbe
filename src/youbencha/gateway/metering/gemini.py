"""The Gemini API. Each chunk counts all so far; none is marked as the last but by its `finishReason`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.gateway.metering.openai import without
from youbencha.gateway.metering.reader import Reader
from youbencha.gateway.metering.values import count, error_word, mapping, mappings, model_name, read_json, size_of
from youbencha.log.tokens import Tokens

_COUNTS = {
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
}


class GeminiReader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}
        self._wrote = False

    def event(self, name: bytes, data: bytes) -> None:
        self._chunk(mapping(read_json(data)), len(data))

    def body(self, document: Any) -> None:
        """A stream that was not asked for as events is one list of chunks."""
        for chunk in mappings(document if isinstance(document, list) else [document]):
            self._chunk(chunk, 0)

    def tokens(self) -> Tokens:
        """This API leaves out what is zero, and does not say what it puts into its cache."""
        known = self._counts.get
        prompt = known("promptTokenCount")
        if prompt is None:
            return Tokens()
        cached = known("cachedContentTokenCount", 0)
        fresh = without(prompt, cached)
        return Tokens(
            input=None if fresh is None else fresh + known("toolUsePromptTokenCount", 0),
            output=self._output(),
            cache_read=cached,
        )

    def _output(self) -> int | None:
        """The early chunks count only the prompt: zero is left out, but so is what is not known yet."""
        said = [self._counts[name] for name in ("candidatesTokenCount", "thoughtsTokenCount") if name in self._counts]
        return sum(said) if said or (self.ended and not self._wrote) else None

    def _written(self, contents: list[Any], size: int) -> None:
        self._wrote = self._wrote or bool(contents)
        if size:  # in one piece, all of it counts anyway
            self.output_bytes += sum(size_of(content, at_most=size) for content in contents)

    def _chunk(self, chunk: Mapping[str, Any], size: int) -> None:
        if (model := chunk.get("modelVersion")) != self.model:
            self.model = model_name(model) or self.model
        usage = mapping(chunk.get("usageMetadata"))
        for name, value in usage.items():
            if name in _COUNTS and (number := count(value)) is not None:
                self._counts[name] = number
        if candidates := mappings(chunk.get("candidates")):
            self.ended = all(candidate.get("finishReason") for candidate in candidates)
            self._written([content for candidate in candidates if (content := candidate.get("content"))], size)
        elif mapping(chunk.get("promptFeedback")).get("blockReason"):
            self.ended = True
        if error := chunk.get("error"):
            self.error = error_word(error, "status", "type")
