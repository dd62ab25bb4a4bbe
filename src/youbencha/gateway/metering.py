"""Count the tokens of answers of four APIs, as a stream or in one piece. No I/O.

A meter changes nothing, and never raises.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from youbencha.gateway.api import WireName
from youbencha.gateway.sse import SseParser
from youbencha.json_lines import as_count, as_mapping, as_records, loads_lossy
from youbencha.usage import Tokens

MAX_BODY_BYTES = 64 * 1024 * 1024

_MAX_TOKENS = 10**12
"""A larger number is not a count of tokens."""

_LONGEST_NAME = 256
_WORD = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)


class Metered(NamedTuple):
    """The model and usage that an answer reports."""

    tokens: Tokens = Tokens()
    """`input` excludes cached tokens, however the API counts. None if the answer does not have the number."""
    model: str | None = None
    """As the answer names it."""
    complete: bool = False
    """The answer is complete, with its final counts. If not, `tokens` are a lower bound."""
    ended: bool = False
    """The answer has its last event, or is a whole document, with or without counts."""
    finished: bool = False
    """The answer says that it is finished, even if its last event is missing."""
    cache_creation_1h: int = 0
    """The part of `cache_creation` that is kept for an hour, and costs more."""
    error: str | None = None
    """The type of an error in the middle of the answer."""
    extras: Mapping[str, int] = MappingProxyType({})
    """As in `prices.Extras`. The tokens are in `tokens` too."""
    calls_tool: bool = False
    """The answer asks the agent to run a tool, so the agent has not finished."""


def meter_for(wire: WireName, content_type: str) -> Meter:
    """Return the meter for an answer of this type, which must not be compressed."""
    new_reader = _READERS[wire]
    is_stream = content_type.strip().lower().startswith("text/event-stream")
    return StreamMeter(new_reader()) if is_stream else BodyMeter(new_reader)


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
    """Meters an answer in one piece, which is kept, because only a complete JSON document can be parsed."""

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

    @property
    def body(self) -> bytes:
        return bytes(self._body)

    def result(self) -> Metered:
        if self._size > self._max_bytes:
            return Metered(ended=True)
        if self._result is None:
            reader = self._new_reader()
            if self._body and (document := loads_lossy(self._body)) is not None:
                reader.body(document)
            self._result = reader.metered()
        return self._result


Meter = StreamMeter | BodyMeter
"""Reads an answer while it is relayed. `result` may be called at any time, and repeatedly."""


class UsageReader(ABC):
    """The part of a meter that depends on the API. It never raises: an invalid number is unknown."""

    skim: ClassVar[bytes] = b""
    """The start of frequent events of a stream that have no usage."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.error: str | None = None
        self.ended = False
        """The answer has its final event, and with it its final counts."""
        self.stopped = False
        """The answer has its final event, with or without counts."""
        self.finished = False
        self.calls_tool = False
        self.extras: dict[str, int] = {}

    @abstractmethod
    def event(self, name: bytes, data: bytes) -> None:
        """Read the next event of a stream."""

    @abstractmethod
    def body(self, document: Any) -> None:
        """Read an answer in one piece, parsed."""

    @abstractmethod
    def tokens(self) -> Tokens: ...

    def cache_creation_1h(self) -> int:
        return 0

    def metered(self) -> Metered:
        tokens = self.tokens()
        return Metered(
            tokens=tokens,
            model=self.model,
            complete=self.ended and None not in (tokens.input, tokens.output),
            ended=self.ended or self.stopped,
            finished=self.finished or self.ended or self.stopped,
            cache_creation_1h=self.cache_creation_1h(),
            error=self.error,
            extras=self.extras,
            calls_tool=self.calls_tool,
        )

    def _extra(self, name: str, number: int | None) -> None:
        """Note a running total. What is 0 is left out."""
        if number:
            self.extras[name] = max(number, self.extras.get(name, 0))


_MESSAGE_EVENTS = {b"message_start", b"message_delta", b"message_stop", b"error", b""}
"""Other events have no usage. An event without a name has its type only in its data."""


class AnthropicUsage(UsageReader):
    """Anthropic's messages. `input_tokens` exclude cached tokens, as ours do."""

    skim = b"event: content_block_delta\ndata: "

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}
        self._final = False

    def event(self, name: bytes, data: bytes) -> None:
        if name not in _MESSAGE_EVENTS:
            return
        event = as_mapping(loads_lossy(data))
        match event.get("type"):
            case "message_start":
                self._message(as_mapping(event.get("message")))
            case "message_delta":
                self._usage(event)
                self._stop(as_mapping(event.get("delta")))
                self._final = self._final or _count(as_mapping(event.get("usage")).get("output_tokens")) is not None
            case "message_stop":  # without a message_delta, only the initial count of the output is known
                self.ended, self.stopped = self._final, True
            case "error":
                self.error = _error_word(event.get("error"), "type")

    def body(self, document: Any) -> None:
        message = as_mapping(document)
        if message.get("type") == "error":
            self.error = _error_word(message.get("error"), "type")
            return
        self._message(message)
        self._stop(message)
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

    def _message(self, message: Mapping[str, Any]) -> None:
        self.model = _model_name(message.get("model")) or self.model
        self._usage(message)

    def _stop(self, holder: Mapping[str, Any]) -> None:
        self.calls_tool = self.calls_tool or holder.get("stop_reason") == "tool_use"

    def _usage(self, holder: Mapping[str, Any]) -> None:
        """Read counts, which are running totals: the last of each is valid."""
        usage = as_mapping(holder.get("usage"))
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            self._keep(name, usage.get(name))
        self._keep("1h", as_mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
        if tools := as_mapping(usage.get("server_tool_use")):
            self._extra("web_searches", _count(tools.get("web_search_requests")))

    def _keep(self, name: str, value: Any) -> None:
        if (number := _count(value)) is not None:
            self._counts[name] = number


class ChatUsage(UsageReader):
    """Chat completions of OpenAI and compatible servers. A stream has its usage only on request."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens = Tokens()

    def event(self, name: bytes, data: bytes) -> None:
        if data == b"[DONE]":
            self.ended = True
            return
        self._answer(as_mapping(loads_lossy(data)))

    def body(self, document: Any) -> None:
        self._answer(as_mapping(document))
        self.ended = True

    def tokens(self) -> Tokens:
        return self._tokens

    def _answer(self, answer: Mapping[str, Any]) -> None:
        if (model := answer.get("model")) != self.model:
            self.model = _model_name(model) or self.model
        if usage := as_mapping(answer.get("usage")):
            # Some servers send running totals with each chunk: the last is valid.
            self._tokens = _openai_tokens(usage, input_name="prompt_tokens", output_name="completion_tokens")
            for way, name in (("input", "prompt"), ("output", "completion")):
                self._extra(f"{way}_audio", _count(as_mapping(usage.get(f"{name}_tokens_details")).get("audio_tokens")))
        if reasons := [
            reason for choice in as_records(answer.get("choices")) if (reason := choice.get("finish_reason"))
        ]:
            self.finished = True
            self.calls_tool = "tool_calls" in reasons
        if error := answer.get("error"):
            self.error = _error_word(error, "code", "type")


_LAST_RESPONSES = {"response.completed", "response.incomplete", "response.failed"}
_RESPONSE_TYPES = {"response.created", *_LAST_RESPONSES}

_RESPONSE_EVENTS = {name.encode() for name in _RESPONSE_TYPES} | {b"error", b""}
"""Other events have no usage. An event without a name has its type only in its data."""


_LOCAL_CALLS = {"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"}
"""Items that the agent answers, unlike the provider's own tools."""


class ResponsesUsage(UsageReader):
    """The responses API, which Codex uses."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens = Tokens()

    def event(self, name: bytes, data: bytes) -> None:
        if name not in _RESPONSE_EVENTS:
            return
        event = as_mapping(loads_lossy(data))
        kind = event.get("type")
        if not isinstance(kind, str):
            return
        if kind in _RESPONSE_TYPES:
            self._response(as_mapping(event.get("response")))
            self.ended = self.ended or kind in _LAST_RESPONSES
        elif kind == "error":
            self.error = _error_word(event.get("error") or event, "code", "type")

    def body(self, document: Any) -> None:
        self._response(as_mapping(document))
        self.ended = True

    def tokens(self) -> Tokens:
        return self._tokens

    def _response(self, response: Mapping[str, Any]) -> None:
        self.model = _model_name(response.get("model")) or self.model
        output = as_records(response.get("output"))
        self.calls_tool = any(item.get("type") in _LOCAL_CALLS for item in output)
        if usage := as_mapping(response.get("usage")):
            self._tokens = _openai_tokens(usage, input_name="input_tokens", output_name="output_tokens")
            items = [(item.get("type"), as_mapping(item.get("action")).get("type")) for item in output]
            # Opening a page that was found is a call, too, but has no fee.
            kinds = [kind for kind, action in items if action not in ("open_page", "find_in_page")]
            self._extra("web_searches", kinds.count("web_search_call"))
            self._extra("storage_searches", kinds.count("file_search_call"))
        if error := response.get("error"):
            self.error = _error_word(error, "code", "type")


def _openai_tokens(usage: Mapping[str, Any], *, input_name: str, output_name: str) -> Tokens:
    """Read the usage of both APIs of OpenAI, which differ only in names. Their input includes cached tokens."""
    details = as_mapping(usage.get(f"{input_name}_details"))
    cache_read = _first_count(details, "cached_tokens")
    cache_creation = _first_count(details, "cache_write_tokens", "cache_creation_tokens")
    return Tokens(
        input=_without(_count(usage.get(input_name)), cache_read, cache_creation),
        output=_count(usage.get(output_name)),
        cache_read=cache_read,
        cache_creation=cache_creation,
    )


def _without(whole: int | None, *parts: int | None) -> int | None:
    """Subtract the parts, except one that is too large: some servers do not include cached tokens in the input."""
    if whole is None:
        return None
    for part in parts:
        if part is not None and part <= whole:
            whole -= part
    return whole


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
        fresh = _without(prompt, cached)
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
            self.model = _model_name(model) or self.model
        usage = as_mapping(chunk.get("usageMetadata"))
        for name, value in usage.items():
            if name in _GEMINI_COUNTS and (number := _count(value)) is not None:
                self._counts[name] = number
        for way, name in (("input", "promptTokensDetails"), ("output", "candidatesTokensDetails")):
            for each in as_records(usage.get(name)):
                if each.get("modality") in ("AUDIO", "IMAGE", "VIDEO"):
                    self._extra(f"{way}_{each['modality'].lower()}", _count(each.get("tokenCount")))
        if candidates := as_records(chunk.get("candidates")):
            found = [as_mapping(each.get("groundingMetadata")).get("webSearchQueries") for each in candidates]
            searches = sum(len(queries) for queries in found if isinstance(queries, list))
            # Before Gemini 3, any number of searches in a request has one fee.
            self._extra("web_searches", min(searches, 1) if (self.model or "").startswith("gemini-2") else searches)
            self.ended = all(candidate.get("finishReason") for candidate in candidates)
            self.stopped = self.stopped or self.ended
            contents = [content for candidate in candidates if (content := as_mapping(candidate.get("content")))]
            self._has_content = self._has_content or bool(contents)
            parts = (part for content in contents for part in as_records(content.get("parts")))
            self.calls_tool = self.calls_tool or any("functionCall" in part for part in parts)
        elif as_mapping(chunk.get("promptFeedback")).get("blockReason"):
            self.ended = True
        if error := chunk.get("error"):
            self.error = _error_word(error, "status", "type")


def _count(value: Any) -> int | None:
    return as_count(value, _MAX_TOKENS)


def _first_count(holder: Mapping[str, Any], *names: str) -> int | None:
    """Return the first valid number under these names."""
    return next((number for name in names if (number := _count(holder.get(name))) is not None), None)


def _model_name(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable() else None


def _error_word(error: Any, *names: str) -> str:
    """Return an error's code. Only a single word is accepted, because messages may contain anything."""
    values = (as_mapping(error).get(name) for name in names)
    return next((word for word in values if isinstance(word, str) and _WORD.fullmatch(word)), "unknown_error")


_READERS: Mapping[WireName, Callable[[], UsageReader]] = {
    "anthropic-messages": AnthropicUsage,
    "openai-chat": ChatUsage,
    "openai-responses": ResponsesUsage,
    "gemini": GeminiUsage,
}
