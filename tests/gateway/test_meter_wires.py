"""What the meters read from real answers of each API, and from invalid ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from metered_streams import SCRIPT, WIRE_NAMES, Answer, answer, answers, every_answer, fetch

from talking import scripted
from youbencha.gateway.metering import Metered
from youbencha.gateway.wires import WIRES, WireName
from youbencha.usage import Tokens

every_wire = pytest.mark.parametrize("wire", WIRE_NAMES)

SAID = Tokens(input=1234, output=56, cache_read=700, cache_creation=80)
OF_GEMINI = Tokens(input=1234 + 80, output=56, cache_read=700, cache_creation=None)
"""It does not say what it keeps: that is a part of its input."""


def events(*events: dict[str, Any] | str) -> bytes:
    written = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {data}\n\n" for data in written).encode()


def of_events(wire: WireName, *given: dict[str, Any] | str) -> Metered:
    return Answer(wire, "text/event-stream", events(*given)).metered()


def of_body(wire: WireName, body: Any) -> Metered:
    return Answer(wire, "application/json; charset=utf-8", json.dumps(body).encode()).metered()


@every_answer
def test_sums_match_the_script(wire: WireName, stream: bool) -> None:
    given = answer(wire, stream)
    metered = given.metered()
    assert metered.tokens == (OF_GEMINI if given.wire == "gemini" else SAID)
    assert (metered.model, metered.complete, metered.error) == ("the-model", True, None)


@pytest.mark.parametrize("turn", ["text: done", "text: one moment, tools: [{name: shell}]"])
def test_answers_that_call_a_tool_are_told_from_others(turn: str) -> None:
    for given in answers(f"turns: [{{times: forever, {turn}}}]"):
        assert given.metered().calls_tool == ("tools" in turn), (given.wire, given.is_stream)


@every_answer
def test_a_meter_can_be_read_at_any_time(wire: WireName, stream: bool) -> None:
    given = answer(wire, stream)
    meter = WIRES[given.wire].meter(given.content_type)
    assert meter.result() == Metered()
    for start in range(0, len(given.raw), 50):
        meter.feed(given.raw[start : start + 50])
        meter.result()
    assert meter.result() == meter.result() == given.metered()


@every_wire
async def test_zero_is_not_unknown(wire: WireName) -> None:
    async with scripted("turns: [{text: a, usage: {input_tokens: 0, output_tokens: 0}, times: forever}]") as model:
        for stream in (True, False):
            metered = (await fetch(model, wire, stream=stream)).metered()
            assert metered.tokens == Tokens(0, 0, 0, None if wire == "gemini" else 0)
            assert metered.complete


@every_wire
async def test_an_error_within_a_stream(wire: WireName) -> None:
    words = {
        "anthropic-messages": "overloaded_error",
        "openai-chat": "server_is_overloaded",
        "openai-responses": "server_is_overloaded",
        "gemini": "UNAVAILABLE",
    }
    async with scripted("turns: [{text: some text, error_mid_stream: {status: 529}, times: forever}]") as model:
        streamed = (await fetch(model, wire, stream=True)).metered()
        whole = (await fetch(model, wire, stream=False)).metered()
    assert (streamed.error, streamed.complete) == (words[wire], False)
    assert (whole.error, whole.complete, whole.tokens) == (words[wire], False, Tokens())


@every_wire
async def test_a_stream_that_stops_is_a_lower_bound(wire: WireName) -> None:
    async with scripted(SCRIPT) as model:
        whole = await fetch(model, wire, stream=True)
    half = whole._replace(raw=whole.raw[: len(whole.raw) // 2]).metered()
    assert not half.complete
    assert half.model == "the-model"
    known = {"anthropic-messages": SAID._replace(output=1), "gemini": Tokens(input=1234 + 700 + 80, cache_read=0)}
    assert half.tokens == known.get(wire, Tokens())


async def test_a_chat_stream_without_requested_usage() -> None:
    async with scripted(SCRIPT) as model:
        metered = (await fetch(model, "openai-chat", stream=True, with_usage=False)).metered()
    assert (metered.tokens, metered.complete, metered.model) == (Tokens(), False, "the-model")


def test_chat_needs_its_final_event() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}}
    assert not of_events("openai-chat", usage).complete
    assert of_events("openai-chat", usage, "[DONE]").complete
    assert not of_events("openai-chat", {"choices": [], "usage": {"prompt_tokens": 5}}, "[DONE]").complete


# -- Anthropic: the latest number of each kind


def test_the_latest_number_of_each_kind_counts() -> None:
    start = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0}
    metered = of_events(
        "anthropic-messages",
        {"type": "message_start", "message": {"model": "m", "usage": start}},
        {"type": "message_delta", "usage": {"output_tokens": 7, "input_tokens": 12, "cache_read_input_tokens": None}},
        {"type": "message_delta", "usage": {"output_tokens": 9, "server_tool_use": {"web_search_requests": 1}}},
        {"type": "message_stop"},
    )
    assert metered[:3] == (Tokens(12, 9, 5, 0), "m", True)


def test_message_stop_alone_is_not_a_final_count() -> None:
    start = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 10, "output_tokens": 1}}}
    metered = of_events("anthropic-messages", start, {"type": "message_stop"})
    assert (metered.tokens, metered.complete) == (Tokens(10, 1), False)


@pytest.mark.parametrize(("kept", "hour", "expected"), [(90, 70, 70), (50, 70, 50), (None, 70, 0), (90, "x", 0)])
def test_one_hour_cache_tokens(kept: int | None, hour: Any, expected: int) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": kept}
    usage["cache_creation"] = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": hour}
    assert of_body("anthropic-messages", {"type": "message", "usage": usage}).cache_creation_1h == expected


# -- OpenAI: cached tokens are in its input, and not in ours


@pytest.mark.parametrize(
    ("details", "tokens"),
    [
        (None, Tokens(100, 7)),
        ({}, Tokens(100, 7)),
        ({"cached_tokens": 60}, Tokens(40, 7, 60)),
        ({"cached_tokens": 60, "cache_creation_tokens": 10}, Tokens(30, 7, 60, 10)),
        ({"cached_tokens": 60, "cache_write_tokens": 0, "cache_creation_tokens": 9}, Tokens(40, 7, 60, 0)),
        ({"cached_tokens": 300}, Tokens(100, 7, 300)),  # more than all: so it was counted apart
        ({"cached_tokens": 90, "cache_write_tokens": 20}, Tokens(10, 7, 90, 20)),
    ],
)
def test_cached_tokens_are_subtracted(details: Any, tokens: Tokens) -> None:
    chat = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": details}
    response = {"input_tokens": 100, "output_tokens": 7, "input_tokens_details": details}
    assert of_body("openai-chat", {"usage": chat}).tokens == tokens
    assert of_body("openai-responses", {"usage": response}).tokens == tokens
    streamed = of_events("openai-responses", {"type": "response.incomplete", "response": {"usage": response}})
    assert (streamed.tokens, streamed.complete) == (tokens, True)


def test_a_failed_response_has_usage_and_an_error() -> None:
    failed = {"error": {"code": "server_error", "message": "sk-secret"}, "model": "m"}
    failed["usage"] = {"input_tokens": 3, "output_tokens": 4}
    metered = of_events("openai-responses", {"type": "response.failed", "response": failed})
    assert (metered.tokens, metered.error, metered.complete) == (Tokens(3, 4), "server_error", True)
    assert (
        of_events("openai-responses", {"type": "error", "code": "rate_limit_exceeded"}).error == "rate_limit_exceeded"
    )


@pytest.mark.parametrize("error", ["all the words of it", {"message": "m"}, {"code": 500}, {"type": "a b"}, [1]])
def test_unknown_error_types_are_replaced(error: Any) -> None:
    assert of_events("openai-chat", {"error": error}).error == "unknown_error"


# -- Gemini: totals so far, zeros left out


def test_gemini_counts_include_thoughts_and_tools() -> None:
    usage = {"promptTokenCount": 100, "cachedContentTokenCount": 30, "toolUsePromptTokenCount": 5}
    early = {"usageMetadata": {**usage, "thoughtsTokenCount": 3}, "candidates": [{"content": {"parts": []}}]}
    late = {"usageMetadata": {"candidatesTokenCount": 20, "thoughtsTokenCount": 8}}
    late["candidates"] = [{"finishReason": "STOP"}]  # type: ignore[assignment]
    begun = of_events("gemini", early)
    assert (begun.tokens, begun.complete) == (Tokens(75, 3, 30), False)
    whole = of_events("gemini", early, late)
    assert (whole.tokens, whole.complete) == (Tokens(75, 28, 30), True)
    assert of_body("gemini", [early, late]).tokens == whole.tokens  # a stream that was not asked for as events


def test_a_gemini_refusal_has_no_output() -> None:
    usage = {"promptTokenCount": 9, "totalTokenCount": 9}
    refused = of_body("gemini", {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage})
    assert (refused.tokens, refused.complete) == (Tokens(9, 0, 0), True)
    wrote = {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}], "usageMetadata": usage}
    assert (of_body("gemini", wrote).tokens.output, of_body("gemini", wrote).complete) == (None, False)


def test_one_of_two_candidates_is_not_the_end() -> None:
    counts = {"promptTokenCount": 1, "candidatesTokenCount": 2}
    first = {"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": counts}
    second = {"candidates": [{"index": 1}], "usageMetadata": counts}
    assert of_events("gemini", second, first).complete
    assert not of_events("gemini", first, second).complete


# -- what costs something else than plain tokens

USAGE = {"input_tokens": 9, "output_tokens": 9, "prompt_tokens": 9, "completion_tokens": 9}
SEARCHED = {"groundingMetadata": {"webSearchQueries": ["a", "b"]}, "finishReason": "STOP"}


@pytest.mark.parametrize(
    ("wire", "body", "extras"),
    [
        (
            "anthropic-messages",
            {"usage": {**USAGE, "server_tool_use": {"web_search_requests": 3}}},
            {"web_searches": 3},
        ),
        ("anthropic-messages", {"usage": {**USAGE, "server_tool_use": None}}, {}),
        ("openai-chat", {"usage": {**USAGE, "prompt_tokens_details": {"audio_tokens": 5}}}, {"input_audio": 5}),
        ("openai-chat", {"usage": {**USAGE, "completion_tokens_details": {"audio_tokens": 6}}}, {"output_audio": 6}),
        (
            "openai-responses",
            {
                "usage": USAGE,
                "output": [
                    {"type": "web_search_call", "action": {"type": "search"}},
                    {"type": "web_search_call", "action": {"type": "open_page"}},
                    {"type": "file_search_call"},
                    {"type": "message"},
                ],
            },
            {"web_searches": 1, "storage_searches": 1},
        ),
        ("gemini", {"candidates": [SEARCHED], "modelVersion": "gemini-3-pro"}, {"web_searches": 2}),
        ("gemini", {"candidates": [SEARCHED], "modelVersion": "gemini-2.5-pro"}, {"web_searches": 1}),
        (
            "gemini",
            {
                "usageMetadata": {
                    "promptTokensDetails": [
                        {"modality": "TEXT", "tokenCount": 1},
                        {"modality": "AUDIO", "tokenCount": 2},
                    ],
                    "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1290}],
                }
            },
            {"input_audio": 2, "output_image": 1290},
        ),
    ],
)
def test_searches_sound_and_images(wire: WireName, body: dict[str, Any], extras: dict[str, int]) -> None:
    assert of_body(wire, body).extras == extras


# -- what is no number, no name, no answer


@every_wire
@pytest.mark.parametrize("odd", [True, 1.0, -1, "5", None, 10**13, 10**30, [1], {"a": 1}])
def test_an_invalid_count_is_unknown(wire: WireName, odd: Any) -> None:
    bodies: dict[WireName, Any] = {
        "anthropic-messages": {"usage": {"input_tokens": odd, "output_tokens": 2}},
        "openai-chat": {"usage": {"prompt_tokens": odd, "completion_tokens": 2}},
        "openai-responses": {"usage": {"input_tokens": odd, "output_tokens": 2}},
        "gemini": {"usageMetadata": {"promptTokenCount": odd}, "candidates": [{"finishReason": "STOP"}]},
    }
    metered = of_body(wire, bodies[wire])
    assert (metered.tokens.input, metered.complete) == (None, False)


@every_wire
@pytest.mark.parametrize("odd", [None, 3, "text", [], [[]], {"usage": [], "choices": 3, "candidates": [1], "error": 0}])
def test_json_that_is_not_an_answer(wire: WireName, odd: Any) -> None:
    for metered in (of_body(wire, odd), of_events(wire, json.dumps(odd))):
        assert (metered.tokens, metered.complete, metered.error) == (Tokens(), False, None)


@pytest.mark.parametrize("name", ["", "x" * 300, "a\nb", 3, None])
def test_an_invalid_model_name_is_ignored(name: Any) -> None:
    chunks = ({"model": "real"}, {"model": name})
    assert of_events("openai-chat", *chunks).model == "real"


@pytest.mark.parametrize("text", [r"half \ud83d", "caf\xe9"])
def test_invalid_characters_do_not_lose_the_counts(text: str) -> None:
    raw = b'{"type":"message","content":"' + text.encode("latin-1") + b'","usage":{"input_tokens":3,"output_tokens":4}}'
    metered = Answer("anthropic-messages", "application/json", raw).metered()
    assert (metered.tokens, metered.complete) == (Tokens(3, 4), True)


def test_endless_nesting_is_not_an_answer() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert Answer("gemini", "application/json", deep).metered().tokens == Tokens()


def test_streams_without_names_of_events() -> None:
    named = answer("anthropic-messages")
    bare = b"".join(b"data: " + part.partition(b"\ndata: ")[2] + b"\n\n" for part in named.raw.split(b"\n\n")[:-1])
    assert named._replace(raw=bare).metered() == named.metered()
    responses = answer("openai-responses")
    bare = b"\n".join(line for line in responses.raw.split(b"\n") if not line.startswith(b"event: "))
    assert responses._replace(raw=bare).metered() == responses.metered()
