"""Read tokens from the answers of four APIs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from youbencha.gateway.json_fields import (
    count,
    error_word,
    first_count,
    mapping,
    mappings,
    model_name,
    read_json,
    size_of,
)
from youbencha.usage import Tokens


class Metered(NamedTuple):
    tokens: Tokens = Tokens()
    """`input` without the cached ones, whichever way the API counts. None: the wire did not say."""
    model: str | None = None
    """As the answer names it."""
    complete: bool = False
    """The answer came to its end, with its final counts. If not, `tokens` are a lower bound."""
    cache_creation_1h: int = 0
    """Those of `cache_creation` that are kept for an hour, and cost more."""
    output_bytes: int = 0
    """Of text, thoughts and tools' arguments in the answer: no token is less than a byte, so a bound for `output`."""
    error: str | None = None
    """The type of an error that came in the middle of the answer."""


# What one answer has said of itself so far: the part of a meter that differs from API to API.


class Reader(ABC):
    """Takes whatever comes, and never raises: a number that cannot be read is unknown."""

    skim: ClassVar[bytes] = b""
    """How those events of a stream begin of which only the size matters."""
    around_text: ClassVar[int] = 0
    """What in each of those is no text, in bytes."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.error: str | None = None
        self.output_bytes = 0
        self.ended = False
        """The answer said that this was all."""

    @abstractmethod
    def event(self, name: bytes, data: bytes) -> None:
        """The next event of a stream."""

    @abstractmethod
    def body(self, document: Any) -> None:
        """An answer in one piece, read_json."""

    @abstractmethod
    def tokens(self) -> Tokens: ...

    def cache_creation_1h(self) -> int:
        return 0

    def metered(self, *, unread_bytes: int = 0) -> Metered:
        """`unread_bytes` came, and were not looked into: all of them may be output."""
        tokens = self.tokens()
        return Metered(
            tokens=tokens,
            model=self.model,
            complete=self.ended and None not in (tokens.input, tokens.output),
            cache_creation_1h=self.cache_creation_1h(),
            output_bytes=self.output_bytes + unread_bytes,
            error=self.error,
        )


# The Messages API. Its `input_tokens` are without the cached ones, as ours are.

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


# How OpenAI's two APIs count: the same, under other names. Pure.


def tokens_of(usage: Mapping[str, Any], *, read: str, written: str) -> Tokens:
    """`read` and `written` name the two counts. The cached tokens are a part of those read, here."""
    details = mapping(usage.get(f"{read}_details"))
    cached = first_count(details, "cached_tokens")
    kept = first_count(details, "cache_write_tokens", "cache_creation_tokens")
    return Tokens(
        input=without(count(usage.get(read)), cached, kept),
        output=count(usage.get(written)),
        cache_read=cached,
        cache_creation=kept,
    )


def without(whole: int | None, *parts: int | None) -> int | None:
    """A part larger than what is left cannot have been in it: some servers count the cached ones apart."""
    if whole is None:
        return None
    for part in parts:
        if part is not None and part <= whole:
            whole -= part
    return whole


# OpenAI's chat completions, and all the servers that speak like it.


class ChatUsage(Reader):
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


# OpenAI's responses: what Codex speaks.

_LAST = {"response.completed", "response.incomplete", "response.failed"}

_WITH_RESPONSE = {"response.created", *_LAST}

_LOOKED_INTO = {name.encode() for name in _WITH_RESPONSE} | {b"error", b""}
"""Besides the deltas. The rest says again, at length, what those said. One without a name has it in its data only."""


class ResponsesUsage(Reader):
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


# The Gemini API. Each chunk counts all so far; none is marked as the last but by its `finishReason`.

_COUNTS = {
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
}


class GeminiUsage(Reader):
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
