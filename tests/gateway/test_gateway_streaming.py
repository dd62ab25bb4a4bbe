"""Streams: passed on immediately, byte for byte; and disconnects in the middle."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import time
import zlib
from pathlib import Path

import aiohttp
import pytest
from gateway_bench import (
    ANTHROPIC,
    APIS,
    CHAT,
    EVENTS,
    MESSAGE,
    REAL_KEY,
    START,
    STREAM_HEAD,
    Api,
    Connection,
    asking,
    chunk,
    raw_client,
    raw_gateway,
    scripted_gateway,
    soon,
    whole,
)

from youbencha.gateway.budget import Caps
from youbencha.gateway.call import Labels
from youbencha.gateway.cassette.cassette import Cassette
from youbencha.scripted_model import ScriptedModel, parse_script
from youbencha.usage import Tokens

SEEN = Tokens(input=11, output=7)


async def test_each_event_arrives_before_the_next_is_sent(tmp_path: Path) -> None:
    """The upstream sends an event only when the client says that it has the one before."""
    confirmed: asyncio.Queue[None] = asyncio.Queue()

    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, b"\r\n")
        for event in EVENTS:
            await confirmed.get()
            await connection.say(chunk(event))
        await connection.say(chunk(b""))

    async with raw_gateway(answer, tmp_path) as (bench, _), raw_client(bench, asking(bench.access.key)) as client:
        head = await client.until(b"\r\n\r\n")  # nothing of the body has been sent yet
        for event in EVENTS:
            confirmed.put_nowait(None)
            assert await client.until(chunk(event)) == chunk(event)
        assert await client.until(chunk(b"")) == chunk(b"")
        call = await bench.call()
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
    assert (call.tokens, call.partial, call.error) == (SEEN, False, None)


async def test_the_usage_filter_holds_no_event_back(tmp_path: Path) -> None:
    confirmed: asyncio.Queue[None] = asyncio.Queue()
    first = b'data: {"choices": [{"delta": {"content": "a"}}], "usage": null}\n\n'
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}\n\n'

    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, b"\r\n", chunk(first))
        await confirmed.get()
        await connection.say(chunk(usage), chunk(b"data: [DONE]\n\n"), chunk(b""))

    body = json.dumps({**CHAT.body, "stream": True}).encode()
    async with raw_gateway(answer, tmp_path) as (bench, _):
        async with raw_client(bench, asking(bench.access.key, body, path=CHAT.path)) as client:
            await client.until(chunk(first))
            confirmed.put_nowait(None)
            assert b"prompt_tokens" not in await client.until(b"0\r\n\r\n")
        call = await bench.call()
    assert call.tokens == Tokens(input=3, output=4)


@pytest.mark.parametrize("stream", [True, False])
async def test_pieces_of_one_byte(stream: bool, tmp_path: Path) -> None:
    script = "usage: {input_tokens: 9, output_tokens: 5}\nturns: [{text: hello, chunk_bytes: 1}, {text: hello}]"
    async with scripted_gateway(script, tmp_path) as (bench, _):
        pieces, at_once = [await bench.ask(stream=stream) for _ in range(2)]
        calls = [await bench.call() for _ in range(2)]
    assert len(pieces.raw) == len(at_once.raw)
    assert [(call.tokens.input, call.tokens.output, call.partial) for call in calls] == [(9, 5, False)] * 2


def _packed(data: bytes, encoding: str) -> bytes:
    return gzip.compress(data) if encoding == "gzip" else zlib.compress(data)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_streams(encoding: str, tmp_path: Path) -> None:
    packed = _packed(b"".join(EVENTS), encoding)

    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, f"Content-Encoding: {encoding}\r\n\r\n".encode())
        for number in range(len(packed)):
            await connection.say(chunk(packed[number : number + 1]))
        await connection.say(chunk(b""))

    async with raw_gateway(answer, tmp_path) as (bench, upstream):
        heard = await bench.ask(headers={"Accept-Encoding": "br, gzip;q=0.9, deflate, zstd"})
        call = await bench.call()
    assert (heard.raw, heard.headers.get("content-encoding")) == (b"".join(EVENTS), None)
    assert (call.tokens, call.partial) == (SEEN, False)
    assert upstream.seen[0].header("accept-encoding") == ["identity"]


async def test_compressed_json(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(MESSAGE).encode())

    async def answer(connection: Connection) -> None:
        await connection.say(whole(packed, headers="Content-Encoding: gzip\r\n"))

    async with raw_gateway(answer, tmp_path) as (bench, _):
        heard = await bench.ask(stream=False)
        call = await bench.call()
    assert (heard.json, heard.headers.get("content-encoding")) == (MESSAGE, None)
    assert (call.tokens, call.partial) == (Tokens(input=11, output=1), False)


async def test_an_unrequested_compressed_chat_stream(tmp_path: Path) -> None:
    """It is unpacked, so that its usage can be taken out, and a key in it be masked."""
    events = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}\n\ndata: [DONE]\n\n'
    packed = gzip.compress(f": {REAL_KEY}\n\n".encode() + events)

    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, b"Content-Encoding: gzip\r\n\r\n", chunk(packed), chunk(b""))

    async with raw_gateway(answer, tmp_path) as (bench, _):
        heard = await bench.ask(CHAT)
        call = await bench.call()
    masked = f": {'*' * len(REAL_KEY)}\n\ndata: [DONE]\n\n".encode()
    assert (heard.raw, call.tokens) == (masked, Tokens(input=3, output=4))


HALF = START + b"event: content_block_delta\ndata: {"


async def test_the_upstream_disconnects_within_an_event(tmp_path: Path) -> None:
    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, b"\r\n", chunk(HALF))

    async with raw_gateway(answer, tmp_path) as (bench, _):
        async with raw_client(bench, asking(bench.access.key)) as client:
            await client.until(b"\r\n\r\n")
            assert await client.rest() == chunk(HALF)  # and no end mark
        call = await bench.call()
        with pytest.raises(aiohttp.ClientPayloadError):
            await bench.ask()
        grant = await bench.end()
    assert (call.tokens, call.partial, call.error) == (Tokens(input=11, output=1), True, "upstream_gone")
    assert (call.status, call.upstream_status) == (200, 200)
    assert grant.account.spent_tokens == 24
    assert grant.account.unseen_tokens > 0  # what may have been written beyond what was seen
    line = bench.lines()[0]
    assert (line["partial"], line["error"], line["input_tokens"]) == (True, "upstream_gone", 11)


async def test_a_recorded_answer_can_be_read_before_it_is_cut(tmp_path: Path) -> None:
    """Otherwise the recording and its replay differ in what the client has read. Nor is the connection used again."""

    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, b"\r\n", chunk(START))

    for mode in ("record", "replay"):
        tape = Cassette(tmp_path / "tape", mode)
        async with (
            raw_gateway(answer, tmp_path / mode, cassette=tape) as (bench, _),
            raw_client(bench, asking(bench.access.key)) as client,
        ):
            begun = time.monotonic()
            assert b"Connection: close" in await client.until(b"\r\n\r\n")
            assert b"message_start" in await client.rest()
            assert time.monotonic() - begun > 0.4


@pytest.mark.parametrize("status", ["200 OK", "429 Too Many Requests", "500 Internal Server Error"])
async def test_the_upstream_disconnects_within_a_body(status: str, tmp_path: Path) -> None:
    async def answer(connection: Connection) -> None:
        await connection.say(whole(b'{"a": 1}', status).removesuffix(b"}"))

    async with raw_gateway(answer, tmp_path) as (bench, _):
        with pytest.raises(aiohttp.ClientPayloadError):
            await bench.ask(stream=False)
        call = await bench.call()
    expected = {"200": "upstream_gone", "429": "rate_limited", "500": "provider_failed"}[status[:3]]
    assert (call.error, call.partial) == (expected, status == "200 OK")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200", b"not http at all\r\n\r\n", STREAM_HEAD + b"\r\nzz\r\n"])
async def test_the_upstream_does_not_answer(said: bytes, tmp_path: Path) -> None:
    async def answer(connection: Connection) -> None:
        await connection.say(said)

    async with raw_gateway(answer, tmp_path) as (bench, _):
        heard = await bench.ask()
        call = await bench.call()
    assert (heard.status, heard.json["error"]["type"]) == (502, "api_error")
    # It was already sent: its cost is unknown.
    assert (call.error, call.partial, call.tokens) == ("upstream_unreachable", True, Tokens())


async def test_the_client_disconnects_within_a_stream(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, b"\r\n", chunk(START))
        await connection.reader.read()  # until the gateway closes the connection
        left.set()

    async with raw_gateway(answer, tmp_path) as (bench, _), raw_client(bench, asking(bench.access.key)) as client:
        await client.until(chunk(START))
        client.leave()
        call = await bench.call()
        await soon(left.wait())
    assert (call.tokens, call.partial, call.error) == (Tokens(input=11, output=1), True, "client_gone")
    assert [(line["partial"], line["error"]) for line in bench.lines()] == [(True, "client_gone")]


async def test_the_client_disconnects_before_the_first_byte(tmp_path: Path) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def answer(connection: Connection) -> None:
        asked.set()
        await connection.reader.read()
        left.set()

    async with raw_gateway(answer, tmp_path) as (bench, _):
        access = bench.gateway.issue(Labels("capped"), caps=Caps(tokens=100_000))
        async with raw_client(bench, asking(access.key)) as client:
            await soon(asked.wait())
            client.leave()
            call = await bench.call()
            await soon(left.wait())
        grant = await bench.end(access)
    assert (call.status, call.error, call.partial, call.tokens) == (None, "client_gone", True, Tokens())
    assert (grant.account.reserved_tokens, grant.account.unseen_tokens > 0) == (0, True)


async def test_the_client_disconnects_within_its_request(tmp_path: Path) -> None:
    async with (
        scripted_gateway("turns: [{text: hello}]", tmp_path) as (bench, model),
        raw_client(bench, asking(bench.access.key)[:-10]) as client,
    ):
        await _arrived(bench.gateway.url)
        client.leave()
        call = await bench.call()
    assert (call.status, call.error, call.partial) == (None, "client_gone", False)
    assert model.requests == []


async def _arrived(url: str) -> None:
    """Until a request is under way."""
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}/healthz") as response:
                if (await response.json())["in_flight"]:
                    return


async def test_a_client_that_disconnects_after_the_last_event_has_everything(tmp_path: Path) -> None:
    """Some do not wait for the end mark of the body."""

    async def answer(connection: Connection) -> None:
        await connection.say(STREAM_HEAD, b"\r\n", chunk(b"".join(EVENTS)))
        await connection.reader.read()

    tape = Cassette(tmp_path / "tape", "record")
    async with (
        raw_gateway(answer, tmp_path, cassette=tape) as (bench, _),
        raw_client(bench, asking(bench.access.key)) as client,
    ):
        await client.until(b"message_stop")
        client.leave()
        call = await bench.call()
    assert (call.tokens, call.partial, call.error) == (SEEN, False, None)
    assert tape.recorded == 1  # or a replay would miss the last answer of every such client


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.wire)
async def test_a_stream_without_its_last_event_ended_early(api: Api, tmp_path: Path) -> None:
    """As a provider ends it that has lost its model: the connection itself ends as it should."""
    path, body = api.request(**({"stream_options": {"include_usage": True}} if api is CHAT else {}))
    async with (
        ScriptedModel(parse_script("turns: [{text: [hel, lo]}]")) as model,
        aiohttp.ClientSession() as client,
        client.post(model.url + path, json=body, headers=api.key("any")) as said,
    ):
        events = [event + b"\n\n" for event in (await said.read()).split(b"\n\n") if event]
    lengths = list(range(len(events) + 1))

    async def answer(connection: Connection) -> None:
        sent = b"".join(events[: lengths[len(upstream.seen) - 1]])
        await connection.say(STREAM_HEAD, b"Connection: close\r\n\r\n", chunk(sent) if sent else b"", b"0\r\n\r\n")

    async with raw_gateway(answer, tmp_path) as (bench, upstream):
        for _ in lengths:
            assert (await bench.ask(api)).status == 200
        calls = [await bench.call() for _ in lengths]
    assert [(call.error, call.partial) for call in calls] == [*[("ended_early", True)] * len(events), (None, False)]


async def test_an_error_within_a_stream(tmp_path: Path) -> None:
    script = "usage: {input_tokens: 9}\nturns: [{text: hello, error_mid_stream: {status: 529}}]"
    async with scripted_gateway(script, tmp_path) as (bench, _):
        heard = await bench.ask()
        call = await bench.call()
    assert b"overloaded_error" in heard.raw
    assert (call.status, call.error, call.partial, call.tokens.input) == (200, "overloaded_error", True, 9)


async def test_large_bodies_in_both_directions(tmp_path: Path) -> None:
    body = json.dumps({**ANTHROPIC.body, "messages": [{"role": "user", "content": "word " * 600_000}]}).encode()

    async def answer(connection: Connection) -> None:
        await connection.say(whole(connection.body))

    async with raw_gateway(answer, tmp_path) as (bench, upstream):
        heard = await bench.send("POST", "/v1/messages", data=io.BytesIO(body), headers={"x-api-key": bench.access.key})
    assert upstream.seen[0].body == heard.raw == body
