"""Send a request to the provider, and relay its answer as soon as it begins."""

from __future__ import annotations

import os
import ssl
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from youbencha.gateway.access import Provider
from youbencha.gateway.call import PendingCall
from youbencha.gateway.keys import PROVIDER_IS_BUSY
from youbencha.gateway.litellm.translate import provider_error, provider_headers, unmetered_option
from youbencha.gateway.mask import KeyMask
from youbencha.gateway.refusals import Refusal
from youbencha.gateway.relay import Chunks, relay
from youbencha.gateway.request import (
    ClientRequest,
    body_to_send,
    headers_for,
    payload,
    retry_after_s,
    returned_headers,
    url_for,
)
from youbencha.gateway.wires import Action, lower_names
from youbencha.gateway.wires.base import StreamFilter

if TYPE_CHECKING:
    from youbencha.gateway.upstreams import Upstream


class Forwarder:
    """Sends requests to the providers, except to one that has just failed too often in a row."""

    def __init__(self, upstreams: Mapping[Provider, Upstream], client: aiohttp.ClientSession) -> None:
        self.circuits: defaultdict[tuple[Provider, str], Circuit] = defaultdict(Circuit)
        """By provider and name of a key, so that a client that causes failures does not affect others."""
        self._upstreams = upstreams
        self._client = client

    def forget(self, key: str) -> None:
        """Drop the circuits of a key, given its name: a run may have thousands of keys."""
        for known in [each for each in self.circuits if each[1] == key]:
            del self.circuits[known]

    async def forward(
        self, incoming: ClientRequest, call: PendingCall, chunks: Chunks | None = None
    ) -> web.StreamResponse:
        request, route = incoming.request, incoming.route
        upstream = self._upstreams.get(route.provider)
        if upstream is None:
            raise Refusal("no_upstream", f"the gateway has no key for {route.provider}")
        is_checked = upstream.is_litellm and route.action is not Action.MODELS
        if is_checked and (option := unmetered_option(route.wire, incoming.body, call.size.model)):
            message = f"not passed on to LiteLLM, because what it does cannot be metered: {option}"
            raise Refusal("not_metered", message)
        circuit = self.circuits[route.provider, call.labels.key]
        if wait := circuit.wait_s(time.monotonic(), call.request):
            raise Refusal("circuit_open", f"{route.provider} failed too often in a row; not asked for {wait:.0f} s")
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
        raise Refusal("upstream_unreachable", "LiteLLM was gone in the middle of an answer") from error
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


FAILURES = 6
"""Consecutive failures after which it opens. CLIs retry ten times with growing pauses, which takes minutes."""

OPEN_S = 30.0

_MAX_REQUESTS = 100
"""After this many different ones have failed, the provider has."""


class Circuit:
    """A circuit breaker: while it is open, requests are refused, except for one from time to time as a probe."""

    def __init__(self, *, failures: int = FAILURES, open_s: float = OPEN_S) -> None:
        self._failed_requests: set[int] | None = set()
        """The requests that failed, in case that is their fault; None if it is not."""
        self._limit = failures
        self._open_s = open_s
        self._in_a_row = 0
        self._until: float | None = None
        self._probing = False

    def wait_s(self, now: float, request: int | None = None) -> float:
        """Return how long to wait; 0 if a request may be sent.

        One that has not failed yet may be sent if the failures may be the fault of the requests: otherwise, a client
        could end the whole session by a few odd ones.
        """
        if self._until is None:
            return 0.0
        if request is not None and self._failed_requests is not None and request not in self._failed_requests:
            return 0.0
        if now >= self._until and not self._probing:
            self._probing = True  # only one, because all together could overload a recovering provider
            return 0.0
        return max(self._until - now, 1.0)

    def succeeded(self) -> None:
        self._in_a_row, self._until, self._probing = 0, None, False
        self._failed_requests = set()

    def failed(self, now: float, request: int | None = None) -> None:
        """Note a failure. `request` identifies one that may have caused it."""
        self._in_a_row += 1
        if request is None or (self._failed_requests and len(self._failed_requests) >= _MAX_REQUESTS):
            self._failed_requests = None
        elif self._failed_requests is not None:
            self._failed_requests.add(request)
        if self._in_a_row < self._limit and not self._probing:
            return
        self._until, self._probing = now + self._open_s, False

    def undecided(self) -> None:
        """A request neither succeeded nor failed because of the provider; for example, its client disconnected."""
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._until is not None


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
