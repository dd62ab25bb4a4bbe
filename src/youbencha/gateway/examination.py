"""What a request may make the provider read or do beyond its own bytes. Examined only under a cap. No I/O.

Bodies come from agents and are not trusted. So there is an allowlist of fields, from the types of the SDKs `anthropic`,
`openai` and `google-genai`, and from what agents send: any other field may make the provider read something that is not
in the request, such as a file, a URL or an earlier answer. `Wire.fields` has the fields of the body itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from youbencha.gateway.wires.base import RequestSize, Wire, read_limit, words
from youbencha.json_lines import as_mapping

_INNER = words("""
    type role content text source data media_type cache_control ttl citations title context name id tool_use_id
    is_error signature thinking caller tool_name effort format edits keep trigger value display budget_tokens enabled
    output_config image_url url detail refusal tool_calls tool_call_id function arguments custom input function_call
    reasoning_content json_schema include_usage include_obfuscation mode status phase output call_id namespace
    summary tools annotations logprobs description schema strict verbosity generate_summary execution
    encrypted_content action operation reasoning parts thought thoughtSignature inlineData mimeType functionCall args
    functionResponse response category threshold temperature topP topK candidateCount maxOutputTokens stopSequences
    seed responseMimeType responseSchema responseJsonSchema responseModalities thinkingConfig includeThoughts
    thinkingBudget thinkingLevel""")
"""Fields below the body, at any depth."""

_OPAQUE = words("""
    tools tool_choice toolConfig functions metadata client_metadata labels logit_bias schema json_schema citations
    annotations logprobs action operation args response responseSchema responseJsonSchema""")
"""Fields with content of the agent's own, which is not examined. Tools are examined separately."""

_TYPES = words("""
    text image document base64 content thinking redacted_thinking tool_use tool_result tool_reference ephemeral
    enabled disabled adaptive json_schema clear_tool_uses_20250919 clear_thinking_20251015 input_tokens tool_uses
    thinking_turns all direct image_url refusal function custom json_object message input_text output_text
    input_image summary_text reasoning_text reasoning function_call function_call_output custom_tool_call
    custom_tool_call_output local_shell_call local_shell_call_output apply_patch_call apply_patch_call_output
    tool_search_call tool_search_output additional_tools compaction""")
"""Values of `type`."""

_CLIENT_TOOLS = words("""
    function custom namespace functionDeclarations bash text_editor computer memory local_shell apply_patch shell
    computerUse""")
"""Tools that the client runs, by type without its version, or by Gemini's field."""

_SERVER_TOOLS = words("""
    web_search web_search_preview file_search googleSearch googleSearchRetrieval web_fetch urlContext fileSearch mcp
    mcp_toolset mcpServers tool_search tool_search_tool_bm25 tool_search_tool_regex codeExecution""")
"""Tools that the provider runs, for nothing or a fee per use. The price of any other tool is not known."""

_STANDARD: Mapping[str, frozenset[str]] = {
    "service_tier": words("auto default standard standard_only flex"),
    "serviceTier": words("standard flex unspecified"),
    "speed": words("standard"),
    "inference_geo": words("global not_available"),
}
"""Values with the listed price, or a lower one."""

_UNPRICED = words("fallbacks compaction web_search_options modalities audio")
"""Fields of the body for other models, calls, searches or sound, at a price that is not known or not reported."""
_UNPRICED_TYPES = words("input_audio compact_20260112")

CONTEXT_TOKENS = 1_050_000
"""The largest context window in common use: the most that a model reads at once, wherever it comes from."""

DEFAULT_TOOL_USES = 10
"""How often the provider's tools may be used if the request sets no limit. It is Anthropic's own limit."""

_TOOLS_TOKENS = 5_000
"""The provider's own descriptions of tools, and of how to use them."""

_VERSION = re.compile(r"_(\d{8}|\d{4}_\d{2}_\d{2})$")
_EXAMINED_FIELDS = frozenset({"type", "data", "image_url", "tools", "id", "mode"})


class UnpricedError(Exception):
    """A request asks for something whose price is not known. The message names it."""


def examine(wire: Wire, body: object, request: RequestSize) -> RequestSize:
    """Add to a request's size what it may make the provider read or do. Raises `UnpricedError`."""
    if not isinstance(body, dict):  # the provider may be able to read what we are not
        return request._replace(max_input=request.max_input + CONTEXT_TOKENS)
    if request.model and "-search-" in request.model:
        raise UnpricedError(f"the searches of {request.model}")
    for name in body.keys() & (_STANDARD.keys() | _UNPRICED):
        if (value := body[name]) is not None and str(value).lower() not in _STANDARD.get(name, ()):
            raise UnpricedError(f"`{name}: {str(value)[:40]}`")
    examination = _Examination(wire)
    examination.run(body)
    uses, limit = examination.server_tool_uses, wire.max_tool_uses(body)
    contexts = int(examination.refers)
    if uses:
        uses = uses if limit is None else min(uses, limit)
        contexts = uses + 1
    max_input = request.max_input + examination.tokens + contexts * CONTEXT_TOKENS
    return request._replace(max_input=max_input, server_tool_uses=uses)


class _Examination:
    """Examines a parsed body. Without recursion, because the client decides how deep it is."""

    def __init__(self, wire: Wire) -> None:
        self.refers = False
        """It may refer to something that is not in it."""
        self.tokens = self.server_tool_uses = 0
        self._wire = wire

    def run(self, body: dict[str, Any]) -> None:
        known = self._wire.fields
        waiting: list[Any] = [body]
        while waiting:
            value = waiting.pop()
            if isinstance(value, list):
                waiting += value
            elif isinstance(value, dict):
                fields = value if known.issuperset(value) else self._renamed(value, known)
                known = _INNER
                kind = fields.get("type")
                if not _EXAMINED_FIELDS.isdisjoint(fields):
                    self._examine(fields, kind)
                opaque = "input" if kind in ("tool_use", "server_tool_use") else None
                for name, inner in fields.items():
                    if isinstance(inner, dict | list) and name not in _OPAQUE and name != opaque:
                        waiting.append(inner)

    def _renamed(self, fields: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
        """Return the fields under the names of the tables, and note whether there are any others."""
        number = len(fields)
        fields = self._wire.with_known_names(fields)
        others = any(fields[name] is not None for name in fields.keys() - known)
        self.refers = self.refers or others or len(fields) < number  # a field under two names
        return fields

    def _examine(self, fields: dict[str, Any], kind: object) -> None:
        if kind is not None and not (isinstance(kind, str) and kind in _TYPES):
            self.refers = True
        if kind in _UNPRICED_TYPES or fields.get("mode") == "pro":
            raise UnpricedError(f"`{kind}`" if kind in _UNPRICED_TYPES else "`mode: pro`")
        if (data := fields.get("data")) is not None and kind != "redacted_thinking":
            self._inline(fields.get("media_type") or fields.get("mimeType"), data)
        if (image := fields.get("image_url")) is not None:
            url = str(image.get("url") if isinstance(image, dict) else image)
            self._inline(url[5:] if url.startswith("data:") else None, url)
        self.refers = self.refers or self._wire.refers_to_stored(fields)
        if tools := fields.get("tools"):
            self.tokens += _TOOLS_TOKENS
            self._tools(tools if isinstance(tools, list) else [tools])

    def _inline(self, kind: object, data: object) -> None:
        """Count an image by its size in pixels, text by its bytes, and anything else, such as a PDF, as a reference."""
        if str(kind).startswith("image/") and isinstance(data, str):
            self.tokens += self._wire.image_tokens - len(data)
        elif not str(kind).startswith("text/"):
            self.refers = True

    def _tools(self, tools: list[Any]) -> None:
        waiting = list(tools)
        while waiting:
            tool = as_mapping(waiting.pop())
            for full_name in self._wire.tool_names(tool):
                name = _VERSION.sub("", full_name)
                is_local = as_mapping(tool.get("environment")).get("type", "local") == "local"
                if name not in _CLIENT_TOOLS | _SERVER_TOOLS or not is_local:
                    raise UnpricedError(f"the tool `{name[:80]}`")
                if name in _SERVER_TOOLS and tool.get("execution") != "client":
                    uses = read_limit(tool.get("max_uses"))
                    self.server_tool_uses += DEFAULT_TOOL_USES if uses is None else max(1, uses)
            waiting += inner if isinstance(inner := tool.get("tools"), list) else []
