"""Usage is counted to the token; and which side sees which key."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from gateway_bench import ANTHROPIC, APIS, CHAT, GEMINI, REAL_KEY, Api, Connection, raw_gateway, scripted_gateway, whole

from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.prices import Prices
from youbencha.spec.gateway import CassetteMode, ModelPrice
from youbencha.usage import Tokens

USAGE = {
    "input_tokens": 1000,
    "output_tokens": 25,
    "cache_read_input_tokens": 700,
    "cache_creation_input_tokens": 50,
    "reasoning_tokens": 5,
}
SCRIPT = json.dumps({"usage": USAGE, "turns": [{"text": "hello", "times": "forever"}]})
ALL = Tokens(input=1000, output=25, cache_read=700, cache_creation=50)
SAID = {"anthropic-messages": ALL, "openai-chat": ALL, "openai-responses": ALL}
each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.wire)


@each_api
async def test_sums_match_the_script(api: Api, tmp_path: Path) -> None:
    # Google's API does not say what it puts into its cache: there it is a part of the input.
    each = SAID.get(api.wire, Tokens(input=1050, output=25, cache_read=700))
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, model):
        for stream in (True, False, True):
            answer = await bench.ask(api, stream=stream)
            call = await bench.call()
            assert (answer.status, call.tokens, call.stream) == (200, each, stream)
            assert (call.partial, call.error, call.wire) == (False, None, api.wire)
        totals = (await bench.end()).totals
    assert totals.total.tokens == Tokens(*(None if count is None else 3 * count for count in each))
    assert (totals.requests, totals.total.requests, totals.failed, totals.total.partial) == (3, 3, 0, False)
    assert len(model.requests) == 3


async def test_cost_includes_all_kinds_of_tokens(tmp_path: Path) -> None:
    prices = Prices({"claude-*": ModelPrice(input=1, output=2, cache_read=0.1, cache_write=3)})
    async with scripted_gateway(SCRIPT, tmp_path, prices=prices) as (bench, _):
        await bench.ask()
        await bench.call()
        grant = await bench.end()
    cost = Decimal("0.00127")  # (1000 · 1 + 25 · 2 + 700 · 0.1 + 50 · 3) / a million
    assert (grant.account.spent_usd, grant.totals.total.cost_usd) == (cost, cost)
    assert grant.account.spent_tokens == 1775
    assert bench.lines()[0]["cost_usd"] == float(cost)


async def test_an_unknown_price_is_unknown(tmp_path: Path) -> None:
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, _):
        await bench.ask(model="nobody-knows-me")
        call = await bench.call()
        totals = (await bench.end()).totals
    assert (call.tokens, call.cost_usd) == (ALL, None)
    assert (totals.total.unpriced, totals.total.cost_usd) == (1, None)


@pytest.mark.parametrize(
    ("method", "path", "api"),
    [
        ("POST", "/v1/messages/count_tokens", ANTHROPIC),
        ("POST", "/v1beta/models/gemini-2.5-pro:countTokens", GEMINI),
        ("GET", "/v1/models", ANTHROPIC),
        ("GET", "/v1/models/claude-opus-4-5", ANTHROPIC),
        ("GET", "/v1/models", CHAT),
        ("GET", "/v1beta/models", GEMINI),
    ],
)
async def test_free_requests(method: str, path: str, api: Api, tmp_path: Path) -> None:
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, model):
        body = {"json": api.request()[1]} if method == "POST" else {}
        answer = await bench.send(method, path, headers=api.key(bench.access.key), **body)
        call = await bench.call()
        grant = await bench.end()
    assert answer.status == 200
    assert (call.billed, call.tokens, call.cost_usd, call.partial, call.error) == (False, Tokens(), None, False, None)
    assert (grant.account.spent_tokens, grant.totals.total.requests, grant.totals.requests) == (0, 0, 1)
    assert model.requests[0].headers[api.key_header].endswith(REAL_KEY)


@pytest.mark.parametrize("accepted", ["identity", "gzip, deflate, br"])
async def test_a_chat_stream_without_requested_usage(accepted: str, tmp_path: Path) -> None:
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, model):
        answer = await bench.ask(CHAT, headers={"Accept-Encoding": accepted})
        call = await bench.call()
        asked_for = await bench.ask(CHAT, stream_options={"include_usage": True})
    assert call.tokens == ALL
    assert model.requests[0].body["stream_options"] == {"include_usage": True}
    assert model.requests[0].headers["accept-encoding"] == "identity"
    assert answer.raw.endswith(b"data: [DONE]\n\n")
    assert b"prompt_tokens" not in answer.raw
    assert b"prompt_tokens" in asked_for.raw


async def test_a_replayed_chat_stream_without_requested_usage(tmp_path: Path) -> None:
    """Its usage is on the cassette, for the meter; the client still does not see it."""
    modes: tuple[CassetteMode, ...] = ("record", "replay")
    for mode in modes:
        async with scripted_gateway(SCRIPT, tmp_path, cassette=Cassette(tmp_path / "cassette", mode)) as (bench, model):
            answer = await bench.ask(CHAT)
            call = await bench.call()
        assert (call.tokens, call.replayed, len(model.requests)) == (ALL, mode == "replay", int(mode == "record"))
        assert answer.raw.endswith(b"data: [DONE]\n\n")
        assert b"prompt_tokens" not in answer.raw


async def test_an_error_of_a_chat_stream_is_unchanged(tmp_path: Path) -> None:
    async def refuse(connection: Connection) -> None:
        await connection.say(whole(b'{"error": {"message": "no"}}\n\n{"choices": [], "usage": {}}', "400 Bad Request"))

    async with raw_gateway(refuse, tmp_path) as (bench, _):
        answer = await bench.ask(CHAT)
    assert (answer.status, answer.headers["content-length"]) == (400, "58")
    assert answer.raw == b'{"error": {"message": "no"}}\n\n{"choices": [], "usage": {}}'


async def test_a_body_with_a_lone_surrogate_is_metered(tmp_path: Path) -> None:
    """What JavaScript makes of an emoji that was cut in two."""
    body = json.dumps({**CHAT.body, "stream": True, "user": "\ud83d"}).encode()
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, _):
        await bench.send("POST", CHAT.path, data=body, headers=CHAT.key(bench.access.key))
        call = await bench.call()
    assert (call.tokens, call.requested_model) == (ALL, "gpt-4o")


async def test_request_to_the_upstream(tmp_path: Path) -> None:
    headers = {"anthropic-beta": "context-1m", "anthropic-version": "2023-06-01", "User-Agent": "agent/1"}
    body = {**ANTHROPIC.body, "number": 1.10}
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, model):
        sent = {**headers, "x-api-key": bench.access.key}
        await bench.send("POST", "/v1/messages?beta=true&flag&x=%2F", json=body, headers=sent)
    heard = model.requests[0]
    assert heard.path == "/v1/messages?beta=true&flag&x=%2F"
    assert heard.body == body
    assert {name: heard.headers[name.lower()] for name in headers} == headers
    assert heard.headers["x-api-key"] == REAL_KEY


async def test_a_repeated_header(tmp_path: Path) -> None:
    async def answer(connection: Connection) -> None:
        await connection.say(whole(b"{}", headers="x-limit: a\r\nx-limit: b\r\n"))

    async with raw_gateway(answer, tmp_path) as (bench, upstream):
        headers = [("anthropic-beta", "a"), ("anthropic-beta", "b"), ("x-api-key", bench.access.key)]
        async with bench.client.post(bench.gateway.url + "/v1/messages", json={}, headers=headers) as response:
            assert response.headers.getall("x-limit") == ["a", "b"]
    assert upstream.seen[0].header("anthropic-beta") == ["a", "b"]


WAYS: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("x-api-key", {"x-api-key": "KEY"}, {}),
    ("bearer", {"authorization": "Bearer KEY"}, {}),
    ("bearer in small letters", {"authorization": "bearer KEY"}, {}),
    ("google's header", {"x-goog-api-key": "KEY"}, {}),
    ("query", {}, {"key": "KEY"}),
    ("everywhere", {"x-api-key": "KEY", "api-key": "KEY", "x-other": "a KEY b"}, {"key": "KEY", "again": "KEY"}),
]


@pytest.mark.parametrize(("headers", "query"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS])
@each_api
async def test_each_way_to_pass_a_key(api: Api, headers: dict[str, str], query: dict[str, str], tmp_path: Path) -> None:
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, model):
        key = bench.access.key

        def filled(texts: dict[str, str]) -> dict[str, str]:
            return {name: text.replace("KEY", key) for name, text in texts.items()}

        path = f"{api.path}?{urlencode({'a': '1', **filled(query)})}"
        answer = await bench.send("POST", path, json=api.request(stream=False)[1], headers=filled(headers))
    heard = model.requests[0]
    everything: Any = (heard.path, heard.headers, heard.body)
    assert answer.status == 200
    assert heard.path == f"{api.path}?a=1"
    assert key not in repr(everything)
    assert [value for value in heard.headers.values() if REAL_KEY in value] == [api.key(REAL_KEY)[api.key_header]]


async def test_a_key_parameter_with_an_encoded_name(tmp_path: Path) -> None:
    async with scripted_gateway(SCRIPT, tmp_path) as (bench, model):
        path = f"/v1/messages?%6Bey={bench.access.key}&%6Bey=other"
        assert (await bench.send("POST", path, json=ANTHROPIC.body)).status == 200
    assert model.requests[0].path == "/v1/messages"
