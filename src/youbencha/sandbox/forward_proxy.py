"""A forward proxy to the hosts of an allowlist, for programs that have no other network.

It serves HTTP on a Unix socket: CONNECT for TLS, and absolute addresses for plain HTTP. Its clients are hostile, so it
resolves names itself, connects only to the addresses that it has checked, and bounds what a client can make it hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, ip_address
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from youbencha.sandbox.base import ForwardedPort
from youbencha.store.bundle import DeniedHost
from youbencha.text import iso_time

_DEFAULT_PORTS = (80, 443)
_MAX_HEAD_BYTES = 64 * 1024
_HEAD_WITHIN_S = 30.0
_CONNECT_WITHIN_S = 20.0
_CLOSE_WITHIN_S = 2.0
_MAX_CONNECTIONS = 128
"""Each uses two file descriptors of the harness."""
_MAX_LOOKUPS = 4
_MAX_DENIED = 100
_OTHERS = "(others)"
_OWN = "127.0.0.1,localhost,::1,host.docker.internal"
_PIECE = 64 * 1024
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?")
_PER_CONNECTION = frozenset({b"connection", b"host", b"keep-alive", b"proxy-authorization", b"proxy-connection"})
"""Headers of a request that are not passed on."""


class Destination(NamedTuple):
    host: str
    """The host in lower case, without brackets."""
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port in _DEFAULT_PORTS else f"{host}:{self.port}"


class Allowlist:
    """Hosts such as `pypi.org`, `*.example.org` or `127.0.0.1:8080`; without a port, 80 and 443."""

    def __init__(self, entries: Iterable[str]) -> None:
        parts = (urlsplit(f"//{entry}") for entry in entries)
        self._rules = [(_normal(part.hostname or ""), part.port) for part in parts]

    def allows(self, to: Destination) -> bool:
        return any(
            _port_fits(port, to.port) and (to.host == host or (host.startswith("*.") and to.host.endswith(host[1:])))
            for host, port in self._rules
        )

    def allows_address(self, address: str, port: int) -> bool:
        """Whether a name may lead to this address: a public one, or one that is listed itself."""
        ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
        if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        return (ip.is_global and not ip.is_multicast) or self.allows(Destination(str(ip), port))


def _port_fits(rule: int | None, port: int) -> bool:
    return port in _DEFAULT_PORTS if rule is None else port == rule


def _normal(host: str) -> str:
    """Return one spelling for each host."""
    with contextlib.suppress(ValueError):
        return str(ip_address(host))
    return host.lower().rstrip(".")


class ProxyRequest(NamedTuple):
    to: Destination
    head: bytes | None
    """For the server. None: the client wants a tunnel."""


def parse_request(head: bytes) -> ProxyRequest | None:
    """Parse the head of a request; None if it is not one to a proxy."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    method, _, rest = first.partition(b" ")
    target, _, version = rest.partition(b" ")
    is_tunnel = method == b"CONNECT"
    if not method.isalpha() or version not in (b"HTTP/1.0", b"HTTP/1.1"):
        return None
    try:
        text = target.decode("ascii")
        url = urlsplit(f"//{text}" if is_tunnel else text)
        to = Destination(_normal(url.hostname or ""), url.port or (443 if is_tunnel else 80))
    except ValueError:  # not ASCII, no number as a port, an open bracket
        return None
    if not (_HOST.fullmatch(to.host) or ":" in to.host) or (not is_tunnel and url.scheme != "http"):
        return None
    if is_tunnel:
        return ProxyRequest(to, None)
    if not _has_unambiguous_length(lines):
        return None
    authority = url.netloc.rpartition("@")[2]
    path = url._replace(scheme="", netloc="", fragment="").geturl() or "/"
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _PER_CONNECTION]
    own = [b"%s %s HTTP/1.1" % (method, path.encode()), b"Host: " + authority.encode(), b"Connection: close"]
    return ProxyRequest(to, b"\r\n".join([*own, *kept, b"", b""]))


def _has_unambiguous_length(lines: list[bytes]) -> bool:
    """Whether every server finds the same end of the body. Otherwise, what follows may be an unchecked request."""
    names = [line.partition(b":")[0].strip().lower() for line in lines]
    plain = not any(line[:1] in (b" ", b"\t") or b"\r" in line or b"\n" in line for line in lines)
    return plain and names.count(b"content-length") + names.count(b"transfer-encoding") <= 1


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _RefusedError(Exception):
    """With the status and the message of the answer."""


class ForwardProxy:
    """Serves at a forwarded port during its `async with` block, and keeps which hosts it refused."""

    def __init__(self, allowlist: Iterable[str], port: ForwardedPort) -> None:
        self._allowlist = Allowlist(allowlist)
        self._port = port
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._lookups = ThreadPoolExecutor(_MAX_LOOKUPS)  # slow ones must not block other work of the harness
        self._denied: dict[str, tuple[int, float]] = {}
        """How often, and when first."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._accept, self._port.socket, limit=_MAX_HEAD_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        serving = tuple(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        self._lookups.shutdown(wait=False, cancel_futures=True)
        await self._server.wait_closed()

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which programs use it, except for the container's own loopback."""
        url = f"http://{self._port.address}"
        variables = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "NO_PROXY": _OWN}
        return {**variables, **{name.lower(): value for name, value in variables.items()}}

    def denied(self) -> tuple[DeniedHost, ...]:
        return tuple(
            DeniedHost(host=host, attempts=attempts, first_at=iso_time(first))
            for host, (attempts, first) in self._denied.items()
        )

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= _MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(_Connection(reader, writer)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client: _Connection) -> None:
        try:
            await self._handle(client)
        except _RefusedError as refused:
            with contextlib.suppress(OSError, TimeoutError):
                await _answer(client, *refused.args)
        except (OSError, EOFError, TimeoutError):  # the client or the server is gone
            pass
        finally:
            await _close(client.writer)

    async def _handle(self, client: _Connection) -> None:
        try:
            async with asyncio.timeout(_HEAD_WITHIN_S):
                head = await client.reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise _RefusedError("431 Request Header Fields Too Large", "the head of the request is too long") from None
        request = parse_request(head)
        if request is None:
            raise _RefusedError("400 Bad Request", "this is a proxy: CONNECT, or an address that begins with http://")
        try:
            async with asyncio.timeout(_CONNECT_WITHIN_S):
                server = await self._connect(request.to)
        except (OSError, TimeoutError) as error:
            why = str(error) or "it does not answer"
            raise _RefusedError("502 Bad Gateway", f"{request.to} cannot be reached: {why}") from error
        await _exchange(request, client, server)

    async def _connect(self, to: Destination) -> _Connection:
        """Connect to the host, at one of its addresses that are allowed."""
        addresses: list[str] = []
        if self._allowlist.allows(to):
            addresses = await asyncio.get_running_loop().run_in_executor(self._lookups, _look_up, to)
        allowed = [address for address in addresses if self._allowlist.allows_address(address, to.port)]
        if not allowed:
            self._note(to)
            raise _RefusedError("403 Forbidden", f"{to} is not in the allowlist of the sandbox")
        for address in allowed[:-1]:
            with contextlib.suppress(OSError):
                return _Connection(*await asyncio.open_connection(address, to.port))
        return _Connection(*await asyncio.open_connection(allowed[-1], to.port))

    def _note(self, denied: Destination) -> None:
        name = str(denied)
        if name not in self._denied and len(self._denied) >= _MAX_DENIED:
            name = _OTHERS
        attempts, first = self._denied.get(name, (0, time.time()))
        self._denied[name] = (attempts + 1, first)


def _look_up(to: Destination) -> list[str]:
    return [str(answer[4][0]) for answer in socket.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)]


async def _exchange(request: ProxyRequest, client: _Connection, server: _Connection) -> None:
    """Pass everything on, until the server has ended the connection."""
    if request.head is None:
        client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    else:
        server.writer.write(request.head)
    sending = asyncio.create_task(_pass_on(client.reader, server.writer))
    try:
        await _pass_on(server.reader, client.writer)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await _close(server.writer)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PIECE):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _answer(client: _Connection, status: str, message: str) -> None:
    """Answer, and read what else the client sends for a moment: otherwise it may lose the answer."""
    body = f"youBencha: {message}\n".encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    client.writer.write(head.encode("ascii") + b"Connection: close\r\n\r\n" + body)
    client.writer.write_eof()
    async with asyncio.timeout(_CLOSE_WITHIN_S):
        while await client.reader.read(_PIECE):
            pass


async def _close(writer: asyncio.StreamWriter) -> None:
    """Send what is left, if the other end reads it."""
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_WITHIN_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()
