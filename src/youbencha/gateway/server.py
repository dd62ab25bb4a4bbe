"""The gateway as a server: in the harness's own process, or alone (`yb gateway`).

async with Gateway(upstreams=…, ledger=path) as gateway:
    access = gateway.issue(Labels("trial-1"), caps=Caps(usd=Decimal(2)))
    …                                    # the agent runs with access.url and access.key
    grant = gateway.end(access.key)      # and from here on, that key opens nothing
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from aiohttp import web

from youbencha import __version__
from youbencha.errors import YouBenchaError
from youbencha.gateway.api import GatewayAccess, Provider
from youbencha.gateway.budget import NO_CAPS, Account, Caps
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.cassette.placeholders import NO_PLACES, Places
from youbencha.gateway.forward import Circuit, Forwarder, new_client
from youbencha.gateway.keys import MOST_CONNECTIONS, VirtualKey, VirtualKeys
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.prices import Prices
from youbencha.gateway.proxy import Proxy

if TYPE_CHECKING:
    from youbencha.gateway.cassette.cassette import Cassette
    from youbencha.gateway.upstreams import Upstream


class Gateway:
    """Serves for as long as the `async with` block lasts."""

    def __init__(
        self,
        *,
        upstreams: Mapping[Provider, Upstream],
        prices: Prices | None = None,
        ledger: Path | None = None,
        cassette: Cassette | None = None,
        caps: Caps = NO_CAPS,
        host: str = "127.0.0.1",
        port: int = 0,
        on_call: Callable[[Call], None] | None = None,
        with_metrics: bool = False,
    ) -> None:
        self.total = Account("run", caps)
        self.keys = VirtualKeys()
        self.prices = prices or Prices()
        self.cassette = cassette
        self._upstreams = dict(upstreams)
        self._ledger_path = ledger
        self._host, self._port = host, port
        self._on_call = on_call
        self._metrics = Metrics() if with_metrics else None
        self._ledger: Ledger | None = None
        self._proxy: Proxy | None = None
        self._circuits: Mapping[tuple[Provider, str], Circuit] = {}
        self._url: str | None = None
        self._runner: web.AppRunner | None = None
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        if self._url is None:
            raise RuntimeError("the gateway is not running: use it in an `async with`")
        return self._url

    @property
    def ledger_failure(self) -> str | None:
        """Why lines of the ledger are missing, if they are."""
        return self._ledger.failure if self._ledger is not None else None

    @property
    def refused_keys(self) -> int:
        """How many requests were turned away for their key."""
        return self._proxy.refused_keys if self._proxy is not None else 0

    def issue(
        self,
        labels: Labels,
        *,
        caps: Caps = NO_CAPS,
        per_call: Caps = NO_CAPS,
        parent: Account | None = None,
        places: Places = NO_PLACES,
        on_call: Callable[[Call], None] | None = None,
        peers: frozenset[str] | None = None,
    ) -> GatewayAccess:
        """A new key. What is spent with it counts in `parent` too (an agent's account, say), and in the run's."""
        account = Account(labels.key, caps, per_call=per_call, parent=parent or self.total)
        grant = VirtualKey(labels=labels, account=account, on_call=on_call, peers=peers)
        if self.cassette is not None:
            grant.cassette = self.cassette.session(places)
        return GatewayAccess(self.url, self.keys.issue(grant), lambda: bool(grant.busy))

    async def listen_on(self, socket: Path) -> None:
        """On a Unix socket, too. A key whose `peers` name it can then be used there and nowhere else."""
        assert self._runner is not None, "the gateway is not running: use it in an `async with`"
        serve = self._runner.server
        assert serve is not None

        def connected() -> asyncio.BaseProtocol:
            return serve() if len(serve.connections) < MOST_CONNECTIONS else _TooMany()

        server = await asyncio.get_running_loop().create_unix_server(connected, socket)
        self._stack.callback(server.close)

    def end(self, key: str) -> VirtualKey | None:
        """The key opens nothing any more. What was done with it."""
        return self.keys.end(key)

    async def settled(self, grant: VirtualKey) -> None:
        """Until the requests that an ended key had under way are written down."""
        while grant.busy:
            await asyncio.wait(tuple(grant.busy), timeout=1.0)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._ledger = ledger = Ledger(self._ledger_path)
            stack.callback(ledger.close)
            secure = any(upstream.url.startswith("https:") for upstream in self._upstreams.values())
            forwarder = Forwarder(self._upstreams, await stack.enter_async_context(new_client(secure=secure)))
            self._circuits = forwarder.circuits
            self._proxy = Proxy(
                forwarder=forwarder, keys=self.keys, ledger=ledger, prices=self.prices, on_call=self._told
            )
            self._url = await self._listen(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._url = self._runner = None
        self.keys.end_all()
        await self._stack.aclose()

    async def _listen(self, stack: AsyncExitStack) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:(?s:.*)}", self._handle)  # a path may hold ends of lines
        # A handler ends with its client, and all end when the gateway does.
        # It does not decode bodies either: that is done after the key is checked.
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=_logger(),
            handler_cancellation=True,
            shutdown_timeout=1.0,
            auto_decompress=False,
        )
        await runner.setup()
        self._runner = runner
        stack.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            raise YouBenchaError(
                "GATEWAY_LISTEN_FAILED",
                f"cannot listen on {self._host}:{self._port}: {error.strerror or error}",
                hint="Choose another address, or let the system choose a port: 127.0.0.1:0",
            ) from error
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{runner.addresses[0][1]}"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        proxy = self._proxy
        assert proxy is not None
        if request.method in ("GET", "HEAD"):
            match request.path:
                case "/":  # Claude Code looks whether somebody is there
                    return web.json_response({"youbencha": __version__})
                case "/healthz":
                    return web.json_response({"status": "ok", "in_flight": proxy.in_flight})
                case "/metrics" if self._metrics is not None:
                    text = self._metrics.text(
                        in_flight=proxy.in_flight, refused_keys=proxy.refused_keys, circuits=self._circuits
                    )
                    return web.Response(text=text, content_type="text/plain", charset="utf-8")
                case _:
                    pass
        return await proxy.handle(request)

    def _told(self, call: Call) -> None:
        if self._metrics is not None:
            self._metrics.count(call)
        if self._on_call is not None:
            self._on_call(call)


class _TooMany(asyncio.Protocol):
    """Whoever opens connections without end has no more of them."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _logger() -> logging.Logger:
    """For those who set up logging. Others do not want an agent's broken requests on their terminal."""
    logger = logging.getLogger("youbencha.gateway.http")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


# What `/metrics` tells Prometheus. The names of keys are labels, the keys are not.

_MOST_SERIES = 2000
"""Models are named by clients, who could invent a new one with every request."""

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
        """How many are in each bucket, and in none before it; beyond all of them at the end."""
        self._duration_sum = 0.0
        self._calls = 0

    def count(self, call: Call) -> None:
        whose = (("key", call.labels.key), ("model", self._model(call)))
        self._requests[*whose, ("status", str(call.status or "none")), ("error", call.error or "")] += 1
        kinds = zip(("input", "output", "cache_read", "cache_creation"), call.tokens, strict=True)
        for kind, count in kinds:
            if count:
                self._tokens[*whose, ("kind", kind)] += count
        if call.cost_usd is not None:
            self._cost[whose] = self._cost.get(whose, Decimal(0)) + call.cost_usd
        self._partial[whose[:1]] += call.partial
        self._calls += 1
        seconds = call.duration_ms / 1000
        self._duration_sum += seconds
        self._durations[bisect_left(_BUCKETS_S, seconds)] += 1

    def text(self, *, in_flight: int, refused_keys: int, circuits: Mapping[tuple[Provider, str], Circuit]) -> str:
        """In the text format of Prometheus."""
        lines = [
            *_family("youbencha_gateway_requests_total", "counter", "Requests that have ended.", self._requests),
            *_family("youbencha_gateway_tokens_total", "counter", "Tokens, as the wire said.", self._tokens),
            *_family("youbencha_gateway_cost_usd_total", "counter", "Cost of what has a known price.", self._cost),
            *_family("youbencha_gateway_partial_total", "counter", "Answers that were cut off.", self._partial),
            *self._histogram(),
            *_family("youbencha_gateway_refused_keys_total", "counter", "Requests turned away.", {(): refused_keys}),
            *_family("youbencha_gateway_in_flight", "gauge", "Requests under way.", {(): in_flight}),
            *_family(
                "youbencha_gateway_circuit_open",
                "gauge",
                "1 while a provider that failed is left alone.",
                {
                    (("provider", provider), ("key", key)): int(circuit.is_open)
                    for (provider, key), circuit in circuits.items()
                },
            ),
        ]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> Iterator[str]:
        name = "youbencha_gateway_duration_seconds"
        yield f"# HELP {name} From a request's arrival to its end."
        yield f"# TYPE {name} histogram"
        for bound, count in zip(_BUCKETS_S, accumulate(self._durations), strict=False):
            yield f'{name}_bucket{{le="{bound}"}} {count}'
        yield f'{name}_bucket{{le="+Inf"}} {self._calls}'
        yield f"{name}_sum {self._duration_sum:.6f}"
        yield f"{name}_count {self._calls}"

    def _model(self, call: Call) -> str:
        return "other" if len(self._requests) > _MOST_SERIES else call.model or ""


def _family(name: str, kind: str, says: str, series: Mapping[Series, int | Decimal]) -> Iterator[str]:
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} {kind}"
    for labels, value in series.items():
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{name}{{{told}}} {value}" if told else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
