"""The gateway's HTTP server: health, metrics, control, and the proxy."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from decimal import Decimal
from itertools import accumulate
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from youbencha import __version__
from youbencha.gateway.api import Provider
from youbencha.gateway.call import Call
from youbencha.gateway.control import CONTROL_PREFIX, Control
from youbencha.gateway.forward import Circuit, Forwarder, load_certificates, new_client
from youbencha.gateway.keys import KEY_WITHIN_S, MAX_CONNECTIONS
from youbencha.gateway.proxy import Proxy

if TYPE_CHECKING:
    from youbencha.gateway.gateway import Gateway


class GatewayServer:
    """Serves the requests to a gateway's sockets. May be created in any thread."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._control = Control(gateway.tickets, lambda request: self._keep(request.protocol))
        self._certificates = load_certificates(gateway.upstreams)
        self._metrics = Metrics() if gateway.with_metrics else None
        self._stack = AsyncExitStack()
        self._servers: dict[socket.socket, asyncio.Server] = {}
        self._unproven: dict[RequestHandler, asyncio.TimerHandle] = {}
        """Connections without a valid key so far, the oldest first."""

    async def start(self) -> None:
        gateway = self._gateway
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(new_client(self._certificates))
            self._forwarder = Forwarder(gateway.upstreams, client)
            self._proxy = Proxy(
                forwarder=self._forwarder,
                keys=gateway.keys,
                ledger=gateway.ledger,
                prices=gateway.prices,
                on_call=self._ended,
                on_valid_key=lambda request: self._keep(request.protocol),
            )
            self._runner = _runner(self._handle)
            await self._runner.setup()
            stack.push_async_callback(self._runner.cleanup)
            self._stack = stack.pop_all()

    def forget(self, key: str) -> None:
        """Drop what is kept for a key, given its name."""
        self._forwarder.forget(key)

    async def serve(self, listener: socket.socket) -> None:
        """Serve the connections of a listening socket, which is closed at the end."""
        accept = self._runner.server
        assert accept is not None
        loop = asyncio.get_running_loop()
        is_unix = sys.platform != "win32" and listener.family == socket.AF_UNIX
        address = listener.getsockname()

        def limited() -> asyncio.BaseProtocol:
            here = (each for each in accept.connections if is_unix and _address_of(each) == address)
            if sum(1 for _ in here) >= MAX_CONNECTIONS:  # a sandbox's processes could open any number
                return _TooManyConnections()
            connection = accept()
            self._unproven[connection] = loop.call_later(KEY_WITHIN_S, self._close, connection)
            if len(self._unproven) > MAX_CONNECTIONS:
                self._close(next(iter(self._unproven)))
            return connection

        create = loop.create_unix_server if is_unix else loop.create_server
        server = await create(limited, sock=listener, start_serving=False)
        self._servers[listener] = server  # before the first wait, where a cancellation may come
        await server.start_serving()

    def _keep(self, connection: RequestHandler) -> None:
        if (timer := self._unproven.pop(connection, None)) is not None:
            timer.cancel()

    def _close(self, connection: RequestHandler) -> None:
        self._keep(connection)
        connection.force_close()

    def stop(self, listener: socket.socket) -> None:
        """Accept no more connections there. Does nothing if the listener is not served."""
        if (server := self._servers.pop(listener, None)) is not None:
            server.close()

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        await self._stack.aclose()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith(CONTROL_PREFIX):
            return await self._control.handle(request)
        if request.method in ("GET", "HEAD"):
            match request.path:
                case "/":  # Claude Code probes its base URL
                    return web.json_response({"youbencha": __version__})
                case "/healthz":
                    return web.json_response({"status": "ok", "in_flight": self._proxy.in_flight})
                case "/metrics" if self._metrics is not None:
                    text = self._metrics.text(
                        in_flight=self._proxy.in_flight,
                        refused_keys=self._gateway.keys.refused,
                        circuits=self._forwarder.circuits,
                    )
                    return web.Response(text=text, content_type="text/plain", charset="utf-8")
                case _:
                    pass
        return await self._proxy.handle(request)

    def _ended(self, call: Call) -> None:
        if self._metrics is not None:
            self._metrics.count(call)
        if self._gateway.on_call is not None:
            self._gateway.on_call(call)


def _runner(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.AppRunner:
    app = web.Application()
    app.router.add_route("*", "/{path:(?s:.*)}", handler)  # a path may contain line breaks
    logger = logging.getLogger("youbencha.gateway.http")
    if not logger.handlers:  # an agent's invalid requests must not be logged to the terminal
        logger.addHandler(logging.NullHandler())
    return web.AppRunner(
        app,
        access_log=None,
        logger=logger,
        handler_cancellation=True,  # cancel a handler when its client disconnects
        shutdown_timeout=1.0,
        auto_decompress=False,  # done after the key is checked
        lingering_time=1.0,  # for the body of a request with an invalid key, which is not read
    )


def _address_of(connection: RequestHandler) -> object:
    return connection.transport.get_extra_info("sockname") if connection.transport is not None else None


class _TooManyConnections(asyncio.Protocol):
    """Closes each connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


# Metrics for Prometheus. The names of keys are labels, the keys themselves are not.

_MAX_SERIES = 2000
"""Clients choose the names of models, and could use a new one with every request."""

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
Series = tuple[tuple[str, str], ...]


class Metrics:
    """Counts calls as they end."""

    def __init__(self) -> None:
        self._requests: Counter[Series] = Counter()
        self._tokens: Counter[Series] = Counter()
        self._cost: dict[Series, Decimal] = {}
        self._partial: Counter[Series] = Counter()
        self._durations = [0] * (len(_BUCKETS_S) + 1)
        """The number of calls in each bucket; the last one is for those above all bounds."""
        self._duration_sum = 0.0
        self._calls = 0

    def count(self, call: Call) -> None:
        labels = (("key", call.labels.key), ("model", self._model(call)))
        self._requests[*labels, ("status", str(call.status or "none")), ("error", call.error or "")] += 1
        kinds = zip(("input", "output", "cache_read", "cache_creation"), call.tokens, strict=True)
        for kind, count in kinds:
            if count:
                self._tokens[*labels, ("kind", kind)] += count
        if call.cost_usd is not None:
            self._cost[labels] = self._cost.get(labels, Decimal(0)) + call.cost_usd
        self._partial[labels[:1]] += call.partial
        self._calls += 1
        seconds = call.duration_ms / 1000
        self._duration_sum += seconds
        self._durations[bisect_left(_BUCKETS_S, seconds)] += 1

    def text(self, *, in_flight: int, refused_keys: int, circuits: Mapping[tuple[Provider, str], Circuit]) -> str:
        """Return all metrics in the text format of Prometheus."""
        lines = [
            *_family("youbencha_gateway_requests_total", "counter", "Requests that have ended.", self._requests),
            *_family(
                "youbencha_gateway_tokens_total", "counter", "Tokens, as reported by the providers.", self._tokens
            ),
            *_family(
                "youbencha_gateway_cost_usd_total", "counter", "Cost of the requests with a known price.", self._cost
            ),
            *_family("youbencha_gateway_partial_total", "counter", "Answers that were cut off.", self._partial),
            *self._histogram(),
            *_family(
                "youbencha_gateway_refused_keys_total", "counter", "Requests without a valid key.", {(): refused_keys}
            ),
            *_family("youbencha_gateway_in_flight", "gauge", "Requests in progress.", {(): in_flight}),
            *_family(
                "youbencha_gateway_circuit_open",
                "gauge",
                "1 while requests to a failing provider are held back.",
                {
                    (("provider", provider), ("key", key)): int(circuit.is_open)
                    for (provider, key), circuit in circuits.items()
                },
            ),
        ]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> Iterator[str]:
        name = "youbencha_gateway_duration_seconds"
        yield f"# HELP {name} Time from the arrival of a request to its end."
        yield f"# TYPE {name} histogram"
        for bound, count in zip(_BUCKETS_S, accumulate(self._durations), strict=False):
            yield f'{name}_bucket{{le="{bound}"}} {count}'
        yield f'{name}_bucket{{le="+Inf"}} {self._calls}'
        yield f"{name}_sum {self._duration_sum:.6f}"
        yield f"{name}_count {self._calls}"

    def _model(self, call: Call) -> str:
        return "other" if len(self._requests) > _MAX_SERIES else call.model or ""


def _family(name: str, kind: str, description: str, series: Mapping[Series, int | Decimal]) -> Iterator[str]:
    yield f"# HELP {name} {description}"
    yield f"# TYPE {name} {kind}"
    for labels, value in series.items():
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
