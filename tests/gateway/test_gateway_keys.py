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
    RawUpstream,
    asking,
    chunk,
    gateway_at,
    raw_client,
    raw_gateway,
    scripted_gateway,
    soon,
    whole,
)
from hypothesis import given
from hypothesis import strategies as st

from youbencha.errors import YouBenchaError
from youbencha.gateway import proxy, server
from youbencha.gateway.budget import Caps
from youbencha.gateway.call import Labels
from youbencha.gateway.forward import KeyMask
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.keys import KeyScope
from youbencha.gateway.upstreams import Upstream, same_for_all
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
        with pytest.raises(YouBenchaError, match="Cannot listen on") as caught:
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


# -- what a key is for


@each_api
async def test_a_key_is_valid_for_the_provider_of_its_trial(api: Api, tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, model):
        access = bench.gateway.issue(Labels("trial"), scope=KeyScope("anthropic"))
        heard = await bench.ask(api, key=access.key)
        listed = await bench.send("GET", "/v1beta/models", headers={"x-goog-api-key": access.key})
    if api is ANTHROPIC:
        assert (heard.status, len(model.requests)) == (200, 1)
    else:
        assert (heard.status, heard.headers["x-should-retry"], model.requests) == (403, "false", [])
        assert "this key is not for" in heard.json["error"]["message"]
    assert listed.status == 403


LITELLM_SCOPE = KeyScope("anthropic", ("claude-*", "anthropic/*", "ours/gpt-5", "gpt-5"))


@pytest.mark.parametrize(
    ("model", "status"),
    [("claude-opus-4-5", 200), ("CLAUDE-haiku-4-5", 200), ("gpt-5", 200), ("gpt-5-pro", 403), ("o3", 403)],
)
async def test_a_key_is_valid_for_the_models_of_its_trial(model: str, status: int, tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        access = bench.gateway.issue(Labels("trial"), scope=LITELLM_SCOPE)
        heard = await bench.ask(key=access.key, model=model)
        counted = await bench.send(
            "POST",
            "/v1/messages/count_tokens",
            json={**ANTHROPIC.body, "model": model},
            headers=ANTHROPIC.key(access.key),
        )
        call = await bench.call()
    assert (heard.status, counted.status) == (status, status)
    assert call.error == (None if status == 200 else "not_allowed")


@pytest.mark.parametrize("model", ["gpt-5-pro\n", " " * 300 + "gpt-5-pro", ["gpt-5-pro"], None])
async def test_a_request_without_a_valid_name_is_for_no_model(model: object, tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        access = bench.gateway.issue(Labels("trial"), scope=LITELLM_SCOPE)
        assert (await bench.ask(key=access.key, model=model)).status == 403


# -- who has no key


async def test_a_connection_without_a_valid_key_is_closed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "KEY_WITHIN_S", 0.2)
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        async with raw_client(bench, b"POST /v1/messages HTTP/1.1\r\nHost: x\r\n") as slow:  # never ends its headers
            assert await slow.rest() == b""
        async with raw_client(bench, asking("wrong")) as wrong:
            assert (await wrong.rest()).startswith(b"HTTP/1.1 401")
        async with raw_client(bench, asking(bench.access.key)) as valid:
            await valid.until(b"0\r\n\r\n")
            await asyncio.sleep(0.3)
            valid.writer.write(asking(bench.access.key))
            assert await valid.until(b"0\r\n\r\n"), "a connection with a valid key stays open"


async def test_the_oldest_connection_without_a_key_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    async with scripted_gateway(HELLO, tmp_path) as (bench, _):
        await soon(bench.gateway.ready())
        silent = [
            await asyncio.open_connection("127.0.0.1", int(bench.gateway.url.rpartition(":")[2])) for _ in range(3)
        ]
        assert (await bench.ask()).status == 200
        assert await soon(silent[0][0].read()) == b"", "the oldest was closed for it"
        for _, writer in silent:
            writer.close()


async def test_a_large_body_with_a_wrong_key_is_not_read(tmp_path: Path) -> None:
    head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: wrong\r\nContent-Length: 60000000\r\n\r\n"
    async with scripted_gateway(HELLO, tmp_path) as (bench, _), raw_client(bench, head) as client:
        assert b"401" in await client.until(b"\r\n")
        assert b"not valid here" in await client.rest(), "and the connection is closed, although the body did not come"


# -- a real key in an answer

PROVIDERS_KEY = "sk-of-the-provider-behind-litellm"
ECHO = f'{{"error": {{"message": "wrong key {REAL_KEY} or {PROVIDERS_KEY}: {REAL_KEY}"}}}}'.encode()


def _upstreams(url: str, *, is_litellm: bool) -> dict[Any, Upstream]:
    return same_for_all(url, REAL_KEY, is_litellm=is_litellm, secrets=(PROVIDERS_KEY,))


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "500 Internal Server Error"])
@pytest.mark.parametrize("is_litellm", [False, True])
async def test_a_real_key_in_an_answer_is_masked(is_litellm: bool, status: str, tmp_path: Path) -> None:
    async def answer(connection: Connection) -> None:
        await connection.say(whole(ECHO, status=status, headers=f"X-Echo: Bearer {REAL_KEY}\r\n"))

    async with RawUpstream(answer) as upstream:
        given = _upstreams(upstream.url, is_litellm=is_litellm)
        async with gateway_at(upstream.url, tmp_path, upstreams=given) as bench:
            heard = await bench.ask(stream=False)
    stars = "*" * len(REAL_KEY)
    message = heard.json["error"]["message"]
    assert message == f"wrong key {stars} or {'*' * len(PROVIDERS_KEY)}: {stars}"
    assert (heard.headers["x-echo"], len(heard.raw)) == (f"Bearer {stars}", len(ECHO))


async def test_a_real_key_is_masked_wherever_a_stream_splits_it(tmp_path: Path) -> None:
    text = b"data: " + REAL_KEY.encode() + b" and the-re\n\ndata: the-real-ke\n\n" + REAL_KEY.encode()

    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, b"\r\n")
        for number in range(len(text)):
            await connection.say(chunk(text[number : number + 1]))
        await connection.say(chunk(b""))

    async with raw_gateway(answer, tmp_path) as (bench, _):
        heard = await bench.ask()
    assert heard.raw == text.replace(REAL_KEY.encode(), b"*" * len(REAL_KEY))


@given(st.lists(st.sampled_from([b"the-real", b"-key", b"the-", b"real-key", b"t", b"\n", b"}", b"x"]), max_size=12))
def test_masking_does_not_depend_on_chunks(pieces: list[bytes]) -> None:
    mask = KeyMask([REAL_KEY, "no-key"])
    chunked = b"".join(map(mask.feed, [*pieces, b""]))
    assert chunked == b"".join(pieces).replace(REAL_KEY.encode(), b"*" * len(REAL_KEY))
