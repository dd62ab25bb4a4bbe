"""The Gemini API's format."""

from __future__ import annotations

import pytest

from other_wires import GEMINI, GEMINI_PATH, events
from talking import scripted, send


async def test_an_answer() -> None:
    script = """
usage: {input_tokens: 600, cache_read_input_tokens: 1400, output_tokens: 50, reasoning_tokens: 10}
turns: [{thinking: hm, text: [a, b], tools: [{name: write_file, input: {x: 1}}, {name: t, id: own}]}]
"""
    async with scripted(script) as model:
        answer = (await GEMINI.ask(model, stream=False)).json
    assert answer.pop("responseId")
    parts = [
        {"text": "hm", "thought": True},
        {"text": "a"},
        {"text": "b"},
        {"functionCall": {"name": "write_file", "args": {"x": 1}}},
        {"functionCall": {"id": "own", "name": "t", "args": {}}},
    ]
    assert answer == {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 2000,
            "candidatesTokenCount": 40,
            "totalTokenCount": 2050,
            "cachedContentTokenCount": 1400,
            "thoughtsTokenCount": 10,
        },
        "modelVersion": "gemini-test",
    }


async def test_a_stream() -> None:
    async with scripted("turns: [{text: hello, tools: [{name: t}]}]") as model:
        heard = await GEMINI.ask(model)
    chunks = events(heard.raw)
    assert heard.raw.startswith(b"data: ")
    assert [chunk["candidates"][0]["content"]["parts"] for chunk in chunks] == [
        [{"text": "he"}], [{"text": "ll"}], [{"text": "o"}], [{"functionCall": {"name": "t", "args": {}}}],
    ]  # fmt: skip
    assert ["finishReason" in chunk["candidates"][0] for chunk in chunks] == [False, False, False, True]
    assert [chunk["usageMetadata"]["totalTokenCount"] for chunk in chunks] == [100, 100, 100, 120]


async def test_a_stream_is_served_as_events_only() -> None:
    async with scripted("turns: [{text: a}]") as model:
        heard = await send(model, "POST", f"{GEMINI_PATH}:streamGenerateContent", json=GEMINI.body)
    assert (heard.status, heard.json["error"]["message"]) == (400, "alt: only sse is served here")


@pytest.mark.parametrize(
    ("stop", "finish"), [("end_turn", "STOP"), ("max_tokens", "MAX_TOKENS"), ("refusal", "SAFETY")]
)
async def test_why_the_model_stops(stop: str, finish: str) -> None:
    async with scripted(f"turns: [{{text: '', stop_reason: {stop}}}]") as model:
        (chunk,) = events((await GEMINI.ask(model)).raw)
    assert chunk["candidates"][0]["finishReason"] == finish
    assert chunk["candidates"][0]["content"]["parts"] == [{"text": ""}]


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (503, "UNAVAILABLE"),
        (529, "UNAVAILABLE"),
    ],
)
async def test_errors(status: int, name: str) -> None:
    async with scripted(f"turns: [{{error: {{status: {status}}}}}]") as model:
        heard = await GEMINI.ask(model)
    error = heard.json["error"]
    assert (heard.status, error["code"], error["status"]) == (status, status, name)
    assert error["message"]


async def test_tokens_can_be_counted() -> None:
    async with scripted("turns: [{text: a}]") as model:
        plain = await send(model, "POST", f"{GEMINI_PATH}:countTokens", json=GEMINI.body)
        nested = await send(
            model, "POST", f"{GEMINI_PATH}:countTokens", json={"generateContentRequest": {"contents": [{}]}}
        )
        bad = await send(model, "POST", f"{GEMINI_PATH}:countTokens", json={})
        assert GEMINI.text(await GEMINI.ask(model)) == "a"
    assert plain.json["totalTokens"] > nested.json["totalTokens"] > 0
    assert bad.status == 400


async def test_the_key_may_be_in_the_url() -> None:
    async with scripted("require_key: k\nturns: [{text: a}]") as model:
        heard = await send(model, "POST", f"{GEMINI.stream_path}&key=k", json=GEMINI.body)
    assert GEMINI.text(heard) == "a"


async def test_installations_are_counted_separately() -> None:
    async with scripted("turns: [{text: a}, {text: b}]") as model:
        heard = [
            GEMINI.text(await GEMINI.ask(model, headers={"x-gemini-api-privileged-user-id": user})) for user in "121"
        ]
    assert heard == ["a", "a", "b"]


async def test_the_working_directory_and_the_prompt() -> None:
    script = """
turns: [{text: main}]
conversations: [{when: {prompt_contains: WORD}, turns: [{text: "in ${cwd}"}]}]
"""
    context = "<session_context>\n- **Workspace Directories:**\n  - /the/place\n- **Directory Structure:**\n"
    early = [{"role": "user", "parts": [{"text": context}, {"text": "WORD"}]}]
    late = [{"role": "user", "parts": [{"text": context}]}, {"role": "model", "parts": [{"text": "y"}]}, early[0]]
    async with scripted(script) as model:
        assert GEMINI.text(await GEMINI.ask(model, contents=early)) == "in /the/place"
        assert GEMINI.text(await GEMINI.ask(model, contents=late)) == "main"
