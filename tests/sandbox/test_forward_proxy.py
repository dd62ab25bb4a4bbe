"""The proxy to the hosts of an allowlist: which it reaches, which it refuses, and what hostile clients can do."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems import posix_only
from youbencha.sandbox import forward_proxy
from youbencha.sandbox.base import ForwardedPort
from youbencha.sandbox.forward_proxy import Allowlist, Destination, ForwardProxy, parse_request

pytestmark = posix_only("it listens on a Unix socket")

PATIENCE_S = 60
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Server(NamedTuple):
    """Answers each connection with what it got up to an empty line."""

    port: int
    heads: list[bytes]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello\n")
        await close(writer)

    async with await asyncio.start_server(serve, "127.0.0.1") as listening:
        yield Server(listening.sockets[0].getsockname()[1], heads)


class Client:
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def connect(self) -> Streams:
        return await asyncio.open_unix_connection(self._socket)

    async def send(self, request: bytes) -> bytes:
        """Everything that comes back."""
        reader, writer = await self.connect()
        writer.write(request)
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read(-1)
        await close(writer)
        return answer


@contextlib.asynccontextmanager
async def proxy(*allowed: str) -> AsyncIterator[tuple[ForwardProxy, Client]]:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        socket = Path(directory, "p.sock")
        async with ForwardProxy(allowed, ForwardedPort(socket, "127.0.0.1:4001")) as opened:
            yield opened, Client(socket)
    assert all(task.done() for task in opened._serving)


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def get(url: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {url} HTTP/1.1", *headers, "", ""]).encode()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_plain_http(server: Server) -> None:
    """The server gets the request as if there were no proxy, and one for the host that was checked."""
    here = f"127.0.0.1:{server.port}"
    async with proxy(here) as (opened, client):
        headers = ("Host: other.example", "Proxy-Authorization: Basic eA==", "Connection: keep-alive", "Accept: a, b")
        answer = await client.send(get(f"http://user@{here}/a/b?c=d#e", *headers))
        assert opened.denied() == ()
    assert (status(answer), answer.partition(b"\r\n\r\n")[2]) == (200, b"hello\n")
    expected = f"GET /a/b?c=d HTTP/1.1\r\nHost: {here}\r\nConnection: close\r\nAccept: a, b\r\n\r\n"
    assert server.heads == [expected.encode()]


async def test_a_tunnel(server: Server) -> None:
    async with proxy(f"127.0.0.1:{server.port}") as (_, client):
        reader, writer = await client.connect()
        writer.write(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        writer.write(b"\x16\x03 any bytes")
        writer.write(b"\r\n\r\n")
        assert (await reader.read(-1)).endswith(b"hello\n")
        await close(writer)
    assert server.heads == [b"\x16\x03 any bytes\r\n\r\n"]


async def test_a_client_that_has_sent_everything_gets_its_answer(server: Server) -> None:
    async with proxy(f"127.0.0.1:{server.port}") as (_, client):
        reader, writer = await client.connect()
        writer.write(get(f"http://127.0.0.1:{server.port}/"))
        writer.write_eof()
        assert status(await reader.read(-1)) == 200
        await close(writer)


@pytest.mark.parametrize("request_", ["CONNECT {} HTTP/1.1\r\n\r\n", "GET http://{}/ HTTP/1.1\r\n\r\n"])
async def test_what_is_not_listed_is_refused_and_noted(server: Server, request_: str) -> None:
    here = f"127.0.0.1:{server.port}"
    async with proxy("pypi.example", f"localhost:{server.port}", "127.0.0.1:1") as (opened, client):
        for host in (here, here, "nowhere.example", "PyPI.example.:8443", f"localhost:{server.port}", "[::1]:443"):
            answer = await client.send(request_.format(host).encode())
            assert status(answer) == 403
            assert b"is not in the allowlist of the sandbox" in answer
        denied = {each.host: each.attempts for each in opened.denied()}
    assert denied == {
        here: 2,
        "nowhere.example": 1,
        "pypi.example:8443": 1,
        f"localhost:{server.port}": 1,  # listed, but a loopback address that is not
        "[::1]": 1,
    }
    assert server.heads == []


async def test_nothing_answers(server: Server) -> None:
    async with proxy("127.0.0.1:1", "does-not-exist.invalid") as (opened, client):
        assert status(await client.send(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")) == 502
        assert status(await client.send(get("http://does-not-exist.invalid/"))) == 502
        assert opened.denied() == ()


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET https://pypi.example/ HTTP/1.1\r\n\r\n",
        b"GET http:///x HTTP/1.1\r\n\r\n",
        b"GET http://a:b/ HTTP/1.1\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\n\r\n",
        b"GET http://\xff/ HTTP/1.1\r\n\r\n",
        b"GET http://a/ HTTP/2.0\r\n\r\n",
        b"CONNECT : HTTP/1.1\r\n\r\n",
        b"CONNECT a b:1 HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
    ],
)
async def test_no_request_to_a_proxy(request_: bytes) -> None:
    async with proxy("pypi.example") as (opened, client):
        assert status(await client.send(request_)) == 400
        assert opened.denied() == ()


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("transfer-encoding : identity", "CONTENT-LENGTH: 5"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: 5\nTransfer-Encoding: chunked",),
        ("Content-Length: 5", "X: y", " z: folded"),
    ],
)
async def test_a_body_of_two_lengths_is_refused(server: Server, headers: tuple[str, ...]) -> None:
    here = f"127.0.0.1:{server.port}"
    async with proxy(here) as (_, client):
        assert (
            status(await client.send(get(f"http://{here}/", *headers) + b"0\r\n\r\nGET /other HTTP/1.1\r\n\r\n")) == 400
        )
        assert status(await client.send(get(f"http://{here}/", headers[0].partition("\n")[0]) + b"hello")) == 200
    assert len(server.heads) == 1


async def test_a_head_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_proxy, "_HEAD_WITHIN_S", 0.2)
    async with proxy("pypi.example") as (_, client):
        assert status(await client.send(get("http://pypi.example/", "X: " + "x" * 100_000))) == 431
        assert await client.send(b"GET http://pypi.example/ HTTP/1.1\r\nX: x\r\n") == b""


async def test_more_connections_than_allowed(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(forward_proxy, "_MAX_CONNECTIONS", 3)
    async with proxy(f"127.0.0.1:{server.port}") as (_, client):
        silent = [await client.connect() for _ in range(3)]
        await asyncio.sleep(0.05)
        reader, writer = await client.connect()
        assert await reader.read(-1) == b""
        await close(writer)
        await close(silent[0][1])
        await asyncio.sleep(0.05)
        assert status(await client.send(get(f"http://127.0.0.1:{server.port}/"))) == 200
        for _, writer in silent[1:]:
            await close(writer)


async def test_many_hosts_are_counted_together() -> None:
    async with proxy("pypi.example") as (opened, client):
        for number in range(105):
            await client.send(f"CONNECT host-{number}.example:443 HTTP/1.1\r\n\r\n".encode())
        denied = opened.denied()
    assert (len(denied), denied[-1].host, denied[-1].attempts) == (101, "(others)", 5)
    assert denied[0].first_at <= denied[-1].first_at


@pytest.mark.parametrize("reads", [True, False])
async def test_a_tunnel_ends_with_the_proxy(reads: bool) -> None:
    """Also if the client leaves unread what the server has sent."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while not reads:
                writer.write(bytes(1 << 20))
                await writer.drain()
            await reader.read(-1)
        writer.transport.abort()
        ended.set()

    async with await asyncio.start_server(serve, "127.0.0.1") as listening, asyncio.timeout(PATIENCE_S):
        port = listening.sockets[0].getsockname()[1]
        async with proxy(f"127.0.0.1:{port}") as (_, client):
            reader, writer = await client.connect()
            writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(0.1)  # until the buffers are full
        await ended.wait()
        await close(writer)


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("example.org", "example.org", 443, True),
        ("Example.org", "example.org", 80, True),
        ("example.org", "example.org", 8080, False),
        ("example.org:8080", "example.org", 8080, True),
        ("example.org:8080", "example.org", 80, False),
        ("example.org", "a.example.org", 443, False),
        ("*.example.org", "a.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "notexample.org", 443, False),
        ("example.org", "example.org.evil.com", 443, False),
        ("10.0.0.5:80", "10.0.0.5", 80, True),
        ("[::1]:80", "::1", 80, True),
        ("[0:0::1]", "::1", 443, True),
    ],
)
def test_which_hosts_an_entry_allows(entry: str, host: str, port: int, allowed: bool) -> None:
    assert Allowlist([entry]).allows(Destination(host, port)) is allowed


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("10.0.0.5", True),  # listed
        ("::ffff:10.0.0.5", True),
        ("10.0.0.6", False),
        ("127.0.0.1", False),
        ("::ffff:127.0.0.1", False),
        ("169.254.169.254", False),  # a cloud's metadata
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
    ],
)
def test_which_addresses_a_name_may_have(address: str, allowed: bool) -> None:
    assert Allowlist(["example.org", "10.0.0.5"]).allows_address(address, 443) is allowed


@given(st.binary(max_size=200) | st.text(max_size=60).map(lambda text: f"GET http://{text} HTTP/1.1".encode()))
def test_any_bytes_are_parsed_or_refused(head: bytes) -> None:
    """What is passed on is one request, whose target begins with a slash."""
    request = parse_request(head + b"\r\n\r\n")
    if request is not None and request.head is not None:
        first, _, rest = request.head.partition(b"\r\n")
        assert first.split(b" ")[1].startswith((b"/", b"?", b"*"))
        assert rest.startswith(b"Host: ")
        assert b"\n" not in first
