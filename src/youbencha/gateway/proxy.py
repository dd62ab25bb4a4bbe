"""The way of a request: who asks, may it, answer it from a cassette or from the provider, count it, write it down.

What the provider says goes to the client as it comes, byte for byte; the meter reads along.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import orjson
from aiohttp import web

from youbencha.gateway.asked import asked_of
from youbencha.gateway.budgets import BudgetRefusal, Worst
from youbencha.gateway.circuit import Circuit
from youbencha.gateway.exchange import Exchange
from youbencha.gateway.headers import accepted_encoding, retry_after_s, sent_on
from youbencha.gateway.keys import Grant, KeyRing, presented_key
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.metering.usage_chunk import UsageChunkFilter, with_usage_asked
from youbencha.gateway.model import Call, Labels
from youbencha.gateway.network import proxy_for
from youbencha.gateway.prices import Prices
from youbencha.gateway.refusals import HEADERS, STATUS, Reason, body_of
from youbencha.gateway.relay import Chunks, play, relay
from youbencha.gateway.routes import Action, Provider, Route, route_of
from youbencha.gateway.tally import PROVIDER_IS_BUSY

if TYPE_CHECKING:
    from collections.abc import Callable

    from youbencha.gateway.cassette import CassetteSession
    from youbencha.gateway.upstreams import Upstream

_MOST_REFUSED_KEYS = 1000
"""Written down; beyond, they are only counted: nobody fills a disk by guessing."""
_DECODED = ("gzip", "deflate")
"""Encodings of a request's body that aiohttp has undone when we read it."""


class Incoming(NamedTuple):
    """A request that has arrived in full, and whose path is known."""

    request: web.Request
    headers: Mapping[str, str]
    """By lower-case names."""
    route: Route
    raw: bytes
    body: Any
    """Parsed JSON; None if it is none."""


class Refused(Exception):
    """The gateway answers by itself, and not as the client would like."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message


class Proxy:
    def __init__(
        self,
        *,
        upstreams: Mapping[Provider, Upstream],
        keys: KeyRing,
        ledger: Ledger,
        prices: Prices,
        client: aiohttp.ClientSession,
        on_call: Callable[[Call], None] | None = None,
    ) -> None:
        self.circuits: defaultdict[Provider, Circuit] = defaultdict(Circuit)
        self.refused_keys = 0
        self.in_flight = 0
        self._upstreams = upstreams
        self._keys = keys
        self._ledger = ledger
        self._prices = prices
        self._client = client
        self._on_call = on_call
        self._ids = itertools.count(1)
        self._prefix = f"{int(time.time() * 1000):x}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request that is not about the gateway itself."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        route = route_of(request.method, request.path, headers)
        key = presented_key(headers, request.query)
        grant = self._keys.find(key, request.remote)
        if grant is None:
            return self._turn_away(request, route, key)
        exchange = self._exchange(grant.labels, request, route)
        task = asyncio.current_task()
        assert task is not None
        grant.busy.add(task)
        grant.tally.arrived(time.monotonic())
        self.in_flight += 1
        try:
            return await self._serve(request, headers, grant, exchange)
        except Refused as refused:
            if refused.reason in ("budget_exceeded", "call_too_dear"):
                grant.tally.refusal = grant.tally.refusal or refused.message
            return _refusal(exchange, refused)
        except asyncio.CancelledError:
            exchange.error = "client_gone" if self._keys.find(key, request.remote) else "key_ended"
            raise
        finally:
            self.in_flight -= 1
            grant.busy.discard(task)
            self._conclude(grant, exchange)

    # -- who asks ----------------------------------------------------------------------------------------------

    def _exchange(self, labels: Labels, request: web.Request, route: Route | None) -> Exchange:
        return Exchange(f"{self._prefix}-{next(self._ids)}", labels, request.method, request.path, route)

    def _turn_away(self, request: web.Request, route: Route | None, key: str | None) -> web.StreamResponse:
        name, reason = self._keys.why_not(key)
        exchange = self._exchange(Labels(name), request, route)
        response = _refusal(exchange, Refused(reason, "this key is not (or no longer) good here"))
        self.refused_keys += 1
        if self.refused_keys <= _MOST_REFUSED_KEYS:
            call = exchange.settle(self._prices)
            self._ledger.ended(call)
            if self._on_call is not None:
                self._on_call(call)
        return response

    def _conclude(self, grant: Grant, exchange: Exchange) -> None:
        call = exchange.settle(self._prices)
        self._ledger.ended(call)
        grant.tally.ended(call, time.monotonic())
        for tell in (grant.on_call, self._on_call):
            if tell is not None:
                tell(call)

    # -- may it ------------------------------------------------------------------------------------------------

    async def _serve(
        self, request: web.Request, headers: Mapping[str, str], grant: Grant, exchange: Exchange
    ) -> web.StreamResponse:
        route = exchange.route
        if route is None:
            raise Refused("not_found", f"{request.method} {exchange.path} is none of the APIs that are metered here")
        try:
            raw = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise Refused("too_large", "the request is larger than this gateway takes") from error
        incoming = Incoming(request, headers, route, raw, _parsed(raw))
        exchange.asked = asked_of(route.wire, route.path, incoming.body, len(raw))
        self._ledger.begun(exchange.id, exchange.arrived, exchange.labels, exchange.path, exchange.asked.model)
        if exchange.billed:
            await self._reserve(grant, exchange, route)
        if grant.cassette is None:
            return await self._forward(incoming, exchange)
        return await self._with_cassette(incoming, grant.cassette, grant, exchange)

    async def _reserve(self, grant: Grant, exchange: Exchange, route: Route) -> None:
        asked, usd = exchange.asked, None
        if grant.account.needs_price:  # else nobody waits for the price list
            usd = self._prices.worst_case(route.provider, asked.model, asked)
        worst = Worst(usd, asked.size + (asked.max_output or 0))
        try:
            exchange.reservation = await grant.account.reserve(worst, model=asked.model)
        except BudgetRefusal as error:
            raise Refused(error.reason, error.message) from error

    # -- from a cassette ---------------------------------------------------------------------------------------

    async def _with_cassette(
        self, incoming: Incoming, cassette: CassetteSession, grant: Grant, exchange: Exchange
    ) -> web.StreamResponse:
        from youbencha.gateway.cassette import Asking

        route = incoming.route
        method = incoming.request.method
        asking = Asking(method, route.path, route.wire, incoming.headers, incoming.body, incoming.raw)
        if replay := cassette.find(asking):
            return await play(incoming.request, exchange, route.wire, replay)
        if cassette.mode == "replay":
            mismatch = cassette.mismatch(asking)
            grant.mismatches.append(mismatch.text)
            raise Refused("not_recorded", f"nothing recorded answers this request: {mismatch.summary}")
        kept: Chunks = []
        response = await self._forward(incoming, exchange, kept)
        if exchange.error is None and exchange.status is not None:
            cassette.keep(asking, exchange.status, dict(response.headers), kept)
        return response

    # -- from the provider -------------------------------------------------------------------------------------

    async def _forward(self, incoming: Incoming, exchange: Exchange, kept: Chunks | None = None) -> web.StreamResponse:
        request, route, raw = incoming.request, incoming.route, incoming.raw
        upstream = self._upstreams.get(route.provider)
        if upstream is None:
            raise Refused("no_upstream", f"the gateway has no key for {route.provider}")
        circuit = self.circuits[route.provider]
        if wait := circuit.wait_s(time.monotonic()):
            raise Refused("circuit_open", f"{route.provider} failed too often in a row; not asked for {wait:.0f} s")
        usage_added = False
        if route.wire == "openai-chat" and route.action is Action.ANSWER and exchange.asked.stream:
            raw, usage_added = with_usage_asked(raw, incoming.body)
        exchange.dispatched = True
        try:
            answer = await self._client.request(
                request.method,
                _url(upstream, route, request),
                data=raw if raw else None,
                headers=_headers(request, incoming.headers, upstream),
                allow_redirects=False,
                proxy=proxy_for(upstream.url),
            )
        except (aiohttp.ClientError, OSError) as error:
            circuit.failed(time.monotonic())
            exchange.dispatched = not isinstance(error, aiohttp.ClientConnectorError)
            said = str(error) or type(error).__name__
            raise Refused("upstream_unreachable", f"{route.provider} does not answer: {said}") from error
        except asyncio.CancelledError:
            circuit.undecided()
            raise
        async with answer:
            self._note(exchange, answer, circuit)
            usage_filter = UsageChunkFilter() if usage_added else None
            return await relay(request, exchange, route.wire, answer, usage_filter, kept)

    def _note(self, exchange: Exchange, answer: aiohttp.ClientResponse, circuit: Circuit) -> None:
        exchange.upstream_status = answer.status
        exchange.retry_after_s = retry_after_s({k.lower(): v for k, v in answer.headers.items()})
        if answer.status in PROVIDER_IS_BUSY:
            exchange.error = "rate_limited"
            circuit.undecided()
        elif answer.status >= 500:
            exchange.error = "provider_failed"
            circuit.failed(time.monotonic())
        else:
            exchange.error = "provider_refused" if answer.status >= 400 else None
            circuit.succeeded()


def _refusal(exchange: Exchange, refused: Refused) -> web.Response:
    exchange.status = STATUS[refused.reason]
    exchange.error = refused.reason
    wire = exchange.route.wire if exchange.route else None
    return web.Response(status=exchange.status, body=body_of(wire, refused.reason, refused.message), headers=HEADERS)


def _headers(request: web.Request, headers: Mapping[str, str], upstream: Upstream) -> dict[str, str]:
    encoding = headers.get("content-encoding", "").strip().lower()
    sent = sent_on(request.headers.items(), decoded=encoding in _DECODED)
    accepted = accepted_encoding(headers.get("accept-encoding", ""))
    return {**sent, "Accept-Encoding": accepted, **upstream.credentials()}


def _url(upstream: Upstream, route: Route, request: web.Request) -> str:
    query = [f"{name}={value}" for name, value in _raw_query(request) if name != "key"]
    return f"{upstream.url}{route.path}" + (f"?{'&'.join(query)}" if query else "")


def _raw_query(request: web.Request) -> list[tuple[str, str]]:
    """As it came: what it means is the provider's business."""
    pairs = [part.partition("=") for part in request.rel_url.raw_query_string.split("&") if part]
    return [(name, value) for name, _, value in pairs]


def _parsed(raw: bytes) -> Any:
    try:
        return orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError:
        return None
