"""Anthropic's Messages API, which Claude Code uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from youbencha.gateway.metering import UsageReader, error_word, model_name, token_count
from youbencha.gateway.refusals import Reason
from youbencha.gateway.wires.base import Action, DeltaField, ProviderFacts, Wire, words
from youbencha.json_lines import as_mapping, loads_lossy
from youbencha.usage import Tokens

ANTHROPIC = ProviderFacts(
    "https://api.anthropic.com",
    ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    (("ANTHROPIC_API_KEY", "x-api-key"), ("ANTHROPIC_AUTH_TOKEN", "authorization")),
    all_models="?limit=1000",
    headers={"anthropic-version": "2023-06-01"},
)

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
                self._final = (
                    self._final or token_count(as_mapping(event.get("usage")).get("output_tokens")) is not None
                )
            case "message_stop":  # without a message_delta, only the initial count of the output is known
                self.ended, self.stopped = self._final, True
            case "error":
                self.error = error_word(event.get("error"), "type")

    def body(self, document: Any) -> None:
        message = as_mapping(document)
        if message.get("type") == "error":
            self.error = error_word(message.get("error"), "type")
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
        self.model = model_name(message.get("model")) or self.model
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
            self.note_extra("web_searches", token_count(tools.get("web_search_requests")))

    def _keep(self, name: str, value: Any) -> None:
        if (number := token_count(value)) is not None:
            self._counts[name] = number


_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    502: "api_error",
    503: "api_error",
}
_MAX_ERROR_BYTES = 64 * 1024


class AnthropicMessages(Wire):
    name = "anthropic-messages"
    provider = "anthropic"
    routes = (
        ("POST", r"/v1/messages", Action.GENERATE),
        ("POST", r"/v1/messages/count_tokens", Action.COUNT),
        ("GET", r"/v1/models(?:/[^/:]+)?", Action.MODELS),
    )
    conversation = "messages"
    fields = words("""
        model max_tokens messages system tools tool_choice metadata stop_sequences stream temperature top_k top_p
        thinking service_tier output_config output_format context_management cache_control diagnostics speed
        inference_geo""")
    output_limits = ("max_tokens",)
    image_tokens = 5_000  # width * height / 750, at most 2576 pixels long
    usage_reader = AnthropicUsage

    def is_from(self, headers: Mapping[str, str]) -> bool:
        return "anthropic-version" in headers or "x-api-key" in headers

    def is_without_credit(self, body: bytes) -> bool:
        error = as_mapping(as_mapping(loads_lossy(body)).get("error")) if len(body) <= _MAX_ERROR_BYTES else {}
        return str(error.get("message", "")).startswith("Your credit balance is too low")

    def delta_fields(self, event: dict[str, Any]) -> Iterator[DeltaField]:
        if event.get("type") != "content_block_delta":
            return
        delta = event.get("delta")
        for key in ("text", "thinking", "partial_json"):
            if isinstance(delta, dict) and isinstance(delta.get(key), str):
                yield DeltaField(("block", event.get("index"), key), delta, key, key == "partial_json")

    def error(self, status: int, reason: Reason, message: str) -> dict[str, Any]:
        kind = _ERROR_TYPES.get(status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
