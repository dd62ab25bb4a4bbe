"""The fields of requests whose cost is bounded by their size, and the tools that providers run. No I/O.

An allowlist, from the types of the SDKs `anthropic`, `openai` and `google-genai`, and from what agents send. Any other
field may make the provider read something that is not in the request: a file, a URL, an earlier answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from youbencha.gateway.api import WireName


def to_camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


TOP_LEVEL: Mapping[WireName, frozenset[str]] = {
    "anthropic-messages": _names("""
        model max_tokens messages system tools tool_choice metadata stop_sequences stream temperature top_k top_p
        thinking service_tier output_config output_format context_management cache_control diagnostics speed
        inference_geo"""),
    "openai-chat": _names("""
        model messages max_completion_tokens max_tokens n stream stream_options tools tool_choice functions
        function_call frequency_penalty presence_penalty logit_bias logprobs top_logprobs metadata
        parallel_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort
        response_format safety_identifier seed service_tier stop store temperature top_p user verbosity"""),
    "openai-responses": _names("""
        model input instructions max_output_tokens max_tool_calls metadata client_metadata parallel_tool_calls
        prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store
        stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user include
        background"""),
    "gemini": _names("""
        contents tools toolConfig safetySettings systemInstruction generationConfig labels serviceTier store"""),
}
"""Fields of the body itself. Gemini also accepts snake case."""

INNER = _names("""
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

OPAQUE = _names("""
    tools tool_choice toolConfig functions metadata client_metadata labels logit_bias schema json_schema citations
    annotations logprobs action operation args response responseSchema responseJsonSchema""")
"""Fields with content of the agent's own, which is not examined. Tools are examined separately."""

TYPES = _names("""
    text image document base64 content thinking redacted_thinking tool_use tool_result tool_reference ephemeral
    enabled disabled adaptive json_schema clear_tool_uses_20250919 clear_thinking_20251015 input_tokens tool_uses
    thinking_turns all direct image_url refusal function custom json_object message input_text output_text
    input_image summary_text reasoning_text reasoning function_call function_call_output custom_tool_call
    custom_tool_call_output local_shell_call local_shell_call_output apply_patch_call apply_patch_call_output
    tool_search_call tool_search_output additional_tools compaction""")
"""Values of `type`."""

IMAGE_TOKENS: Mapping[WireName, int] = {
    "anthropic-messages": 5_000,  # width * height / 750, at most 2576 pixels long
    "openai-chat": 50_000,  # gpt-4o-mini: 2833, and 5667 for each of up to 8 tiles
    "openai-responses": 50_000,
    "gemini": 10_000,  # 258 for each tile of 256 pixels or more, at most 3072 pixels long
}
"""The most that an image costs: the providers scale down what is larger."""

CLIENT_TOOLS = _names("""
    function custom namespace functionDeclarations bash text_editor computer memory local_shell apply_patch shell
    computerUse""")
"""Tools that the client runs, by type without its version, or by Gemini's field."""

SERVER_TOOLS = _names("""
    web_search web_search_preview file_search googleSearch googleSearchRetrieval web_fetch urlContext fileSearch mcp
    mcp_toolset mcpServers tool_search tool_search_tool_bm25 tool_search_tool_regex codeExecution""")
"""Tools that the provider runs, for nothing or a fee per use. The price of any other tool is not known."""

STANDARD: Mapping[str, frozenset[str]] = {
    "service_tier": _names("auto default standard standard_only flex"),
    "serviceTier": _names("standard flex unspecified"),
    "speed": _names("standard"),
    "inference_geo": _names("global not_available"),
}
"""Values with the listed price, or a lower one."""

UNPRICED = _names("fallbacks compaction web_search_options modalities audio")
"""Fields of the body for other models, calls, searches or sound, at a price that is not known or not reported."""
UNPRICED_TYPES = _names("input_audio compact_20260112")
