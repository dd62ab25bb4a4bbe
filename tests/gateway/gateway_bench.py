"""A gateway in front of a real or a raw upstream, with clients for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import aiohttp
from yarl import URL

from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.keys import VirtualKey
from youbencha.gateway.ledger import Ledger, read_ledger
from youbencha.gateway.upstreams import Upstream
from youbencha.gateway.wires import WireName
from youbencha.scripted_model import ScriptedModel, parse_script

REAL_KEY = "the-real-key"
PATIENCE_S = 10.0
"""For what must come: nothing is measured by it, a test that hangs only ends."""
HELLO = "turns: [{text: hello, times: forever}]"


@dataclass(frozen=True)
class Api:
    wire: WireName
    path: str
    body: Mapping[str, Any]
    key_header: str = "authorization"
    stream_path: str | None = None

    def key(self, key: str) -> dict[str, str]:
        return {self.key_header: f"Bearer {key}" if self.key_header == "authorization" else key}

    def request(self, *, stream: bool = True, **changes: Any) -> tuple[str, dict[str, Any]]:
        body = {name: value for name, value in {**self.body, **changes}.items() if value is not None}
        if self.wire != "gemini":
            body["stream"] = stream
        return (self.stream_path or self.path) if stream else self.path, body


ANTHROPIC = Api(
    "anthropic-messages",
    "/v1/messages",
    {
        "model": "claude-opus-4-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "do it"}],
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
    },
    "x-api-key",
)
CHAT = Api(
    "openai-chat",
    "/v1/chat/completions",
    {
        "model": "gpt-4o",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "do it"}],
        "tools": [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}],
    },
)
RESPONSES = Api(
    "openai-responses",
    "/v1/responses",
    {
        "model": "gpt-4o",
        "max_output_tokens": 100,
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]}],
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}],
    },
)
GEMINI = Api(
    "gemini",
    "/v1beta/models/gemini-2.5-pro:generateContent",
    {
        "contents": [{"role": "user", "parts": [{"text": "do it"}]}],
        "tools": [{"functionDeclarations": [{"name": "shell"}]}],
        "generationConfig": {"maxOutputTokens": 100},
    },
    "x-goog-api-key",
    "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
)
APIS = (ANTHROPIC, CHAT, RESPONSES, GEMINI)


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By lower-case names."""
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


@dataclass
class GatewayBench:
    gateway: Gateway
    ledger: Path
    client: aiohttp.ClientSession
    calls: asyncio.Queue[Call]
    access: GatewayAccess
    """A key without caps, for tests that need no more."""

    async def ask(self, api: Api = ANTHROPIC, *, key: str | None = None, stream: bool = True, **changes: Any) -> Answer:
        headers = changes.pop("headers", {})
        path, body = api.request(stream=stream, **changes)
        return await self.send("POST", path, json=body, headers={**api.key(key or self.access.key), **headers})

    async def send(self, method: str, path: str, **options: Any) -> Answer:
        url = URL(self.gateway.url + path, encoded=True)
        async with self.client.request(method, url, allow_redirects=False, **options) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, headers, await response.read())

    async def call(self) -> Call:
        """The next one that has ended, and is written down."""
        return await soon(self.calls.get())

    async def end(self, access: GatewayAccess | None = None) -> VirtualKey:
        grant = self.gateway.end((access or self.access).key)
        assert grant is not None
        await soon(self.gateway.settled(grant))
        return grant

    def lines(self) -> list[dict[str, Any]]:
        return list(read_ledger(self.ledger))


T = TypeVar("T")


async def soon(what: Awaitable[T]) -> T:
    return await asyncio.wait_for(what, PATIENCE_S)


def upstreams_at(url: str) -> dict[Provider, Upstream]:
    return {
        "anthropic": Upstream("anthropic", url, REAL_KEY, "x-api-key"),
        "openai": Upstream("openai", url, REAL_KEY, "authorization"),
        "gemini": Upstream("gemini", url, REAL_KEY, "x-goog-api-key"),
    }


@asynccontextmanager
async def gateway_at(url: str, directory: Path, **options: Any) -> AsyncIterator[GatewayBench]:
    """A gateway in front of what is served at `url`."""
    ledger, calls = directory / "ledger.jsonl", asyncio.Queue[Call]()
    options.setdefault("upstreams", upstreams_at(url))
    with Ledger(ledger) as written:
        async with _gateway_bench(written, ledger, calls, options) as bench:
            yield bench


@asynccontextmanager
async def _gateway_bench(
    written: Ledger, ledger: Path, calls: asyncio.Queue[Call], options: dict[str, Any]
) -> AsyncIterator[GatewayBench]:
    async with (
        Gateway(ledger=written, on_call=calls.put_nowait, **options) as gateway,
        aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(PATIENCE_S)) as client,
    ):
        yield GatewayBench(gateway, ledger, client, calls, gateway.issue(Labels("trial-1", "agent-1", "run-1")))


@asynccontextmanager
async def scripted_gateway(
    script: str, directory: Path, **options: Any
) -> AsyncIterator[tuple[GatewayBench, ScriptedModel]]:
    async with ScriptedModel(parse_script(script)) as model, gateway_at(model.url, directory, **options) as bench:
        yield bench, model


@dataclass
class Connection:
    """One request to a raw upstream, and the ends of its connection."""

    head: str
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))  # `writelines` may hang in Python 3.12.1
        await self.writer.drain()

    def header(self, name: str) -> list[str]:
        lines = (line.partition(":") for line in self.head.split("\r\n")[1:])
        return [value.strip() for found, _, value in lines if found.lower() == name]


class RawUpstream:
    """Says exactly the bytes that a test wants; then it closes the connection."""

    def __init__(self, answer: Callable[[Connection], Awaitable[None]]) -> None:
        self.seen: list[Connection] = []
        self.url = ""
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip()
            connection = Connection(head, b"", reader, writer)
            if length := connection.header("content-length"):
                connection.body = await reader.readexactly(int(length[0]))
            self.seen.append(connection)
            await self._answer(connection)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the test is over
        finally:
            writer.close()


@asynccontextmanager
async def raw_gateway(
    answer: Callable[[Connection], Awaitable[None]], directory: Path, **options: Any
) -> AsyncIterator[tuple[GatewayBench, RawUpstream]]:
    async with RawUpstream(answer) as upstream, gateway_at(upstream.url, directory, **options) as bench:
        yield bench, upstream


def whole(body: bytes, status: str = "200 OK", kind: str = "application/json", headers: str = "") -> bytes:
    """An answer in one piece."""
    length = len(body)
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{headers}Content-Length: {length}\r\n\r\n".encode() + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def sse(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


MESSAGE = {"model": "claude-opus-4-5", "usage": {"input_tokens": 11, "output_tokens": 1}}
START = sse({"type": "message_start", "message": MESSAGE})
DELTA = sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}})
USAGE = sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}})
STOP = sse({"type": "message_stop"})
EVENTS = (START, DELTA, USAGE, STOP)
"""A stream of 11 tokens in and 7 out."""


class RawClient:
    """Sends exactly these bytes, and reads what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def until(self, mark: bytes) -> bytes:
        return await soon(self.reader.readuntil(mark))

    async def rest(self) -> bytes:
        return await soon(self.reader.read())

    def leave(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def raw_client(bench: GatewayBench, first: bytes = b"") -> AsyncIterator[RawClient]:
    host, port = bench.gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(first)
        await writer.drain()
        yield RawClient(reader, writer)
    finally:
        writer.close()


def asking(key: str, body: bytes | None = None, *, path: str = "/v1/messages", headers: str = "") -> bytes:
    """A request to the Messages API, byte for byte."""
    body = json.dumps({**ANTHROPIC.body, "stream": True}).encode() if body is None else body
    head = f"POST {path} HTTP/1.1\r\nHost: gateway\r\nx-api-key: {key}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("utf-8", "surrogateescape") + body
