"""Send a request to the provider, and relay its answer byte for byte as it arrives, while the meter reads it."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Mapping, MutableMapping
from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from youbencha.gateway.access import Provider
from youbencha.gateway.call import PendingCall
from youbencha.gateway.cassette.answers import ReplayedAnswer
from youbencha.gateway.circuit import Circuit
from youbencha.gateway.keys import PROVIDER_IS_BUSY
from youbencha.gateway.litellm.translate import provider_error, provider_headers, unmetered_option
from youbencha.gateway.metering import BodyMeter, StreamMeter
from youbencha.gateway.refusals import Refusal
from youbencha.gateway.request import (
    ClientRequest,
    Headers,
    body_to_send,
    headers_for,
    payload,
    retry_after_s,
    returned_headers,
    url_for,
)
from youbencha.gateway.upstreams import Upstream
from youbencha.gateway.wires import Action, Wire, lower_names
from youbencha.gateway.wires.base import StreamFilter

Chunks = list[tuple[float, bytes]]
"""Pieces of an answer, each with its milliseconds since the request."""


class Forwarder:
    """Sends requests to the providers, except to one that has just failed too often in a row for the same key."""

    def __init__(self, upstreams: Mapping[Provider, Upstream], client: aiohttp.ClientSession) -> None:
        self._upstreams = upstreams
        self._client = client

    async def forward(
        self,
        incoming: ClientRequest,
        call: PendingCall,
        circuits: MutableMapping[Provider, Circuit],
        chunks: Chunks | None = None,
    ) -> web.StreamResponse:
        """Answer a request. `circuits` are those of its key; the answer is kept in `chunks` if it is to be recorded."""
        request, route = incoming.request, incoming.route
        upstream = self._upstreams.get(route.provider)
        if upstream is None:
            raise Refusal("no_upstream", f"the gateway has no key for {route.provider}")
        is_checked = upstream.is_litellm and route.action is not Action.MODELS
        if is_checked and (option := unmetered_option(route.wire, incoming.body, call.size.model)):
            message = f"not passed on to LiteLLM, because what it does cannot be metered: {option}"
            raise Refusal("not_metered", message)
        circuit = circuits.setdefault(route.provider, Circuit())
        if wait := circuit.wait_s(time.monotonic(), call.request):
            raise Refusal(
                "circuit_open",
                f"{route.provider} failed too often in a row; no requests are sent to it for {wait:.0f} s",
            )
        answer, stream_filter = await self._send(incoming, call, upstream, circuit)
        incoming.forget_body()
        mask = KeyMask((upstream.key, *upstream.secrets))
        headers = [(name, mask.text(value)) for name, value in answer.headers.items()]
        if upstream.is_litellm:
            headers = list(provider_headers(headers).items())
        async with answer:
            if upstream.is_litellm and answer.status >= 400:
                return await _relay_litellm_error(call, answer, dict(headers), circuit, mask, chunks)
            _note_status(call, answer.status, answer.headers, circuit)
            return await relay(request, call, route.wire, answer, headers, mask, chunks, stream_filter)

    async def _send(
        self, incoming: ClientRequest, call: PendingCall, upstream: Upstream, circuit: Circuit
    ) -> tuple[aiohttp.ClientResponse, StreamFilter | None]:
        """Return the answer as soon as it begins, and the filter for what the client did not request."""
        request, route = incoming.request, incoming.route
        raw, stream_filter = body_to_send(incoming, call)
        call.sent()
        try:
            answer = await self._client.request(
                request.method,
                url_for(upstream, route, request),
                data=payload(raw),
                headers=headers_for(incoming, upstream),
                allow_redirects=False,
                proxy=proxy_for(upstream.url),
            )
        except (aiohttp.ClientError, OSError) as error:
            circuit.failed(time.monotonic())
            call.dispatched = not isinstance(error, aiohttp.ClientConnectorError)
            text = "" if isinstance(error, aiohttp.ClientResponseError) else str(error)
            message = f"{route.provider} does not answer: {text or type(error).__name__}"
            raise Refusal("upstream_unreachable", message) from error
        except BaseException:  # the client disconnected, or an internal error: no failure of the provider
            circuit.undecided()
            raise
        return answer, stream_filter


async def _relay_litellm_error(
    call: PendingCall,
    answer: aiohttp.ClientResponse,
    headers: Mapping[str, str],
    circuit: Circuit,
    mask: KeyMask,
    chunks: Chunks | None,
) -> web.Response:
    """Send the provider's original error, as far as LiteLLM preserves it. It is small, and never a stream."""
    try:
        restored = provider_error(answer.status, mask.all(await answer.read()))
    except (aiohttp.ClientError, OSError) as error:
        circuit.failed(time.monotonic())
        raise Refusal("upstream_unreachable", "LiteLLM exited in the middle of an answer") from error
    _note_status(call, restored.status, headers, circuit)
    call.status = restored.status
    final = [("x-should-retry", "false")] if restored.status == 401 else []
    call.headers = passed = CIMultiDict([*returned_headers(list(headers.items())), *final])
    if chunks is not None:
        chunks.append((call.elapsed_ms(), restored.body))
    return web.Response(status=restored.status, body=restored.body, headers=passed)


def _note_status(call: PendingCall, status: int, headers: Mapping[str, str], circuit: Circuit) -> None:
    """Record an answer's status in the call and in the circuit."""
    call.upstream_status = status
    call.retry_after_s = retry_after_s(lower_names(headers))
    if status in PROVIDER_IS_BUSY:
        call.error = "rate_limited"
        circuit.undecided()
    elif status >= 500:
        call.error = "provider_failed"
        circuit.failed(time.monotonic(), call.request)
    else:
        call.error = "provider_refused" if status >= 400 else None
        circuit.succeeded()


_SILENCE_S = 600.0
"""How long a provider may send nothing; the providers' own clients have the same timeout."""


def new_client(certificates: ssl.SSLContext | None = None) -> aiohttp.ClientSession:
    """Create a client without a limit of connections: agents decide how many requests run at once.

    It decompresses the answers of servers that compress them without having been asked to.
    """
    ssl_context = True if certificates is None else certificates
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, ssl=ssl_context)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=_SILENCE_S),
        read_bufsize=256 * 1024,
    )


@lru_cache(maxsize=16)
def proxy_for(url: str) -> str | None:
    """Return the proxy from HTTPS_PROXY and NO_PROXY.

    Not by aiohttp's `trust_env`: that uses credentials from .netrc as well, and then refuses a request with an
    Authorization header.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    if parts.port is not None and ":" not in host and proxy_bypass(f"{host}:{parts.port}"):  # NO_PROXY may name one
        return None
    proxy = getproxies().get(parts.scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def load_certificates(upstreams: Mapping[Provider, Upstream]) -> ssl.SSLContext | None:
    """Load a company's certificates from the variable that agents on Node use. None if the system's are sufficient.

    This takes a tenth of a second, so only an upstream with TLS causes it. A file that cannot be read is ignored, as
    Node does: requests that need it fail with their own message.
    """
    extra = os.environ.get("NODE_EXTRA_CA_CERTS")
    if not extra or not any(upstream.url.startswith("https:") for upstream in upstreams.values()):
        return None
    context = ssl.create_default_context()
    with suppress(OSError):
        context.load_verify_locations(extra)
    return context


# The answer, sent to the client chunk by chunk as it arrives, and metered.

_GRACE_BEFORE_CUT_S = 0.5
"""How long a client has to read what it was sent before its connection is cut.

A client discards what it has not read by then. If an answer was cut right after its last event, Claude Code 2.1.326
continued from what it had received in half of 20 sessions and started again in the others, so that its requests did
not match the recording; after 0.05 s, it always continued.
"""


class _ClientGoneError(Exception):
    """The client has closed its connection."""


async def relay(
    request: web.Request,
    call: PendingCall,
    wire: Wire,
    answer: aiohttp.ClientResponse,
    headers: Headers,
    mask: KeyMask,
    chunks: Chunks | None,
    stream_filter: StreamFilter | None,
) -> web.StreamResponse:
    """Send a provider's answer, and keep it in `chunks` if it is to be recorded.

    `headers` are the provider's. `stream_filter` is for an answer that is a stream; errors are not.
    """
    call.status = answer.status
    call.meter = meter = wire.meter(answer.headers.get("Content-Type", ""))
    usage_filter = stream_filter if isinstance(meter, StreamMeter) else None
    call.headers = passed = CIMultiDict(returned_headers(headers))
    is_decoded = answer.headers.get("Content-Encoding", "identity") != "identity"  # by aiohttp
    if answer.status == 401:  # CLIs would retry a rejected key for minutes
        passed["x-should-retry"] = "false"
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=passed)
    if chunks is not None:
        _close_after(response)
    if usage_filter is None and not is_decoded and answer.content_length is not None:
        response.content_length = answer.content_length
    gone: str | None = None
    received = 0
    try:
        await _begin(response, request)
        async for chunk in _masked(answer, mask):
            call.received()
            meter.feed(chunk)
            if chunks is not None:
                chunks.append((call.elapsed_ms(), chunk))
            received += len(chunk)
            if received == response.content_length:
                _note_end(call)
                call.finish()
            await _write(response, chunk if usage_filter is None else usage_filter.feed(chunk))
        if usage_filter is not None:
            await _write(response, usage_filter.finish())
    except _ClientGoneError:
        gone = "client_gone"
    except (aiohttp.ClientError, OSError):
        gone = "upstream_gone"
    if gone:
        call.error = call.error or gone
        await _cut(request, call)
    else:
        await _end(response, call)
    return response


async def _masked(answer: aiohttp.ClientResponse, mask: KeyMask) -> AsyncIterator[bytes]:
    """Yield the answer without keys."""
    async for chunk in answer.content.iter_any():
        yield mask.feed(chunk)
    yield mask.feed(b"")


async def replay(
    request: web.Request, call: PendingCall, wire: Wire, answer: ReplayedAnswer, stream_filter: StreamFilter | None
) -> web.StreamResponse:
    """Send a recorded answer as if it came from the provider."""
    call.replayed = True
    call.status = answer.status
    call.error = answer.failed or ("provider_refused" if answer.status >= 400 else None)
    call.upstream_status = answer.status if answer.failed else None
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    _close_after(response)
    call.meter = wire.meter(response.headers.get("Content-Type", ""))
    usage_filter = stream_filter if isinstance(call.meter, StreamMeter) else None
    try:
        await _begin(response, request)
        for delay_ms, chunk in answer.chunks:
            if delay_ms:
                await asyncio.sleep(delay_ms / 1000)
            call.meter.feed(chunk)
            await _write(response, chunk if usage_filter is None else usage_filter.feed(chunk))
        if usage_filter is not None:
            await _write(response, usage_filter.finish())
    except _ClientGoneError:
        call.error = "client_gone"
    if call.error in ("client_gone", "upstream_gone"):
        await _cut(request, call)
    else:
        await _end(response, call)
    return response


async def _begin(response: web.StreamResponse, request: web.Request) -> None:
    try:
        await response.prepare(request)
    except ConnectionError as error:
        raise _ClientGoneError from error


async def _write(response: web.StreamResponse, chunk: bytes) -> None:
    if not chunk:
        return
    try:
        await response.write(chunk)
    except ConnectionError as error:
        raise _ClientGoneError from error


def _close_after(response: web.StreamResponse) -> None:
    """Close the connection after an answer that is recorded or replayed.

    If an answer is cut on a connection that was used before, Claude Code 2.0.62 sends the request again at once, not
    counted as a retry. After that, the session continued in three different ways; on a new connection, always in the
    same way.
    """
    response.force_close()


async def _cut(request: web.Request, call: PendingCall) -> None:
    """Break the connection before the end of the answer, after the client has had time to read what was sent."""
    call.finish()
    if call.error != "client_gone":
        await asyncio.sleep(_GRACE_BEFORE_CUT_S)
    if request.transport is not None:
        request.transport.close()


def _note_end(call: PendingCall) -> None:
    call.note_end()
    if call.status != 400 or call.route is None or not isinstance(call.meter, BodyMeter):
        return
    if call.route.wire.is_without_credit(call.meter.body):
        call.error = "no_credit"


async def _end(response: web.StreamResponse, call: PendingCall) -> None:
    _note_end(call)
    call.finish()
    try:
        await response.write_eof()
    except ConnectionError:
        # Only the end of the body is missing; some clients disconnect after the last event.
        call.error = call.error or (None if call.metered().complete else "client_gone")


_MIN_KEY_CHARS = 8
"""Shorter keys (`none`, `no-key`) are placeholders, and words of ordinary text."""


class KeyMask:
    """Replaces each character of a key by `*`, also if the key is split over several chunks."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = [key.encode() for key in keys if len(key) >= _MIN_KEY_CHARS]
        self._pattern = re.compile(b"|".join(map(re.escape, self._keys)) or b"(?!)")
        self._held = b""

    def text(self, text: str) -> str:
        return self.all(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def all(self, data: bytes) -> bytes:
        return self._pattern.sub(lambda match: b"*" * len(match[0]), data)

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be sent: not the end of a chunk that may be the beginning of a key. Then feed b""."""
        data = self.all(self._held + chunk)
        begun = 0
        if chunk and not data.endswith((b"\n", b"}", b'"')):  # no key contains these
            begun = max((n for key in self._keys for n in range(1, len(key)) if data.endswith(key[:n])), default=0)
        ready = len(data) - begun
        self._held = data[ready:]
        return data[:ready]
