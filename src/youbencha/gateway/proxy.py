"""Handle one request: check its key, reserve its worst case, answer it, settle its cost, write it to the ledger.

The answer comes from a cassette or from the provider. It is passed on to the client byte for byte as it arrives, while
the meter reads it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping

from aiohttp import web

from youbencha.errors import YouBenchaError
from youbencha.gateway.budget import BudgetRefusal, WorstCase
from youbencha.gateway.call import Call, Labels, PendingCall
from youbencha.gateway.cassette.answers import ReplayedAnswer
from youbencha.gateway.cassette.cassette import CassetteSession
from youbencha.gateway.cassette.matching import ModelRequest
from youbencha.gateway.examination import UnpricedError, examine
from youbencha.gateway.forward import Chunks, Forwarder, replay
from youbencha.gateway.keys import VirtualKey, VirtualKeys
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.prices import Prices
from youbencha.gateway.refusals import Reason, Refusal
from youbencha.gateway.request import ClientRequest, body_to_send, find_peer, raw_path, read_request, route_request
from youbencha.gateway.wires import WIRES, Route, lower_names, presented_key
from youbencha.json_lines import as_mapping

_MAX_REFUSED_KEYS = 1000
"""The most of these that are written to the ledger; more are only counted, so that guessing keys cannot fill a disk."""

_OF_THE_KEY = (401, 402, 403, 408)  # they say nothing about the request
_UNKNOWN_WIRE = WIRES["anthropic-messages"]
"""The format of an error if the path does not identify the API."""

_INVALID_KEY: Mapping[Reason, str] = {
    "key_missing": "no key was sent (x-api-key, Authorization: Bearer, x-goog-api-key or ?key=)",
    "key_expired": "this key is no longer valid: its trial has ended",
}
"""A client that guesses keys does not learn whether one is unknown or another sandbox's."""


class Proxy:
    def __init__(
        self,
        *,
        forwarder: Forwarder,
        keys: VirtualKeys,
        ledger: Ledger,
        prices: Prices,
        on_call: Callable[[Call], None],
        on_valid_key: Callable[[web.Request], None],
    ) -> None:
        """`ledger` is for requests without a valid key; each key has its own."""
        self.in_flight = 0
        self._forwarder = forwarder
        self._keys = keys
        self._ledger = ledger
        self._prices = prices
        self._on_call = on_call
        self._on_valid_key = on_valid_key
        self._ids = itertools.count(1)
        self._prefix = f"{int(time.time() * 1000):x}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request to a model's API."""
        headers = lower_names(request.headers)
        route = route_request(request, headers)
        secret = presented_key(headers, request.query)
        peer = find_peer(request)
        key = self._keys.find(secret, peer)
        if key is None:
            return self._refuse_key(request, route, secret)
        call = self._new_call(key.labels, request, route)
        call.finish = _once(lambda: self._finish(key, call))
        task = asyncio.current_task()
        assert task is not None
        key.busy.add(task)
        self._on_valid_key(request)
        key.totals.arrived(time.monotonic())
        self.in_flight += 1
        try:
            return await self._serve(request, headers, key, call)
        except Refusal as refusal:
            key.totals.note_refusal(refusal)
            return _refuse(call, refusal)
        except asyncio.CancelledError:
            if not self._keys.find(secret, peer):
                call.error = "key_ended"
            elif not call.metered().complete:  # otherwise the client only did not wait for the end of the body
                call.error = call.error or "client_gone"
            raise
        except Exception:  # an internal error, which aiohttp logs and answers
            call.error = "gateway_failed"
            call.status = call.status or 500
            raise
        finally:
            self.in_flight -= 1
            key.busy.discard(task)
            call.finish()

    def _new_call(self, labels: Labels, request: web.Request, route: Route | None) -> PendingCall:
        return PendingCall(f"{self._prefix}-{next(self._ids)}", labels, request.method, raw_path(request), route)

    def _refuse_key(self, request: web.Request, route: Route | None, secret: str | None) -> web.StreamResponse:
        invalid = self._keys.explain(secret)
        call = self._new_call(Labels(invalid.name), request, route)
        response = _refuse(
            call, Refusal(invalid.reason, _INVALID_KEY.get(invalid.reason, "this key is not valid here"))
        )
        self._keys.refused += 1
        if self._keys.refused <= _MAX_REFUSED_KEYS:
            settled = call.settle(self._prices)
            (invalid.ledger or self._ledger).ended(settled)
            self._on_call(settled)
        return response

    async def _serve(
        self, request: web.Request, headers: Mapping[str, str], key: VirtualKey, call: PendingCall
    ) -> web.StreamResponse:
        route = call.route
        if route is None:
            raise Refusal("not_found", f"{request.method} {call.path} is not one of the metered APIs")
        incoming = await read_request(request, headers, route, key.memory)
        try:
            call.size = route.wire.measure(route.path, incoming.body, len(incoming.raw))
            call.request = hash(incoming.raw)
            call.offers_tools = bool(as_mapping(incoming.body).get("tools"))
            model = call.size.model or ("(none)" if call.billed else None)  # a list of models needs none
            if key.scope is not None and not key.scope.allows(route.provider, model):
                raise Refusal("not_allowed", f"this key is not for {call.size.model or 'models'} of {route.provider}")
            key.ledger.begun(call.as_partial())
            if call.billed:
                if key.heads is not None:
                    key.heads.add(route.wire.name, route.path, headers, incoming.body)
                await self._prices.load()  # here, because the end of a call, where it is priced, must not wait
                await self._reserve(key, call, incoming)
            if key.cassette is None:
                return await self._forwarder.forward(incoming, call, key.circuits)
            return await self._with_cassette(incoming, key.cassette, key, call)
        finally:
            incoming.forget_body()

    async def _reserve(self, key: VirtualKey, call: PendingCall, incoming: ClientRequest) -> None:
        """Reserve the worst case of a call in its account, or refuse it."""
        if key.account.is_capped:
            try:
                call.size = examine(incoming.route.wire, incoming.body, call.size)
            except UnpricedError as error:
                raise Refusal("not_metered", f"there is a budget, and the price of {error} is not known") from error
        size, usd = call.size, None
        if key.account.needs_price:
            usd = self._prices.worst_case(incoming.route.provider, size.model, size)
        worst = WorstCase(usd, size.worst_tokens)
        try:
            call.reservation = await key.account.reserve(worst, model=size.model)
        except BudgetRefusal as error:
            raise Refusal(error.reason, error.message, account=error.account) from error

    async def _with_cassette(
        self, incoming: ClientRequest, cassette: CassetteSession, key: VirtualKey, call: PendingCall
    ) -> web.StreamResponse:
        """Replay the recorded answer, or ask the provider and record its answer."""
        route = incoming.route
        method = incoming.request.method
        model_request = ModelRequest(method, route.path, route.wire.name, incoming.headers, incoming.body, incoming.raw)
        if answer := _find(cassette, model_request):
            return await replay(incoming.request, call, route.wire, answer, body_to_send(incoming, call)[1])
        if cassette.mode == "replay":
            mismatch = cassette.mismatch(model_request)
            key.mismatches.append(mismatch)
            raise Refusal("not_recorded", f"no recording matches this request: {mismatch.summary}")
        chunks: Chunks = []
        lost: str | None = "the agent closed the connection before the end of the answer"
        try:
            response = await self._forwarder.forward(incoming, call, key.circuits, chunks)
            if call.error != "client_gone":
                lost = None
            return response
        except Refusal as refusal:
            lost = refusal.message
            raise
        finally:
            # Some clients disconnect after the last event, and do not wait for the end of the body.
            _record(cassette, model_request, call, chunks, None if call.metered().complete else lost)

    def _finish(self, key: VirtualKey, call: PendingCall) -> None:
        """Settle a call, count it and write it to the ledger."""
        settled = call.settle(self._prices)
        key.ledger.ended(settled)
        key.totals.ended(settled, time.monotonic())
        key.witness.ended(settled)
        if key.on_call is not None:
            key.on_call(settled)
        self._on_call(settled)


def _once(action: Callable[[], None]) -> Callable[[], None]:
    waiting = [action]
    return lambda: waiting.pop()() if waiting else None


def _find(cassette: CassetteSession, model_request: ModelRequest) -> ReplayedAnswer | None:
    try:
        return cassette.find(model_request)
    except YouBenchaError as error:  # a file of the cassette is broken
        raise Refusal("not_recorded", error.message) from error


def _record(
    cassette: CassetteSession, model_request: ModelRequest, call: PendingCall, chunks: Chunks, lost: str | None
) -> None:
    """Record an answer. If that fails, it is only reported, because the answer was paid for and delivered."""
    is_answer = call.error == "client_gone" or (call.error == "provider_refused" and call.status not in _OF_THE_KEY)
    failed = None if is_answer else call.error or call.metered().error
    try:
        cassette.keep(model_request, call.status or 0, call.headers, chunks, failed=failed, lost=lost)
    except YouBenchaError as error:
        cassette.write_error = cassette.write_error or error.message


def _refuse(call: PendingCall, refusal: Refusal) -> web.Response:
    wire = call.route.wire if call.route else _UNKNOWN_WIRE
    call.status = wire.error_status(refusal.reason)
    call.error = refusal.reason
    body = wire.error_body(refusal.reason, refusal.message)
    return web.Response(status=call.status, body=body, headers=refusal.headers)
