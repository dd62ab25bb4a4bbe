"""What hostile and real clients ask for: it is reserved by its bytes, or as a whole context, or refused."""

from __future__ import annotations

import asyncio
import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from gateway_bench import ANTHROPIC, APIS, CHAT, GEMINI, RESPONSES, Api, scripted_gateway

from youbencha.gateway.budget import Caps
from youbencha.gateway.call import Labels
from youbencha.gateway.examination import CONTEXT_TOKENS, UnpricedError, examine
from youbencha.gateway.examination import DEFAULT_TOOL_USES as USES
from youbencha.gateway.prices import Prices
from youbencha.gateway.wires import WIRES, RequestSize, WireName
from youbencha.spec.gateway import ModelPrice

PNG = base64.b64encode(b"\x89PNG" + bytes(5000)).decode()
HTTPS = "https://example.org/a"
SIZE = 200_000
"""Of the bodies in bytes, so that an image can be less."""


def more(wire: WireName, body: dict[str, Any], model: str | None = "m") -> RequestSize:
    """What is reserved beyond the bytes, without what the provider writes about tools."""
    found = examine(WIRES[wire], body, RequestSize(model, False, 100, SIZE))
    return found._replace(max_input=found.max_input - SIZE - 5000 * ("tools" in body))


def says(*content: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(content)}]}


def reads(*content: Any) -> dict[str, Any]:
    return {"input": [{"type": "message", "role": "user", "content": list(content)}]}


def parts(*content: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(content)}]}


def source(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "source": fields}


IN_RESULT = {"type": "tool_result", "content": [source("image", type="url", url=HTTPS)]}

ELSEWHERE: list[tuple[WireName, dict[str, Any]]] = [
    ("anthropic-messages", says(source("image", type="url", url=HTTPS))),
    ("anthropic-messages", says(source("image", type="file", file_id="f"))),
    ("anthropic-messages", says(source("document", type="url", url=HTTPS))),
    ("anthropic-messages", says(source("document", type="base64", media_type="application/pdf", data="JVBERi0="))),
    ("anthropic-messages", says(source("document", type="base64", data="JVBERi0="))),
    ("anthropic-messages", says(IN_RESULT)),
    ("anthropic-messages", says({"type": "text", "media_type": "image/png", "data": [1e15] * 50_000})),  # str is longer
    ("anthropic-messages", says({"type": "container_upload", "file_id": "f"})),
    ("anthropic-messages", {"container": "c"}),
    ("anthropic-messages", {"mcp_servers": [{"type": "url", "url": HTTPS, "name": "m"}]}),
    ("anthropic-messages", {"thread": {"type": "continue", "previous_message_id": "msg_1"}}),
    ("anthropic-messages", {"a_field_of_next_year": True}),
    ("openai-chat", says({"type": "image_url", "image_url": {"url": HTTPS}})),
    ("openai-chat", says({"type": "image_url", "image_url": {"url": "data:application/pdf;base64,JVBERi0="}})),
    ("openai-chat", says({"type": "file", "file": {"file_id": "f"}})),
    ("openai-chat", says({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}})),
    ("openai-chat", {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}),
    ("openai-chat", {"prediction": {"type": "content", "content": "long"}}),
    ("openai-chat", {"extra_body": {"max_tokens": 100_000}}),
    ("openai-responses", {"previous_response_id": "resp_1"}),
    ("openai-responses", {"conversation": {"id": "conv_1"}}),
    ("openai-responses", {"prompt": {"id": "pmpt_1"}}),
    ("openai-responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}),
    ("openai-responses", {"input": [{"id": "msg_1"}]}),
    ("openai-responses", {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}),
    ("openai-responses", {"input": [{"type": "image_generation_call", "id": "ig_1"}]}),
    ("openai-responses", reads({"type": "input_image", "image_url": HTTPS})),
    ("openai-responses", reads({"type": "input_image", "file_id": "f"})),
    ("openai-responses", reads({"type": "input_file", "file_url": HTTPS})),
    ("openai-responses", reads({"type": "input_file", "file_data": "data:application/pdf;base64,JVBERi0="})),
    ("openai-responses", {"context_management": [{"type": "compaction", "compact_threshold": 1}]}),
    ("gemini", {"cachedContent": "cachedContents/1"}),
    ("gemini", {"cached_content": "cachedContents/1"}),
    ("gemini", parts({"fileData": {"fileUri": HTTPS}})),
    ("gemini", parts({"file_data": {"file_uri": HTTPS}})),
    ("gemini", parts({"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}})),
    ("gemini", parts({"inline_data": {"mime_type": "video/mp4", "data": "AAAA"}})),
    ("gemini", parts({"functionResponse": {"name": "f", "parts": [{"fileData": {"fileUri": HTTPS}}]}})),
    ("gemini", {"generationConfig": {"temperature": 1}, "generation_config": {"temperature": 1}}),
    ("gemini", {"continuationToken": "t"}),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "body"), ELSEWHERE, ids=str)
def test_what_may_refer_to_something_else_is_reserved_as_a_context(wire: WireName, body: dict[str, Any]) -> None:
    assert more(wire, body).max_input == CONTEXT_TOKENS


REFUSED: list[tuple[WireName, dict[str, Any], str]] = [
    ("anthropic-messages", {"speed": "fast"}, "`speed: fast`"),
    ("anthropic-messages", {"inference_geo": "us"}, "`inference_geo: us`"),
    ("anthropic-messages", {"fallbacks": [{"model": "claude-opus-5"}]}, "`fallbacks"),
    ("anthropic-messages", {"context_management": {"edits": [{"type": "compact_20260112"}]}}, "`compact_20260112`"),
    ("anthropic-messages", {"compaction": {"type": "summarize"}}, "`compaction"),
    ("anthropic-messages", {"tools": [{"type": "code_execution_20260521", "name": "c"}]}, "the tool `code_execution`"),
    ("anthropic-messages", {"tools": [{"type": "advisor_20260301", "model": "m"}]}, "the tool `advisor`"),
    ("openai-chat", {"service_tier": "priority"}, "`service_tier: priority`"),
    ("openai-chat", {"web_search_options": {}}, "`web_search_options"),
    ("openai-chat", {"modalities": ["text", "audio"]}, "`modalities"),
    ("openai-chat", says({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}), "`input_audio`"),
    ("openai-responses", {"reasoning": {"mode": "pro"}}, "`mode: pro`"),
    ("openai-responses", {"tools": [{"type": "image_generation"}]}, "the tool `image_generation`"),
    ("openai-responses", {"tools": [{"type": "code_interpreter", "container": "c"}]}, "the tool `code_interpreter`"),
    ("openai-responses", {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, "the tool `shell`"),
    ("openai-responses", {"input": [{"type": "additional_tools", "tools": [{"type": "x"}]}]}, "the tool `x`"),
    ("openai-responses", {"tools": [{"type": "namespace", "tools": [{"type": "x"}]}]}, "the tool `x`"),
    ("gemini", {"serviceTier": "priority"}, "`serviceTier: priority`"),
    ("gemini", {"tools": [{"googleMaps": {}}]}, "the tool `googleMaps`"),
    ("gemini", {"tools": [{"google_maps": {}}]}, "the tool `googleMaps`"),
]


@pytest.mark.parametrize(("wire", "body", "named"), REFUSED, ids=str)
def test_what_has_no_price_is_refused(wire: WireName, body: dict[str, Any], named: str) -> None:
    with pytest.raises(UnpricedError) as refused:
        more(wire, body)
    assert str(refused.value).startswith(named)


def test_a_model_that_always_searches_is_refused() -> None:
    with pytest.raises(UnpricedError, match="searches of gpt-4o-search-preview"):
        more("openai-chat", {}, "gpt-4o-search-preview")


SERVER_TOOLS: list[tuple[WireName, dict[str, Any], int]] = [
    ("anthropic-messages", {"tools": [{"type": "web_search_20250305", "name": "w", "max_uses": 8}]}, 8),
    ("anthropic-messages", {"tools": [{"type": "web_fetch_20260318", "name": "w"}]}, USES),
    (
        "anthropic-messages",
        {"tools": [{"type": "web_search_20260318", "name": "w", "max_uses": -1}]},
        USES,
    ),
    ("openai-responses", {"tools": [{"type": "web_search", "external_web_access": True}]}, USES),
    ("openai-responses", {"tools": [{"type": "web_search"}], "max_tool_calls": 3}, 3),
    ("openai-chat", {"tools": [{"type": "web_search"}], "max_tool_calls": 0}, USES),  # has no such field
    ("openai-responses", {"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, USES),
    ("openai-responses", {"tools": [{"type": "mcp", "server_url": HTTPS}]}, USES),
    (
        "openai-responses",
        {"tools": [{"type": "web_search_preview_2025_03_11"}, {"type": "mcp"}]},
        2 * USES,
    ),
    ("gemini", {"tools": [{"googleSearch": {}}]}, USES),
    ("gemini", {"tools": [{"google_search": {}, "url_context": {}}]}, 2 * USES),
]


@pytest.mark.parametrize(("wire", "body", "uses"), SERVER_TOOLS, ids=str)
def test_each_use_of_a_providers_tool_is_reserved(wire: WireName, body: dict[str, Any], uses: int) -> None:
    found = more(wire, body)
    assert (found.max_input, found.server_tool_uses) == ((uses + 1) * CONTEXT_TOKENS, uses)
    own = Prices({"m": ModelPrice(input=1, output=1)}).worst_case(
        "openai", "m", found._replace(max_input=0, max_output=0)
    )
    assert own == uses * Decimal("0.035"), "the highest fee for a search"


IMAGES: list[tuple[WireName, dict[str, Any]]] = [
    ("anthropic-messages", says(source("image", type="base64", media_type="image/png", data=PNG))),
    ("anthropic-messages", says({"type": "tool_result", "content": [
        source("image", type="base64", media_type="image/png", data=PNG)]})),
    ("openai-chat", says({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}})),
    ("openai-responses", reads({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"})),
    ("gemini", parts({"inlineData": {"mimeType": "image/png", "data": PNG}})),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "body"), IMAGES, ids=lambda each: str(each)[:40])
def test_an_image_counts_by_its_pixels_not_its_bytes(wire: WireName, body: dict[str, Any]) -> None:
    size = more(wire, body).max_input
    assert WIRES[wire].image_tokens - len(PNG) - 30 <= size <= WIRES[wire].image_tokens - len(PNG)


SCHEMA = {"type": "object", "properties": {"file_id": {"type": "string"}, "conversation": {"type": "url"}}}
CODEX_TOOLS = [
    {"type": "function", "name": "f", "parameters": SCHEMA},
    {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
    {"type": "tool_search", "execution": "client", "description": "d", "parameters": SCHEMA},
    {"type": "namespace", "name": "n", "description": "", "tools": [{"type": "function", "name": "g"}]},
]

REAL: list[tuple[WireName, dict[str, Any]]] = [
    ("anthropic-messages", {  # Claude Code 2.1.325
        "model": "m", "max_tokens": 32000, "stream": True, "metadata": {"user_id": "u"}, "temperature": 1,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "tools": [{"name": "Bash", "description": "d", "input_schema": SCHEMA, "eager_input_streaming": True,
                   "defer_loading": True}],
        "messages": [
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "redacted_thinking", "data": "AAAA"},
                {"type": "tool_use", "id": "t", "name": "Bash", "input": {"file_id": "f", "type": "url"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [
                    {"type": "text", "text": "file_id"}, {"type": "tool_reference", "tool_name": "Bash"}],
                 "is_error": False}]}],
    }),
    ("openai-chat", {  # Aider 0.86.2, Copilot CLI 1.0.102
        "model": "m", "stream": True, "temperature": 0, "max_tokens": 10, "reasoning_effort": "high",
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        "messages": [{"role": "assistant", "content": None, "refusal": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "x"}],
    }),
    ("openai-responses", {  # Codex 0.166.0 without its web search
        "model": "m", "stream": True, "store": False, "tool_choice": "auto", "parallel_tool_calls": True,
        "reasoning": {"effort": "low", "summary": "auto", "context": "all_turns"}, "text": {"verbosity": "low"},
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "client_metadata": {"thread_id": "t"},
        "instructions": "i", "max_output_tokens": 10, "previous_response_id": None, "tools": CODEX_TOOLS,
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "t"}]},
            {"type": "message", "id": "m", "role": "assistant", "phase": "final", "status": "completed", "content": [
                {"type": "output_text", "text": "t", "annotations": [{"type": "url_citation", "url": "u"}]}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}], "content": None,
             "encrypted_content": "AAAA"},
            {"type": "function_call", "id": "f", "name": "f", "arguments": "{}", "call_id": "c"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "t"}]},
            {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "x", "status": "completed"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "x"}],
    }),
    ("gemini", {  # Gemini CLI 0.61.0
        "systemInstruction": {"role": "user", "parts": [{"text": "s"}]},
        "generationConfig": {"temperature": 1, "topP": 0.9, "topK": 64, "thinkingConfig": {
            "includeThoughts": True, "thinkingBudget": 8192}},
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}]}],
        "contents": [{"role": "model", "parts": [
            {"text": "t", "thought": True, "thoughtSignature": "s"},
            {"functionCall": {"id": "1", "name": "f", "args": {"fileUri": "x"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "1", "name": "f", "response": {"output": "x"}}}]}],
    }),
    ("gemini", {"system_instruction": {"parts": [{"text": "s"}]}, "generation_config": {"max_output_tokens": 1}}),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "body"), REAL, ids=lambda each: str(each)[:30])
def test_what_real_agents_send_is_bounded_by_its_bytes(wire: WireName, body: dict[str, Any]) -> None:
    assert more(wire, body) == RequestSize("m", False, 100, SIZE)._replace(max_input=0)


def test_additional_tools_of_codex() -> None:
    body = {"input": [{"type": "additional_tools", "id": "at_1", "role": "developer", "tools": CODEX_TOOLS}]}
    assert more("openai-responses", body).max_input == 5000


@pytest.mark.parametrize("body", [None, "text", [], 5, {"tools": [5]}, {"messages": {"content": 5}, "tools": [None]}])
def test_no_body_raises(body: Any) -> None:
    for api in APIS:
        size = examine(WIRES[api.wire], body, RequestSize(None, False, None, 0)).max_input
        assert isinstance(body, dict) or size == CONTEXT_TOKENS, "the provider may be able to read it"


def test_deeply_nested_references() -> None:
    body: Any = {"file_id": "file-1"}
    for _ in range(100_000):
        body = [body]
    assert more("openai-responses", {"input": body}).max_input == CONTEXT_TOKENS


EXPENSIVE = json.dumps({
    "usage": {"input_tokens": 900_000, "output_tokens": 50}, "turns": [{"text": "hello", "times": "forever"}]
})  # fmt: skip
HOSTILE: list[tuple[Api, dict[str, Any]]] = [
    (ANTHROPIC, says(source("document", type="url", url=HTTPS))),
    (CHAT, says({"type": "file", "file": {"file_id": "f"}})),
    (RESPONSES, {"input": [{"type": "item_reference", "id": "msg_1"}]}),
    (GEMINI, parts({"fileData": {"fileUri": HTTPS}})),
]


@pytest.mark.parametrize(("api", "hostile"), HOSTILE, ids=lambda each: getattr(each, "wire", ""))
async def test_hostile_requests_exceed_a_budget_by_one_of_them(
    api: Api, hostile: dict[str, Any], tmp_path: Path
) -> None:
    prices = Prices({"*": ModelPrice(input=5, output=25, cache_read=1, cache_write=6)})
    async with scripted_gateway(EXPENSIVE, tmp_path, prices=prices) as (bench, model):
        access = bench.gateway.issue(Labels("capped"), caps=Caps(usd=Decimal("0.10")))
        answers = await asyncio.gather(*(bench.ask(api, key=access.key, **hostile) for _ in range(20)))
        key = await bench.end(access)
    assert [answer.status for answer in answers].count(200) == len(model.requests) == 1
    assert key.account.exceeded
    assert key.account.spent_usd <= Decimal("0.10") + prices.worst_case(  # type: ignore[operator]
        "openai", "m", examine(WIRES[api.wire], hostile, RequestSize("m", True, 100, 1000))
    )


async def test_what_cannot_be_priced_is_refused_only_under_a_budget(tmp_path: Path) -> None:
    async with scripted_gateway(EXPENSIVE, tmp_path, prices=Prices()) as (bench, model):
        access = bench.gateway.issue(Labels("capped"), caps=Caps(tokens=10_000_000))
        refused = await bench.ask(key=access.key, speed="fast")
        free = await bench.ask(speed="fast")
        key = await bench.end(access)
    assert (refused.status, refused.headers["x-should-retry"], free.status, len(model.requests)) == (
        400,
        "false",
        200,
        1,
    )
    message = "there is a budget, and the price of `speed: fast` is not known"
    assert refused.json["error"]["message"] == f"youBencha: {message}"
    assert key.totals.no_price == message
