"""From the gateway to the provider: one request there, and its answer as soon as it begins."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from youbencha.gateway.circuit import Circuit
from youbencha.gateway.exchange import Exchange
from youbencha.gateway.headers import Headers, retry_after_s, returned
from youbencha.gateway.incoming import Incoming, Refused, headers_for, payload, url_for, with_usage
from youbencha.gateway.network import proxy_for
from youbencha.gateway.relay import Chunks, relay
from youbencha.gateway.routes import Action, Provider
from youbencha.gateway.tally import PROVIDER_IS_BUSY

if TYPE_CHECKING:
    from youbencha.gateway.upstreams import Upstream

_ERRORS, _BAD_KEY, _FAILURES = 400, 401, 500


class Forwarder:
    """Knows the providers, and which of them have failed lately."""

    def __init__(self, upstreams: Mapping[Provider, Upstream], client: aiohttp.ClientSession) -> None:
        self.circuits: defaultdict[tuple[Provider, str], Circuit] = defaultdict(Circuit)
        """By provider and name of a key: whoever provokes failures holds up nobody else."""
        self._upstreams = upstreams
        self._client = client

    async def forward(self, incoming: Incoming, exchange: Exchange, kept: Chunks | None = None) -> web.StreamResponse:
        request, route = incoming.request, incoming.route
        upstream = self._upstreams.get(route.provider)
        if upstream is None:
            raise Refused("no_upstream", f"the gateway has no key for {route.provider}")
        if upstream.is_litellm and route.action is not Action.MODELS:
            _refuse_orders(incoming, exchange.asked.model)
        circuit = self.circuits[route.provider, exchange.labels.key]
        if wait := circuit.wait_s(time.monotonic()):
            raise Refused("circuit_open", f"{route.provider} failed too often in a row; not asked for {wait:.0f} s")
        answer, usage_hidden = await self._ask(incoming, exchange, upstream, circuit)
        incoming.forget_body()
        async with answer:
            if upstream.is_litellm and answer.status >= _ERRORS:
                return await _unwrapped(exchange, answer, circuit, kept)
            _note(exchange, answer.status, answer.headers, circuit)
            headers = _provider_headers(answer) if upstream.is_litellm else list(answer.headers.items())
            return await relay(request, exchange, route.wire, answer, headers, kept, usage_hidden=usage_hidden)

    async def _ask(
        self, incoming: Incoming, exchange: Exchange, upstream: Upstream, circuit: Circuit
    ) -> tuple[aiohttp.ClientResponse, bool]:
        """The answer as soon as it begins, and whether it ends with a usage that the client did not ask for."""
        request, route = incoming.request, incoming.route
        raw, usage_hidden = with_usage(incoming, exchange)
        exchange.dispatched = True
        try:
            answer = await self._client.request(
                request.method,
                url_for(upstream, route, request),
                data=payload(raw),
                headers=headers_for(incoming, upstream, readable=usage_hidden or upstream.is_litellm),
                allow_redirects=False,
                proxy=proxy_for(upstream.url),
            )
        except (aiohttp.ClientError, OSError) as error:
            circuit.failed(time.monotonic())
            exchange.dispatched = not isinstance(error, aiohttp.ClientConnectorError)
            said = type(error).__name__ if isinstance(error, aiohttp.ClientResponseError) else str(error)
            said = said or type(error).__name__
            raise Refused("upstream_unreachable", f"{route.provider} does not answer: {said}") from error
        except BaseException:  # its client left, or the fault is ours: either tells nothing of the provider
            circuit.undecided()
            raise
        return answer, usage_hidden


async def _unwrapped(
    exchange: Exchange, answer: aiohttp.ClientResponse, circuit: Circuit, kept: Chunks | None
) -> web.Response:
    """An error as the provider gave it, as far as LiteLLM lets it be known: small, and never a stream."""
    from youbencha.gateway.litellm.answers import provider_error

    headers = dict(_provider_headers(answer))
    try:
        restored = provider_error(answer.status, await answer.read())
    except (aiohttp.ClientError, OSError) as error:
        circuit.failed(time.monotonic())
        raise Refused("upstream_unreachable", "LiteLLM was gone in the middle of an answer") from error
    _note(exchange, restored.status, headers, circuit)
    exchange.status = restored.status
    final = [("x-should-retry", "false")] if restored.status == _BAD_KEY else []
    exchange.headers = passed = CIMultiDict([*returned(list(headers.items())), *final])
    if kept is not None:
        kept.append((exchange.elapsed_ms(), restored.body))
    return web.Response(status=restored.status, body=restored.body, headers=passed)


def _refuse_orders(incoming: Incoming, model: str | None) -> None:
    from youbencha.gateway.litellm.asking import order_in

    if found := order_in(incoming.body, model):
        raise Refused("not_metered", f"not passed on to LiteLLM, because what it does cannot be metered: {found}")


def _provider_headers(answer: aiohttp.ClientResponse) -> Headers:
    from youbencha.gateway.litellm.answers import provider_headers

    return list(provider_headers(answer.headers.items()).items())


def _note(exchange: Exchange, status: int, headers: Mapping[str, str], circuit: Circuit) -> None:
    """What a provider's answer says of the provider."""
    exchange.upstream_status = status
    exchange.retry_after_s = retry_after_s({name.lower(): value for name, value in headers.items()})
    if status in PROVIDER_IS_BUSY:
        exchange.error = "rate_limited"
        circuit.undecided()
    elif status >= _FAILURES:
        exchange.error = "provider_failed"
        circuit.failed(time.monotonic())
    else:
        exchange.error = "provider_refused" if status >= _ERRORS else None
        circuit.succeeded()
