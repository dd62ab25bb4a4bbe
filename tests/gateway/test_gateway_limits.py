"""Requests that are too large, invalid or hostile."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from gateway_bench import (
    ANTHROPIC,
    APIS,
    CHAT,
    GEMINI,
    HELLO,
    Api,
    Connection,
    asking,
    raw_client,
    raw_gateway,
    scripted_gateway,
    whole,
)

from youbencha.gateway.request import MAX_JSON_PARTS, MAX_REQUEST_BYTES


async def _echo(connection: Connection) -> None:
    await connection.say(whole(b"{}"))


@pytest.mark.parametrize("announced", [True, False])
async def test_a_request_that_is_too_large(announced: bool, tmp_path: Path) -> None:
    size = MAX_REQUEST_BYTES + 1

    async def pieces() -> Any:
        for _ in range(65):
            yield bytes(1024 * 1024)

    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        data = io.BytesIO(bytes(size)) if announced else pieces()
        answer = await bench.send("POST", "/v1/messages", data=data, headers={"x-api-key": bench.access.key})
        call = await bench.call()
    assert (answer.status, answer.json["error"]["type"]) == (413, "request_too_large")
    assert (answer.headers["x-should-retry"], call.error, call.partial) == ("false", "too_large", False)
    assert upstream.seen == []


async def test_a_small_request_that_decompresses_to_a_large_one(tmp_path: Path) -> None:
    packed = gzip.compress(bytes(MAX_REQUEST_BYTES + 1), compresslevel=1)
    headers = {"Content-Encoding": "gzip"}
    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        sent = {**headers, "x-api-key": bench.access.key}
        answer = await bench.send("POST", "/v1/messages", data=packed, headers=sent)
    assert (answer.status, upstream.seen) == (413, [])


async def test_a_request_of_too_many_parts(tmp_path: Path) -> None:
    """To read it would take seconds in which no deadline is kept. As much plain text is no trouble."""
    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        sent = {"x-api-key": bench.access.key}
        for body in (b'{"messages":[' + b"[],[]," * (MAX_JSON_PARTS // 3) + b"0]}", b"[" * (MAX_JSON_PARTS + 1)):
            answer = await bench.send("POST", "/v1/messages", data=io.BytesIO(body), headers=sent)
            assert (answer.status, (await bench.call()).error, upstream.seen) == (413, "too_large", [])
        text = json.dumps({**ANTHROPIC.body, "system": "text " * MAX_JSON_PARTS}).encode()
        assert (await bench.send("POST", "/v1/messages", data=io.BytesIO(text), headers=sent)).status == 200
        grant = await bench.end()
    assert grant.memory.bytes == 0


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_request(encoding: str, tmp_path: Path) -> None:
    body = json.dumps(ANTHROPIC.body).encode()
    packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    async with scripted_gateway(HELLO, tmp_path) as (bench, model):
        headers = {"Content-Encoding": encoding, "x-api-key": bench.access.key}
        answer = await bench.send("POST", "/v1/messages", data=packed, headers=headers)
        call = await bench.call()
    assert answer.status == 200
    assert (model.requests[0].body, call.requested_model) == (ANTHROPIC.body, "claude-opus-4-5")
    assert "content-encoding" not in model.requests[0].headers
    assert model.requests[0].headers["content-length"] == str(len(body))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "nonsense"])
async def test_a_request_with_a_wrong_encoding(encoding: str, tmp_path: Path) -> None:
    """Nor one in an encoding that cannot be read: the provider would read what was not metered."""
    cut_off = gzip.compress(json.dumps(ANTHROPIC.body).encode())[:-1]
    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        headers = {"Content-Encoding": encoding, "x-api-key": bench.access.key}
        for data in (b"this is not gzip", cut_off):
            answer = await bench.send("POST", "/v1/messages", data=data, headers=headers)
            assert (answer.status, (await bench.call()).error, upstream.seen) == (400, "unreadable", [])
        grant = await bench.end()
    assert grant.memory.bytes == 0


async def test_a_body_is_not_decoded_for_a_wrong_key(tmp_path: Path) -> None:
    async with raw_gateway(_echo, tmp_path) as (bench, _):
        headers = {"Content-Encoding": "gzip", "x-api-key": "wrong"}
        answer = await bench.send("POST", "/v1/messages", data=b"this is not gzip", headers=headers)
    assert answer.status == 401


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("/v1/messages", '{"model":"claude-a","max_tokens":5,"mod\\u0065l":"claude-b"}', ("error", "type")),
        ("/v1/messages", '{"model":"a","messages":[{"role":"user","content":"x","role":"user"}]}', ("error", "type")),
        ("/v1/chat/completions", '{"model":"a","n":1,"n":50}', ("error", "code")),
        ("/v1/responses", '{"model":"a","x":{"y":{"z":1,"z":2}}}', ("error", "code")),
        ("/v1beta/models/g:generateContent", '{"contents":[],"contents":[1]}', ("error", "status")),
    ],
)
async def test_a_duplicate_key_is_refused(path: str, body: str, answer: tuple[str, str], tmp_path: Path) -> None:
    """The provider may use the other value: another model, or more answers, than the gateway has checked."""
    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        headers = {"x-api-key": bench.access.key, "authorization": f"Bearer {bench.access.key}"}
        done = await bench.send("POST", path, data=body.encode(), headers=headers)
        assert (done.status, (await bench.call()).error, upstream.seen) == (400, "unreadable", [])
        group, name = answer
        assert json.loads(done.raw)[group][name]
        once = '{"model":"a","messages":[{"role":"a"},{"role":"b"}],"a":{"b":{"b":1}}}'
        assert (await bench.send("POST", "/v1/messages", data=once.encode(), headers=headers)).status == 200
        grant = await bench.end()
    assert grant.memory.bytes == 0


BODIES = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b"null",
    b'"text"',
    b"[" * 5000,
    b'{"model": 5, "stream": "yes"}',
    b'{"a": NaN}',
]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.wire)
async def test_invalid_bodies(api: Api, tmp_path: Path) -> None:
    """They are the provider's to complain about: they go on as they came."""

    async def complain(connection: Connection) -> None:
        await connection.say(whole(b'{"error": {}}', "400 Bad Request"))

    async with raw_gateway(complain, tmp_path) as (bench, upstream):
        for body in BODIES:
            answer = await bench.send("POST", api.path, data=body, headers=api.key(bench.access.key))
            call = await bench.call()
            assert (answer.status, upstream.seen[-1].body) == (400, body)
            assert (call.error, call.requested_model is None) == ("provider_refused", api is not GEMINI)
    assert len(upstream.seen) == len(BODIES)


NAMES = ["x" * 10_000, "a\nb", "a\x00b", "\x1b[31mred", '"quoted\\"', "…" * 250, "\u202egnp.exe"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
async def test_hostile_names_of_models(name: str, tmp_path: Path) -> None:
    async with raw_gateway(_echo, tmp_path, with_metrics=True) as (bench, upstream):
        answer = await bench.ask(model=name)
        call = await bench.call()
        metrics = await bench.send("GET", "/metrics")
    assert answer.status == 200
    assert json.loads(upstream.seen[0].body)["model"] == name
    for written in (call.model, call.requested_model):
        assert written is None or (len(written) <= 200 and written.isprintable())
    assert len(bench.ledger.read_bytes()) < 2000
    assert bench.ledger.read_bytes().count(b"\n") == 1
    assert len(metrics.raw) < 6000


PATHS = [
    "/v1/messages/batches",
    "/v1/files",
    "/v1/embeddings",
    "/v1/messages/../files",
    "/v1/models/..",
    "/v1/models/%2e%2e",
    "/v1/models/..%2F..%2Fv1%2Ffiles",
    "/v1/messages%2f",
    "/v1/messages%3Fx",
    "/v1/messages%0a",
    "/v1/responses/resp_1",
    "/V1/MESSAGES",
    "/admin",
    "/v1beta/models/x:batchEmbed",
    "/metrics",
    "//",
]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_unknown_paths(method: str, tmp_path: Path) -> None:
    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        for path in PATHS:
            answer = await bench.send(method, path, headers=ANTHROPIC.key(bench.access.key))
            assert (path, answer.status) == (path, 404)
            call = await bench.call()
            assert (path, answer.status, call.error) == (path, 404, "not_found")
            assert answer.json["error"]["type"] == "not_found_error"
            assert answer.headers["x-should-retry"] == "false"
    assert upstream.seen == []


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
async def test_other_methods(method: str, tmp_path: Path) -> None:
    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        for api in APIS:
            assert (await bench.send(method, api.path, headers=api.key(bench.access.key))).status == 404
    assert upstream.seen == []


@pytest.mark.parametrize("path", ["/v1/\udcff/messages", "/v1/messages?a=\udcff", "/v1/messages?a=\x01"])
async def test_paths_of_any_bytes(path: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Refused by the first reader, without flooding the terminal."""
    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        async with raw_client(bench, asking(bench.access.key, path=path)) as client:
            assert (await client.until(b"\r\n\r\n"))[:13] in (b"HTTP/1.1 404 ", b"HTTP/1.0 400 ")
        assert (await bench.ask(stream=False)).status == 200
    assert len(upstream.seen) == 1
    assert capfd.readouterr().err == ""


async def test_a_long_path_is_cut_in_the_ledger(tmp_path: Path) -> None:
    async with raw_gateway(_echo, tmp_path) as (bench, _):
        await bench.send("GET", "/" + "x" * 4000, headers=ANTHROPIC.key(bench.access.key))
        await bench.call()
    assert len(bench.lines()[0]["path"]) == 200


async def test_a_model_name_with_an_encoded_query(tmp_path: Path) -> None:
    """What is a part of the model's name here must be one there."""
    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        for hidden in ("x%3Fkey=1", "x%23", "x%2Fy", "x%20y"):
            path = f"/v1beta/models/{hidden}:generateContent"
            await bench.send("POST", path, json={}, headers=GEMINI.key(bench.access.key))
            assert upstream.seen[-1].head.split("\r\n")[0] == f"POST {path} HTTP/1.1"
        await bench.send("POST", "/v1beta/models/x%3AgenerateContent", json={}, headers=GEMINI.key(bench.access.key))
        assert upstream.seen[-1].head.split("\r\n")[0] == "POST /v1beta/models/x:generateContent HTTP/1.1"


async def test_the_prefix_of_a_base_url_does_not_matter(tmp_path: Path) -> None:
    async with scripted_gateway(HELLO, tmp_path) as (bench, model):
        body = {"json": dict(ANTHROPIC.body), "headers": ANTHROPIC.key(bench.access.key)}
        assert (await bench.send("POST", "/some/prefix/v1/messages", **body)).status == 200
    assert model.requests[0].path == "/v1/messages"


async def test_requests_about_the_gateway_itself(tmp_path: Path) -> None:
    async with raw_gateway(_echo, tmp_path) as (bench, upstream):
        root, head, health = [await bench.send(*ask) for ask in (("GET", "/"), ("HEAD", "/"), ("GET", "/healthz"))]
        metrics = await bench.send("GET", "/metrics")
        posted = await bench.send("POST", "/healthz")
    assert (root.status, "youbencha" in root.json, head.status, head.raw) == (200, True, 200, b"")
    assert health.json == {"status": "ok", "in_flight": 0}
    assert (metrics.status, posted.status, upstream.seen) == (401, 401, [])


@pytest.mark.parametrize(
    "named", ["x-api-key", "anthropic-version", "content-length", "authorization, X-Secret, x-api-key", "close"]
)
async def test_headers_that_a_connection_names(named: str, tmp_path: Path) -> None:
    """They end here, and with them nothing that we add ourselves."""
    more = f"Connection: {named}\r\nX-Secret: s\r\nanthropic-version: 1\r\nTE: trailers\r\nProxy-Authorization: p\r\n"
    async with (
        raw_gateway(_echo, tmp_path) as (bench, upstream),
        raw_client(bench, asking(bench.access.key, headers=more)) as client,
    ):
        assert b" 200 " in await client.until(b"\r\n\r\n")
    heard = upstream.seen[0]
    assert heard.header("x-api-key") == ["the-real-key"]
    assert (heard.header("te"), heard.header("proxy-authorization")) == ([], [])
    assert heard.header("x-secret") == ([] if "X-Secret" in named else ["s"])
    assert heard.header("anthropic-version") == ([] if named == "anthropic-version" else ["1"])
    assert len(heard.header("content-length")) == 1


@pytest.mark.parametrize(
    "headers",
    ["Transfer-Encoding: chunked\r\n", "Content-Length: 3\r\n", "Transfer-Encoding: identity\r\n", "Bad Name: x\r\n"],
)
async def test_ambiguous_requests(headers: str, tmp_path: Path) -> None:
    async with (
        raw_gateway(_echo, tmp_path) as (bench, upstream),
        raw_client(bench, asking(bench.access.key, headers=headers)) as client,
    ):
        assert b" 400 " in await client.until(b"\r\n\r\n")
    assert upstream.seen == []


async def test_response_headers_that_are_not_passed_on(tmp_path: Path) -> None:
    more = "Connection: X-Inner\r\nX-Inner: 1\r\nSet-Cookie: a=b\r\nKeep-Alive: timeout=5\r\nX-Kept: 1\r\n"

    async def answer(connection: Connection) -> None:
        await connection.say(whole(b"{}", headers=more))

    async with raw_gateway(answer, tmp_path) as (bench, _):
        heard = await bench.ask(CHAT, stream=False)
    assert {"x-inner", "set-cookie", "keep-alive"}.isdisjoint(heard.headers)
    assert heard.headers["x-kept"] == "1"
