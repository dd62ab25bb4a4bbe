"""OpenAI's chat completions, which most agents and other providers use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from youbencha.gateway.metering import (
    UsageReader,
    error_word,
    first_token_count,
    model_name,
    subtract,
    token_count,
)
from youbencha.gateway.refusals import STATUS, Reason
from youbencha.gateway.sse import parse_event
from youbencha.gateway.wires.base import Action, DeltaField, ProviderFacts, StreamFilter, Wire, objects, words
from youbencha.json_lines import as_mapping, as_records, loads_lossy
from youbencha.usage import Tokens

OPENAI = ProviderFacts(
    "https://api.openai.com/v1",
    ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    (("OPENAI_API_KEY", "authorization"), ("CODEX_API_KEY", "authorization")),
)


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
            self.model = model_name(model) or self.model
        if usage := as_mapping(answer.get("usage")):
            # Some servers send running totals with each chunk: the last is valid.
            self._tokens = openai_tokens(usage, input_name="prompt_tokens", output_name="completion_tokens")
            for way, name in (("input", "prompt"), ("output", "completion")):
                self.note_extra(
                    f"{way}_audio", token_count(as_mapping(usage.get(f"{name}_tokens_details")).get("audio_tokens"))
                )
        if reasons := [
            reason for choice in as_records(answer.get("choices")) if (reason := choice.get("finish_reason"))
        ]:
            self.finished = True
            self.calls_tool = "tool_calls" in reasons
        if error := answer.get("error"):
            self.error = error_word(error, "code", "type")


def openai_tokens(usage: Mapping[str, Any], *, input_name: str, output_name: str) -> Tokens:
    """Read the usage of both APIs of OpenAI, which differ only in names. Their input includes cached tokens."""
    details = as_mapping(usage.get(f"{input_name}_details"))
    cache_read = first_token_count(details, "cached_tokens")
    cache_creation = first_token_count(details, "cache_write_tokens", "cache_creation_tokens")
    return Tokens(
        input=subtract(token_count(usage.get(input_name)), cache_read, cache_creation),
        output=token_count(usage.get(output_name)),
        cache_read=cache_read,
        cache_creation=cache_creation,
    )


_ERROR_CODES = {401: "invalid_api_key", 402: "insufficient_quota", 404: "not_found", 413: "request_too_large"}


def openai_error(status: int, reason: Reason, message: str) -> dict[str, Any]:
    """Return an error in the format of both APIs of OpenAI."""
    code = _ERROR_CODES.get(STATUS[reason])
    kind = "server_error" if status >= 500 else code or "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code or reason}}


class OpenAIChat(Wire):
    """A stream has its usage only on request."""

    name = "openai-chat"
    provider = "openai"
    routes = (
        ("POST", r"/v1/chat/completions", Action.GENERATE),
        ("GET", r"/v1/models(?:/[^/:]+)?", Action.MODELS),
    )
    conversation = "messages"
    fields = words("""
        model messages max_completion_tokens max_tokens n stream stream_options tools tool_choice functions
        function_call frequency_penalty presence_penalty logit_bias logprobs top_logprobs metadata
        parallel_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort
        response_format safety_identifier seed service_tier stop store temperature top_p user verbosity""")
    output_limits = ("max_completion_tokens", "max_tokens")
    answer_counts = ("n",)
    image_tokens = 50_000  # gpt-4o-mini: 2833, and 5667 for each of up to 8 tiles
    usage_reader = ChatUsage

    def is_from(self, headers: Mapping[str, str]) -> bool:
        return "authorization" in headers and "x-goog-api-key" not in headers

    def request_usage(self, raw: bytes, body: Any) -> tuple[bytes, StreamFilter | None]:
        sent, is_changed = _with_usage_requested(raw, as_mapping(body))
        return sent, UsageChunkFilter() if is_changed else None

    def delta_fields(self, event: dict[str, Any]) -> Iterator[DeltaField]:
        for choice in objects(event.get("choices")):
            delta, index = choice.get("delta"), choice.get("index")
            if not isinstance(delta, dict):
                continue
            for key in ("content", "reasoning_content", "reasoning", "refusal"):
                if isinstance(delta.get(key), str):
                    yield DeltaField(("choice", index, key), delta, key, is_json=False)
            for call in objects(delta.get("tool_calls")):
                function = call.get("function")
                if isinstance(function, dict) and isinstance(function.get("arguments"), str):
                    yield DeltaField(("call", index, call.get("index")), function, "arguments", is_json=True)

    def error(self, status: int, reason: Reason, message: str) -> dict[str, Any]:
        return openai_error(status, reason, message)


# The usage at the end of a stream, which the gateway requests if the client does not.

_MAX_HELD_BYTES = 64 * 1024
"""A larger event is not the usage, and is passed on as it arrives."""
_EVENT_END = re.compile(rb"(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r|\n)")
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_USAGE_OPTION = b'"stream_options":{"include_usage":true},'


def _with_usage_requested(body: bytes, parsed: Mapping[str, Any]) -> tuple[bytes, bool]:
    """Return the body to send, and whether it now requests more than the client did.

    The client's bytes are kept if possible, because numbers may change when JSON is written again.
    """
    options = parsed.get("stream_options")
    is_plain = options is None or isinstance(options, dict)
    if parsed.get("stream") is not True or not is_plain or as_mapping(options).get("include_usage") is True:
        return body, False
    start = body.find(b"{") + 1
    if "stream_options" not in parsed and start and not body[: start - 1].strip():
        return body[:start] + _USAGE_OPTION + body[start:], True
    changed = {**parsed, "stream_options": {**as_mapping(options), "include_usage": True}}
    try:
        return json.dumps(changed).encode(), True
    except (TypeError, ValueError, RecursionError):
        return body, False


class UsageChunkFilter:
    """Passes on a stream byte for byte, without the event that only the gateway requested."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._too_large = False
        """The current event is passed on as it arrives."""
        self._last_cr_passed: bool | None = None
        """After an event that ended with CR: whether it was passed on. A following LF is still part of it."""

    def feed(self, chunk: bytes) -> bytes:
        if not chunk:
            return b""
        out = bytearray()
        if self._last_cr_passed is not None and chunk.startswith(b"\n"):
            out += b"\n" if self._last_cr_passed else b""
            chunk = chunk[1:]
        self._last_cr_passed = None
        searched = max(0, len(self._held) - 2)
        self._held += chunk
        self._pass_events(out, searched)
        return bytes(out)

    def finish(self) -> bytes:
        """Return what is left if the stream ended in the middle of an event."""
        rest = bytes(self._held)
        self._held.clear()
        return rest if self._passes(rest) else b""

    def _pass_events(self, out: bytearray, searched: int) -> None:
        held, start = self._held, 0
        for end in _event_ends(held, searched):
            event = bytes(memoryview(held)[start:end])
            start = end
            passes = self._passes(event)
            self._too_large = False
            if passes:
                out += event
            self._last_cr_passed = passes if event.endswith(b"\r") and start == len(held) else None
        del held[:start]
        self._limit_held(out)

    def _limit_held(self, out: bytearray) -> None:
        """Pass on a large event, except for the last two bytes, which may be half of its end."""
        beyond = len(self._held) - 2
        if beyond > 0 and (self._too_large or beyond > _MAX_HELD_BYTES):
            out += self._held[:beyond]
            del self._held[:beyond]
            self._too_large = True

    def _passes(self, event: bytes) -> bool:
        return self._too_large or len(event) > _MAX_HELD_BYTES or not _is_usage_chunk(event)


def _event_ends(held: bytearray, searched: int) -> Iterator[int]:
    if b"\r" in held:
        yield from (match.end() for match in _EVENT_END.finditer(held, searched))
        return
    while (end := held.find(b"\n\n", searched)) >= 0:  # by far the most frequent, and ten times as fast
        searched = end + 2
        yield searched


def _is_usage_chunk(event: bytes) -> bool:
    if not _NO_CHOICES.search(event):
        return False
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").strip(b"\n")
    event_parts = parse_event(lines)
    chunk = as_mapping(loads_lossy(event_parts[1])) if event_parts else {}
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
