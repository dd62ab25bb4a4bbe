"""Properties of every API of the scripted model: one script, the same turns and the same faults."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import aiohttp
import pytest

from other_wires import CHAT, CLIENTS, GEMINI, RESPONSES, SYSTEM, Client, events
from talking import scripted, send
from youbencha.scripted_model import ScriptedModel

every_wire = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.wire)

RICH = """
model: the-model
turns:
- thinking: Let me think about that.
  text: I will write it.
  tools:
  - {name: shell, input: {command: [echo, "ü \\"quoted\\""]}, id: call_own}
  - {name: shell}
  times: forever
"""


@every_wire
async def test_a_stream_equals_the_complete_answer(client: Client) -> None:
    async with scripted(RICH) as model:
        streamed, whole = client.heard(await client.ask(model)), client.heard(await client.ask(model, stream=False))
    assert same_but_for_ids(streamed) == same_but_for_ids(whole)
    assert "the-model" in json.dumps(whole)


def same_but_for_ids(answer: object) -> object:
    changing = {"id", "call_id", "responseId", "created", "created_at", "encrypted_content"}
    if isinstance(answer, dict):
        return {key: same_but_for_ids(value) for key, value in answer.items() if key not in changing}
    return [same_but_for_ids(item) for item in answer] if isinstance(answer, list) else answer


@every_wire
async def test_turns_side_requests_and_recorded_requests(client: Client) -> None:
    async with scripted("turns: [{text: one}, {text: two}]\nside: {text: aside}") as model:
        texts = [client.text(await client.ask(model, **more)) for more in ({}, {"tools": None}, {"stream": False})]
        exhausted = await client.ask(model)
        await send(model, "GET", "/nowhere")
    assert texts == ["one", "aside", "two"]
    assert (exhausted.status, exhausted.headers["x-should-retry"]) == (400, "false")
    assert client.error(exhausted.json) == "script exhausted after 2 turns"
    assert [(r.kind, r.turn, r.wire) for r in model.requests] == [
        ("turn", 0, client.wire), ("side", None, client.wire), ("turn", 1, client.wire),
        ("turn", None, client.wire), ("other", None, None),
    ]  # fmt: skip


@every_wire
async def test_conversations_are_chosen_by_system_prompt_and_model(client: Client) -> None:
    script = """
turns: [{text: main}]
conversations:
- {when: {system_contains: careful, prompt_contains: do it, model: "*-test"}, turns: [{text: matched}]}
"""
    async with scripted(script) as model:
        assert client.text(await client.ask(model)) == "matched"
    async with scripted(script.replace("careful", "careless")) as model:
        assert client.text(await client.ask(model)) == "main"


@every_wire
async def test_a_key_can_be_required(client: Client) -> None:
    async with scripted("require_key: k\nturns: [{text: a}]") as model:
        right = await client.ask(model)
        wrong = await client.ask(model, headers=dict.fromkeys(client.key, "Bearer other"))
    assert (right.status, wrong.status) == (200, 401)
    assert "API key" in client.error(wrong.json)
    assert client.text(right) == "a"


@every_wire
async def test_without_a_session_keys_are_counted_separately(client: Client) -> None:
    async with scripted("turns: [{text: a}, {text: b}]") as model:
        (name,) = client.key
        heard = [client.text(await client.ask(model, headers={name: key})) for key in ("Bearer 1", "Bearer 2")]
    assert heard == ["a", "a"]


@every_wire
@pytest.mark.parametrize("stream", [True, False])
async def test_errors_have_the_scripts_status_and_message(client: Client, stream: bool) -> None:
    error = "{status: 429, message: Slow down, headers: {Retry-After: 7}}"
    async with scripted(f"turns: [{{error: {error}}}, {{error: {{status: 529}}}}]") as model:
        limited, overloaded = await client.ask(model, stream=stream), await client.ask(model, stream=stream)
    assert (limited.status, limited.headers["retry-after"]) == (429, "7")
    assert client.error(limited.json) == "Slow down"
    assert (overloaded.status, "overloaded" in client.error(overloaded.json)) == (529, True)


@every_wire
async def test_an_error_within_a_stream(client: Client) -> None:
    async with scripted("turns: [{text: hello, error_mid_stream: {message: Oh}, times: 2}]") as model:
        streamed, whole = await client.ask(model), await client.ask(model, stream=False)
    *begun, last = events(streamed.raw)
    assert begun
    assert "Oh" in json.dumps(last)
    assert not any("Oh" in json.dumps(event) for event in begun)
    assert b"[DONE]" not in streamed.raw
    assert (whole.status, client.error(whole.json)) == (529, "Oh")


@every_wire
async def test_a_connection_that_is_dropped(client: Client) -> None:
    async with scripted("turns: [{text: hello, drop: {after_events: 2}}, {text: again}]") as model:
        raw = await until_it_breaks(model, client)
        assert client.text(await client.ask(model)) == "again"
    assert len(events(raw)) == 2


async def until_it_breaks(model: ScriptedModel, client: Client) -> bytes:
    raw = b""
    body = client.body if client.wire == "gemini" else {**client.body, "stream": True}
    async with (
        aiohttp.ClientSession() as session,
        session.post(model.url + client.stream_path, json=body, headers=client.key) as response,
    ):
        with contextlib.suppress(aiohttp.ClientPayloadError):
            async for piece in response.content.iter_any():
                raw += piece
            pytest.fail("the answer ended well")
    return raw


@every_wire
async def test_a_hanging_stream_starts_with_an_event(client: Client) -> None:
    async with scripted("turns: [{text: hello, hang: true}]") as model, aiohttp.ClientSession() as session:
        body = client.body if client.wire == "gemini" else {**client.body, "stream": True}
        async with session.post(model.url + client.stream_path, json=body) as response, asyncio.timeout(10):
            raw = b""
            while b"he" not in raw:
                raw += await response.content.readany()
    assert b"hello" not in raw


@every_wire
async def test_a_body_in_pieces(client: Client) -> None:
    async with scripted("turns: [{text: hellö, chunk_bytes: 7}]") as model:
        assert client.text(await client.ask(model)) == "hellö"


@every_wire
async def test_garbage(client: Client) -> None:
    async with scripted("turns: [{garbage: <html>}]") as model:
        heard = await client.ask(model)
    assert (heard.status, heard.raw) == (200, b"<html>")


@every_wire
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}"])
async def test_an_invalid_body_takes_no_turn(client: Client, data: bytes) -> None:
    async with scripted("turns: [{text: a}]") as model:
        heard = await send(model, "POST", client.path, data=data)
        assert heard.status == 400
        assert client.error(heard.json)
        assert client.text(await client.ask(model)) == "a"


@pytest.mark.parametrize(
    ("client", "empty", "message"),
    [
        (CHAT, {"messages": []}, "messages: at least one message is required"),
        (CHAT, {"messages": "hi"}, "messages: must be a list"),
        (RESPONSES, {"input": []}, "input: at least one item is required"),
        (RESPONSES, {"input": 5}, "input: must be text or a list"),
        (GEMINI, {"contents": []}, "contents is not specified"),
    ],
)
async def test_invalid_requests_are_reported(client: Client, empty: dict[str, Any], message: str) -> None:
    async with scripted("turns: [{text: a}]") as model:
        heard = await client.ask(model, **empty)
    assert (heard.status, client.error(heard.json)) == (400, message)


@every_wire
async def test_a_prefix_of_the_path_is_accepted(client: Client) -> None:
    async with scripted("turns: [{text: a}]") as model:
        heard = await send(model, "POST", "/t/abc" + client.path, json=client.body)
    assert client.text(heard) == "a"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", GEMINI.path])
async def test_get_is_not_served(path: str) -> None:
    async with scripted("turns: [{text: a}]") as model:
        assert (await send(model, "GET", path)).status == 404


MODELS = [
    ("/v1/models", {"authorization": "Bearer k"}, "openai-chat"),
    ("/v1/models", {"authorization": "Bearer k", "anthropic-version": "2023-06-01"}, "anthropic-messages"),
    ("/v1/models", {"x-goog-api-key": "k"}, "gemini"),
    ("/v1/models", {}, "anthropic-messages"),
    ("/v1beta/models", {}, "gemini"),
]


@pytest.mark.parametrize(("path", "headers", "wire"), MODELS)
async def test_models_are_listed_as_the_client_expects_them(path: str, headers: dict[str, str], wire: str) -> None:
    async with scripted("model: m1\nturns: [{text: a}]") as model:
        listed = (await send(model, "GET", path, headers=headers)).json
    assert model.requests[0].wire == wire
    match wire:
        case "gemini":
            assert [entry["name"] for entry in listed["models"]] == ["models/m1"]
        case "openai-chat":
            assert (listed["object"], [entry["object"] for entry in listed["data"]]) == ("list", ["model"])
        case _:
            assert [entry["type"] for entry in listed["data"]] == ["model"]


@every_wire
async def test_the_system_prompt_is_not_part_of_the_prompt(client: Client) -> None:
    script = f"turns: [{{text: main}}]\nconversations: [{{when: {{prompt_contains: {SYSTEM}}}, turns: [{{text: no}}]}}]"
    async with scripted(script) as model:
        assert client.text(await client.ask(model)) == "main"
