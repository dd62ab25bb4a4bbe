"""Keys that are forged, missing, ended or of another trial."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gateway_bench import (
    ANTHROPIC,
    APIS,
    HELLO,
    REAL_KEY,
    START,
    STREAM_HEAD,
    Api,
    Connection,
    asking,
    chunk,
    gateway_at,
    raw_client,
    raw_gateway,
    scripted_gateway,
    soon,
)

from youbencha.errors import YouBenchaError
from youbencha.gateway import proxy
from youbencha.gateway.budget import Caps
from youbencha.gateway.call import Labels
from youbencha.gateway.gateway import Gateway
from youbencha.usage import Tokens

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.wire)


def _shape(api: Api, body: Any) -> None:
    """A 401 as each API words it."""
    match api.wire:
        case "anthropic-messages":
            assert body["type"] == "error"
            assert body["error"]["type"] == "authentication_error"
        case "gemini":
            assert (body["error"]["code"], body["error"]["status"]) == (401, "UNAUTHENTICATED")
        case _:
            assert (body["error"]["type"], body["error"]["code"]) == ("invalid_api_key", "invalid_api_key")
    said = ("this key is not valid here", "no key was sent", "this key is no longer valid")
    assert any(words in body["error"]["message"] for words in said)


@pytest.mark.parametrize("which", ["key_unknown", "key_missing", "key_expired", "key_foreign", "real"])
@each_api
async def test_invalid_keys(api: Api, which: str, tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, model):
        ended = bench.gateway.issue(Labels("ended"))
        bench.gateway.end(ended.key)
        elsewhere = bench.gateway.issue(Labels("elsewhere"), peers=frozenset({"10.0.0.1"}))
        forged = bench.access.key[:-1] + ("0" if bench.access.key[-1] != "0" else "1")
        shown = {"key_unknown": forged, "key_expired": ended.key, "key_foreign": elsewhere.key, "real": REAL_KEY}
        headers = api.key(shown[which]) if which in shown else {}
        path, body = api.request()
        answer = await bench.send("POST", path, json=body, headers=headers)
        call = await bench.call()
    assert (answer.status, answer.headers["x-should-retry"]) == (401, "false")
    assert answer.headers["content-type"].startswith("application/json")
    _shape(api, answer.json)
    assert model.requests == []
    error = "key_unknown" if which == "real" else which
    name = {"key_expired": "ended", "key_foreign": "elsewhere", "key_missing": "(none)"}.get(which, "(unknown)")
    assert (call.error, call.labels.key, call.partial, call.billed) == (error, name, False, True)
    line = bench.lines()[0]
    assert (line["key"], line["error"], line["status"]) == (name, error, 401)
    assert not any(key in bench.ledger.read_text() for key in shown.values())


async def test_each_trial_has_its_own_key(tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        first, second = (bench.gateway.issue(Labels(name)) for name in ("first", "second"))
        await bench.ask(key=first.key)
        await bench.call()
        await bench.end(first)
        assert (await bench.ask(key=first.key)).status == 401
        assert (await bench.ask(key=second.key)).status == 200
        await bench.call()
        await bench.call()
    assert [(line["key"], line["status"]) for line in bench.lines()] == [
        ("first", 200),
        ("first", 401),
        ("second", 200),
    ]
    assert bench.gateway.end(first.key) is None  # it has ended already
    assert first.key not in repr(first)


async def test_a_key_from_an_allowed_peer(tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        near = bench.gateway.issue(Labels("near"), peers=frozenset({"127.0.0.1"}))
        assert (await bench.ask(key=near.key)).status == 200


async def test_keys_cannot_be_guessed(tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        keys = {bench.gateway.issue(Labels("k")).key for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("sk-yb-") and len(key) == 54 for key in keys)


@pytest.mark.parametrize("begun", [True, False])
async def test_ending_a_key_cuts_off_its_requests(begun: bool, tmp_path: Path) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def answer(connection: Connection) -> None:
        if begun:
            await connection.say(STREAM_HEAD, b"\r\n", chunk(START))
        asked.set()
        await connection.reader.read()
        left.set()

    async with raw_gateway(answer, tmp_path) as (bench, _), raw_client(bench, asking(bench.access.key)) as client:
        await soon(asked.wait())
        if begun:
            await client.until(chunk(START))
        grant = await bench.end()
        assert await client.rest() == b""  # cut off, without an end mark
        await soon(left.wait())
    seen = Tokens(input=11, output=1) if begun else Tokens()
    call = await bench.call()
    assert (call.error, call.partial, call.tokens) == ("key_ended", True, seen)
    assert (grant.totals.total.tokens, grant.totals.total.partial, grant.busy) == (seen, True, set())
    assert [(line["key"], line["error"], line["partial"]) for line in bench.lines()] == [("trial-1", "key_ended", True)]


async def test_ending_a_key_that_waits_for_its_budget(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def answer(connection: Connection) -> None:
        asked.set()
        await connection.reader.read()

    async with raw_gateway(answer, tmp_path) as (bench, upstream):
        access = bench.gateway.issue(Labels("capped"), caps=Caps(tokens=1))
        assert not access.is_busy()
        requests = [asyncio.create_task(bench.ask(key=access.key)) for _ in range(2)]
        await soon(asked.wait())
        assert access.is_busy()
        assert not bench.access.is_busy()  # another's
        while (await bench.send("GET", "/healthz")).json["in_flight"] < 2:
            pass
        grant = await bench.end(access)
        assert not access.is_busy()
        assert all(
            isinstance(gone, aiohttp.ClientError) for gone in await asyncio.gather(*requests, return_exceptions=True)
        )
        calls = [await bench.call() for _ in range(2)]
    assert sorted((call.error, call.partial) for call in calls) == [("key_ended", False), ("key_ended", True)]
    assert (grant.account.reserved_tokens, len(upstream.seen)) == (0, 1)


async def test_closing_the_gateway_with_requests_in_progress(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def answer(connection: Connection) -> None:
        asked.set()
        await connection.reader.read()

    async with raw_gateway(answer, tmp_path) as (bench, _):
        request = asyncio.create_task(bench.ask())
        await soon(asked.wait())
        await soon(bench.gateway.__aexit__(None, None, None))
        with pytest.raises(aiohttp.ClientError):
            await request
        with pytest.raises(RuntimeError, match="not running"):
            _ = bench.gateway.url
    assert [(line["error"], line["partial"]) for line in bench.lines()] == [("key_ended", True)]


async def test_a_flood_of_bad_keys_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "_MAX_REFUSED_KEYS", 20)
    async with scripted_gateway(HELLO, tmp_path) as (bench, model):
        answers = await asyncio.gather(*(bench.ask(key=f"sk-guess-{number}") for number in range(60)))
        assert (await bench.ask()).status == 200
    assert {answer.status for answer in answers} == {401}
    assert [line["status"] for line in bench.lines()] == [401] * 20 + [200]
    assert len(model.requests) == 1


@pytest.mark.parametrize("value", ["Basic dXNlcjpwdw==", "Bearer", "Bearer ", ""])
async def test_other_authorization_schemes(value: str, tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        answer = await bench.send("POST", "/v1/messages", json=dict(ANTHROPIC.body), headers={"authorization": value})
    assert answer.status == 401


async def test_the_gateway_listens_on_loopback_only(tmp_path: Path) -> None:
    async with gateway_at("http://127.0.0.1:9", tmp_path) as bench:
        port = int(bench.gateway.url.rpartition(":")[2])
        assert bench.gateway.url == f"http://127.0.0.1:{port}"
        for other in ("127.0.0.2", "::1"):  # would both be reached by one that listens everywhere
            with pytest.raises(OSError):
                await asyncio.open_connection(other, port)


async def test_an_address_in_use(tmp_path: Path) -> None:
    async with gateway_at("http://127.0.0.1:9", tmp_path) as bench:
        port = int(bench.gateway.url.rpartition(":")[2])
        with pytest.raises(YouBenchaError, match="cannot listen on") as caught:
            await Gateway(upstreams={}, port=port).__aenter__()
    assert caught.value.code == "GATEWAY_LISTEN_FAILED"


async def test_a_sandboxs_key_is_valid_on_its_own_socket_only(tmp_path: Path) -> None:
    sockets = [tmp_path / "one.sock", tmp_path / "other.sock"]
    async with scripted_gateway(HELLO, tmp_path / "bench") as (bench, model):
        for forwarded in sockets:
            await bench.gateway.listen_on(forwarded)
        access = bench.gateway.issue(Labels("one"), peers=frozenset({str(sockets[0])}))

        async def ask(connector: aiohttp.BaseConnector, url: str) -> int:
            path, body = ANTHROPIC.request(stream=False)
            async with (
                aiohttp.ClientSession(connector=connector) as client,
                client.post(url + path, json=body, headers=ANTHROPIC.key(access.key)) as response,
            ):
                return response.status

        assert await ask(aiohttp.UnixConnector(str(sockets[0])), "http://gateway") == 200
        assert await ask(aiohttp.UnixConnector(str(sockets[1])), "http://gateway") == 401
        assert await ask(aiohttp.TCPConnector(), bench.gateway.url) == 401
        assert len(model.requests) == 1
    assert [line.get("error") for line in bench.lines()] == [None, "key_foreign", "key_foreign"]
