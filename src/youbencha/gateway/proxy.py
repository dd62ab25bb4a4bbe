"""The way of a request: who asks, may it, answer it from a cassette or from the provider, count it, write it down.

What the provider says goes to the client as it comes, byte for byte; the meter reads along.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiohttp import web

from youbencha.errors import YouBenchaError
from youbencha.gateway.api import Route
from youbencha.gateway.bounds import CONTEXT_TOKENS, has_unbounded_input, measure_request, worst_tokens
from youbencha.gateway.budget import BudgetRefusal, WorstCase
from youbencha.gateway.call import Call, Labels, PendingCall
from youbencha.gateway.forward import Forwarder
from youbencha.gateway.keys import VirtualKey, VirtualKeys, presented_key
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.prices import Prices
from youbencha.gateway.refusals import Reason, Refusal, body_of, headers_of, status_of
from youbencha.gateway.relay import Chunks, play
from youbencha.gateway.request import (
    ClientRequest,
    body_to_send,
    lower_names,
    path_of,
    peer_of,
    read_request,
    route_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from youbencha.gateway.cassette.cassette import CassetteSession
    from youbencha.gateway.cassette.matching import ModelRequest, ReplayedAnswer

_MOST_REFUSED_KEYS = 1000
"""Written down; beyond, they are only counted: nobody fills a disk by guessing."""


_WRONG_KEY: Mapping[Reason, str] = {
    "key_missing": "no key was sent (x-api-key, Authorization: Bearer, x-goog-api-key or ?key=)",
    "key_expired": "this key was good once, and is no longer: its trial has ended",
}
"""Whether a key is unknown or another's is not said to whoever guesses."""


class Proxy:
    def __init__(
        self,
        *,
        forwarder: Forwarder,
        keys: VirtualKeys,
        ledger: Ledger,
        prices: Prices,
        on_call: Callable[[Call], None] | None = None,
    ) -> None:
        self.in_flight = 0
        self._forwarder = forwarder
        self._keys = keys
        self._ledger = ledger
        self._prices = prices
        self._on_call = on_call
        self._ids = itertools.count(1)
        self._prefix = f"{int(time.time() * 1000):x}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request that is not about the gateway itself."""
        headers = lower_names(request.headers)
        route = route_request(request, headers)
        key = presented_key(headers, request.query)
        peer = peer_of(request)
        grant = self._keys.find(key, peer)
        if grant is None:
            return self._turn_away(request, route, key)
        exchange = self._exchange(grant.labels, request, route)
        exchange.conclude = _once(lambda: self._conclude(grant, exchange))
        task = asyncio.current_task()
        assert task is not None
        grant.busy.add(task)
        grant.totals.arrived(time.monotonic())
        self.in_flight += 1
        try:
            return await self._serve(request, headers, grant, exchange)
        except Refusal as refused:
            grant.totals.refused_because(refused.reason, refused.message)
            return _refusal(exchange, refused)
        except asyncio.CancelledError:
            if not self._keys.find(key, peer):
                exchange.error = "key_ended"
            elif not exchange.metered().complete:  # else it only did not wait for the end mark
                exchange.error = exchange.error or "client_gone"
            raise
        except Exception:  # our own fault: aiohttp tells it, and answers
            exchange.error = "gateway_failed"
            exchange.status = exchange.status or 500
            raise
        finally:
            self.in_flight -= 1
            grant.busy.discard(task)
            exchange.conclude()

    # -- who asks ----------------------------------------------------------------------------------------------

    def _exchange(self, labels: Labels, request: web.Request, route: Route | None) -> PendingCall:
        return PendingCall(f"{self._prefix}-{next(self._ids)}", labels, request.method, path_of(request), route)

    def _turn_away(self, request: web.Request, route: Route | None, key: str | None) -> web.StreamResponse:
        invalid = self._keys.explain(key)
        exchange = self._exchange(Labels(invalid.name), request, route)
        message = _WRONG_KEY.get(invalid.reason, "this key is not good here")
        response = _refusal(exchange, Refusal(invalid.reason, message))
        self._keys.refused += 1
        if self._keys.refused <= _MOST_REFUSED_KEYS:
            call = exchange.settle(self._prices)
            (invalid.ledger or self._ledger).ended(call)
            if self._on_call is not None:
                self._on_call(call)
        return response

    def _conclude(self, grant: VirtualKey, exchange: PendingCall) -> None:
        call = exchange.settle(self._prices)
        grant.ledger.ended(call)
        grant.totals.ended(call, time.monotonic())
        for tell in (grant.on_call, self._on_call):
            if tell is not None:
                tell(call)

    # -- may it ------------------------------------------------------------------------------------------------

    async def _serve(
        self, request: web.Request, headers: Mapping[str, str], grant: VirtualKey, exchange: PendingCall
    ) -> web.StreamResponse:
        route = exchange.route
        if route is None:
            raise Refusal("not_found", f"{request.method} {exchange.path} is none of the APIs that are metered here")
        incoming = await read_request(request, headers, route, grant.memory)
        try:
            return await self._answered(incoming, grant, exchange)
        finally:
            incoming.forget_body()

    async def _answered(self, incoming: ClientRequest, grant: VirtualKey, exchange: PendingCall) -> web.StreamResponse:
        route = incoming.route
        exchange.asked = measure_request(route.wire, route.path, incoming.body, len(incoming.raw))
        grant.ledger.begun(exchange.as_partial())
        if exchange.billed:
            await self._prices.load()  # here, because a call is priced in its last moment, where nothing may wait
            await self._reserve(grant, exchange, incoming)
        if grant.cassette is None:
            return await self._forwarder.forward(incoming, exchange)
        return await self._with_cassette(incoming, grant.cassette, grant, exchange)

    async def _reserve(self, grant: VirtualKey, exchange: PendingCall, incoming: ClientRequest) -> None:
        if grant.account.is_capped and has_unbounded_input(incoming.body):
            exchange.asked = exchange.asked._replace(size=exchange.asked.size + CONTEXT_TOKENS)
        asked, usd = exchange.asked, None
        if grant.account.needs_price:
            usd = self._prices.worst_case(incoming.route.provider, asked.model, asked)
        worst = WorstCase(usd, worst_tokens(asked))
        try:
            exchange.reservation = await grant.account.reserve(worst, model=asked.model)
        except BudgetRefusal as error:
            raise Refusal(error.reason, error.message) from error

    # -- from a cassette ---------------------------------------------------------------------------------------

    async def _with_cassette(
        self, incoming: ClientRequest, cassette: CassetteSession, grant: VirtualKey, exchange: PendingCall
    ) -> web.StreamResponse:
        from youbencha.gateway.cassette.matching import ModelRequest

        route = incoming.route
        method = incoming.request.method
        asking = ModelRequest(method, route.path, route.wire, incoming.headers, incoming.body, incoming.raw)
        if replay := _found(cassette, asking):
            hidden = body_to_send(incoming, exchange)[1]
            return await play(incoming.request, exchange, route.wire, replay, usage_hidden=hidden)
        if cassette.mode == "replay":
            mismatch = cassette.mismatch(asking)
            grant.mismatches.append(mismatch)
            raise Refusal("not_recorded", f"nothing recorded answers this request: {mismatch.summary}")
        kept: Chunks = []
        whole = False
        try:
            response = await self._forwarder.forward(incoming, exchange, kept)
            whole = True
            return response
        finally:
            # Some clients leave once they have read the last event, and do not wait for the end mark.
            answered = exchange.status is not None and exchange.error in (None, "provider_refused")
            if answered and (whole or exchange.metered().complete):
                _keep(cassette, asking, exchange, kept, grant)


def _once(action: Callable[[], None]) -> Callable[[], None]:
    waiting = [action]
    return lambda: waiting.pop()() if waiting else None


def _keep(
    cassette: CassetteSession, asking: ModelRequest, exchange: PendingCall, kept: Chunks, grant: VirtualKey
) -> None:
    """The answer is paid for and delivered: that it could not be kept must not spoil it, but be told."""
    try:
        cassette.keep(asking, exchange.status or 0, exchange.headers, kept)
    except YouBenchaError as error:
        grant.not_recorded = grant.not_recorded or error.message


def _found(cassette: CassetteSession, asking: ModelRequest) -> ReplayedAnswer | None:
    try:
        return cassette.find(asking)
    except YouBenchaError as error:  # a file of the cassette is broken
        raise Refusal("not_recorded", error.message) from error


def _refusal(exchange: PendingCall, refused: Refusal) -> web.Response:
    wire = exchange.route.wire if exchange.route else None
    exchange.status = status_of(wire, refused.reason)
    exchange.error = refused.reason
    body = body_of(wire, refused.reason, refused.message)
    return web.Response(status=exchange.status, body=body, headers=headers_of(refused.reason))
