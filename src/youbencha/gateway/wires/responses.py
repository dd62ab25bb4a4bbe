"""OpenAI's responses, which Codex uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from youbencha.gateway.metering import UsageReader, error_word, model_name
from youbencha.gateway.refusals import Reason
from youbencha.gateway.wires.base import Action, DeltaField, Wire, read_limit, words
from youbencha.gateway.wires.chat import openai_error, openai_tokens
from youbencha.json_lines import as_mapping, as_records, loads_lossy
from youbencha.usage import Tokens

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
            self.error = error_word(event.get("error") or event, "code", "type")

    def body(self, document: Any) -> None:
        self._response(as_mapping(document))
        self.ended = True

    def tokens(self) -> Tokens:
        return self._tokens

    def _response(self, response: Mapping[str, Any]) -> None:
        self.model = model_name(response.get("model")) or self.model
        output = as_records(response.get("output"))
        self.calls_tool = any(item.get("type") in _LOCAL_CALLS for item in output)
        if usage := as_mapping(response.get("usage")):
            self._tokens = openai_tokens(usage, input_name="input_tokens", output_name="output_tokens")
            items = [(item.get("type"), as_mapping(item.get("action")).get("type")) for item in output]
            # Opening a page that was found is also a call, but has no fee.
            kinds = [kind for kind, action in items if action not in ("open_page", "find_in_page")]
            self.note_extra("web_searches", kinds.count("web_search_call"))
            self.note_extra("storage_searches", kinds.count("file_search_call"))
        if error := response.get("error"):
            self.error = error_word(error, "code", "type")


_OVER_BUDGET: frozenset[Reason] = frozenset({"budget_exceeded", "call_over_cap"})
_BY_ID = (None, "reasoning", "compaction")
"""Types of items that may have only the id of a stored item."""


class OpenAIResponses(Wire):
    name = "openai-responses"
    provider = "openai"
    routes = (("POST", r"/v1/responses", Action.GENERATE),)
    conversation = "input"
    fields = words("""
        model input instructions max_output_tokens max_tool_calls metadata client_metadata parallel_tool_calls
        prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store
        stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user include
        background""")
    output_limits = ("max_output_tokens",)
    image_tokens = 50_000  # as in chat completions
    usage_reader = ResponsesUsage

    def refers_to_stored(self, fields: Mapping[str, Any]) -> bool:
        is_by_id = "id" in fields and fields.get("type") in _BY_ID
        return is_by_id and not (fields.get("encrypted_content") or fields.get("role"))

    def max_tool_uses(self, body: Mapping[str, Any]) -> int | None:
        return read_limit(body.get("max_tool_calls"))

    def delta_fields(self, event: dict[str, Any]) -> Iterator[DeltaField]:
        kind = event.get("type")
        if isinstance(kind, str) and kind.endswith(".delta") and isinstance(event.get("delta"), str):
            place = (event.get(name) for name in ("item_id", "output_index", "content_index", "summary_index"))
            yield DeltaField((kind, *place), event, "delta", "arguments" in kind)

    def error_status(self, reason: Reason) -> int:
        """Measured: Codex, the only agent with this API, retries five times after 402, not after 400."""
        return 400 if reason in _OVER_BUDGET else super().error_status(reason)

    def error(self, status: int, reason: Reason, message: str) -> dict[str, Any]:
        return openai_error(status, reason, message)
