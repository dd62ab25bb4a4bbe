"""Gemini's API, which Gemini CLI uses. It has the model, and whether to stream, in the path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from youbencha.gateway.metering import UsageReader, error_word, model_name, subtract, token_count
from youbencha.gateway.refusals import Reason
from youbencha.gateway.wires.base import Action, DeltaField, ProviderFacts, Wire, objects, to_camel_case, words
from youbencha.json_lines import as_mapping, as_records, loads_lossy
from youbencha.usage import Tokens

GEMINI = ProviderFacts(
    "https://generativelanguage.googleapis.com",
    ("GOOGLE_GEMINI_BASE_URL",),
    (("GEMINI_API_KEY", "x-goog-api-key"), ("GOOGLE_API_KEY", "x-goog-api-key")),
    models_path="/v1beta/models",
    all_models="?pageSize=1000",
    models_field="models",
)

_GEMINI_COUNTS = {
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
}


class GeminiUsage(UsageReader):
    """Gemini. Each chunk has running totals, and the last one a `finishReason`."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}
        self._has_content = False

    def event(self, name: bytes, data: bytes) -> None:
        self._chunk(as_mapping(loads_lossy(data)))

    def body(self, document: Any) -> None:
        """Read an answer, or the list of chunks of a stream that was not requested as events."""
        for chunk in as_records(document if isinstance(document, list) else [document]):
            self._chunk(chunk)

    def tokens(self) -> Tokens:
        """This API omits zeros, and does not report what it writes to its cache."""
        known = self._counts.get
        prompt = known("promptTokenCount")
        if prompt is None:
            return Tokens()
        cached = known("cachedContentTokenCount", 0)
        fresh = subtract(prompt, cached)
        return Tokens(
            input=None if fresh is None else fresh + known("toolUsePromptTokenCount", 0),
            output=self._output(),
            cache_read=cached,
        )

    def _output(self) -> int | None:
        """The first chunks count only the prompt: this API omits both zeros and unknown counts."""
        counts = [self._counts[name] for name in ("candidatesTokenCount", "thoughtsTokenCount") if name in self._counts]
        return sum(counts) if counts or (self.ended and not self._has_content) else None

    def _chunk(self, chunk: Mapping[str, Any]) -> None:
        if (model := chunk.get("modelVersion")) != self.model:
            self.model = model_name(model) or self.model
        usage = as_mapping(chunk.get("usageMetadata"))
        for name, value in usage.items():
            if name in _GEMINI_COUNTS and (number := token_count(value)) is not None:
                self._counts[name] = number
        for way, name in (("input", "promptTokensDetails"), ("output", "candidatesTokensDetails")):
            for detail in as_records(usage.get(name)):
                if detail.get("modality") in ("AUDIO", "IMAGE", "VIDEO"):
                    self.note_extra(f"{way}_{detail['modality'].lower()}", token_count(detail.get("tokenCount")))
        if candidates := as_records(chunk.get("candidates")):
            queries = [as_mapping(item.get("groundingMetadata")).get("webSearchQueries") for item in candidates]
            searches = sum(len(texts) for texts in queries if isinstance(texts, list))
            # Before Gemini 3, any number of searches in a request has one fee.
            self.note_extra("web_searches", min(searches, 1) if (self.model or "").startswith("gemini-2") else searches)
            self.ended = all(candidate.get("finishReason") for candidate in candidates)
            self.stopped = self.stopped or self.ended
            contents = [content for candidate in candidates if (content := as_mapping(candidate.get("content")))]
            self._has_content = self._has_content or bool(contents)
            parts = (part for content in contents for part in as_records(content.get("parts")))
            self.calls_tool = self.calls_tool or any("functionCall" in part for part in parts)
        elif as_mapping(chunk.get("promptFeedback")).get("blockReason"):
            self.ended = True
        if error := chunk.get("error"):
            self.error = error_word(error, "status", "type")


_MODEL = r"/v1(?:alpha|beta)?/models/[^/:]+"
_CALL = re.compile(r"/models/([^/:]+):(\w+)")
_STATUSES = {401: "UNAUTHENTICATED", 402: "FAILED_PRECONDITION", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}


class Gemini(Wire):
    """Google accepts fields in camel case and in snake case."""

    name = "gemini"
    provider = "gemini"
    routes = (
        ("POST", rf"{_MODEL}:(?:g|streamG)enerateContent", Action.GENERATE),
        ("POST", rf"{_MODEL}:countTokens", Action.COUNT),
        ("GET", r"/v1(?:alpha|beta)?/models(?:/[^/:]+)?", Action.MODELS),
    )
    conversation = "contents"
    fields = words("""
        contents tools toolConfig safetySettings systemInstruction generationConfig labels serviceTier store""")
    output_limits = ("maxOutputTokens", "max_output_tokens")
    answer_counts = ("candidateCount", "candidate_count")
    limits_inside = ("generationConfig", "generation_config")
    image_tokens = 10_000  # 258 for detail tile of 256 pixels or more, at most 3072 pixels long
    usage_reader = GeminiUsage

    def is_from(self, headers: Mapping[str, str]) -> bool:
        return "x-goog-api-key" in headers

    def model_and_stream(self, path: str, body: Mapping[str, Any]) -> tuple[object, bool]:
        model, action = match.groups() if (match := _CALL.search(path)) else (None, "")
        return model, action == "streamGenerateContent"

    def with_known_names(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {to_camel_case(name): value for name, value in fields.items()}

    def tool_names(self, tool: Mapping[str, Any]) -> Iterable[str]:
        return map(to_camel_case, tool)

    def delta_fields(self, event: dict[str, Any]) -> Iterator[DeltaField]:
        for candidate in objects(event.get("candidates")):
            for part in objects(as_mapping(candidate.get("content")).get("parts")):
                if isinstance(part.get("text"), str):
                    text = ("candidate", candidate.get("index"), part.get("thought"))
                    yield DeltaField(text, part, "text", is_json=False)

    def error(self, status: int, reason: Reason, message: str) -> dict[str, Any]:
        word = "UNAVAILABLE" if status >= 500 else _STATUSES.get(status, "INVALID_ARGUMENT")
        return {"error": {"code": status, "message": message, "status": word}}
