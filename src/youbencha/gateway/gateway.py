"""The gateway: virtual keys, budgets, and the sockets that clients connect to.

async with Gateway(upstreams=…) as gateway:
    access = gateway.issue(Labels("trial-1"), caps=Caps(usd=Decimal(2)))
    …                                    # the agent runs with access.url and access.key
    used = gateway.end(access.key)       # the key is no longer valid

Its HTTP server is loaded in a thread while the agent starts, because importing aiohttp takes 0.15 s. Until it is ready,
connections wait in the backlog of the sockets.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from youbencha.errors import YouBenchaError
from youbencha.gateway.access import GatewayAccess, Provider, server_url
from youbencha.gateway.budget import NO_CAPS, Account, Caps
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.cassette.matching import Places
from youbencha.gateway.heads import RequestHeads
from youbencha.gateway.keys import KeyScope, Tickets, VirtualKey, VirtualKeys
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.prices import Prices
from youbencha.gateway.upstreams import Upstream
from youbencha.gateway.witness import Witness

if TYPE_CHECKING:  # a cycle: it loads this module
    from youbencha.gateway.server import GatewayServer


_BACKLOG = 128


class Gateway:
    """Serves during its `async with` block. It may serve many trials, each with its own keys."""

    def __init__(
        self,
        *,
        upstreams: Mapping[Provider, Upstream],
        prices: Prices | None = None,
        ledger: Ledger | None = None,
        cassette: Cassette | None = None,
        caps: Caps = NO_CAPS,
        host: str = "127.0.0.1",
        port: int = 0,
        on_call: Callable[[Call], None] | None = None,
        with_metrics: bool = False,
    ) -> None:
        """`ledger` is for the calls of keys without their own ledger, and for requests without a valid key."""
        self.total = Account("run", caps)
        self.keys = VirtualKeys()
        self.tickets = Tickets()
        """For trials on other machines."""
        self.prices = prices or Prices()
        self.ledger = ledger or Ledger(None)
        self.cassette = cassette
        self.upstreams = dict(upstreams)
        self.on_call = on_call
        self.with_metrics = with_metrics
        self._address = (host, port)
        self._url: str | None = None
        self._not_served: list[socket.socket] = []
        """Sockets whose connections wait for the server."""
        self._unix: dict[Path, socket.socket] = {}
        self._server: GatewayServer | None = None
        self._starting: asyncio.Task[None] | None = None
        self._failure: YouBenchaError | None = None
        self._failure_callbacks: list[Callable[[], None]] = []

    @property
    def url(self) -> str:
        if self._url is None:
            raise RuntimeError("the gateway is not running: use it in an `async with`")
        return self._url

    def issue(
        self,
        labels: Labels,
        *,
        caps: Caps = NO_CAPS,
        per_call: Caps = NO_CAPS,
        parent: Account | None = None,
        ledger: Ledger | None = None,
        places: Places | None = None,
        on_call: Callable[[Call], None] | None = None,
        peers: frozenset[str] | None = None,
        scope: KeyScope | None = None,
        heads: RequestHeads | None = None,
        witness: Witness | None = None,
    ) -> GatewayAccess:
        """Issue a new key, with its own session if there is a cassette.

        Its spending also counts in `parent` (such as an agent's account), and in the run's total. `heads` gets what its
        requests ask for, and `witness` follows its calls.
        """
        account = Account(labels.key, caps, per_call=per_call, parent=parent or self.total)
        issued = VirtualKey(
            labels=labels,
            account=account,
            on_call=on_call,
            peers=peers,
            scope=scope,
            witness=witness or Witness(),
            ledger=ledger or self.ledger,
            cassette=None if self.cassette is None else self.cassette.session(places),
            heads=heads,
        )
        return GatewayAccess(self.url, self.keys.issue(issued), lambda: bool(issued.busy))

    def end(self, key: str) -> VirtualKey | None:
        """Revoke a key, and cut off its requests in progress. Return the key with its totals."""
        return self.keys.end(key)

    def forget(self, key: str) -> None:
        """Forget a revoked key, whose ledger is about to be closed. From now on, it is an unknown one."""
        self.keys.forget(key)

    async def settled(self, key: VirtualKey) -> None:
        """Wait until the requests that a revoked key had in progress are in the ledger."""
        while key.busy:
            await asyncio.wait(tuple(key.busy), timeout=1.0)

    async def listen_on(self, path: Path) -> None:
        """Listen on a Unix socket as well. A key whose `peers` contain its path is valid only there."""
        if sys.platform == "win32":
            raise NotImplementedError("Unix sockets are for containers, which need Linux")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(path))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._unix[path] = listener
        self._not_served.append(listener)
        await self._serve_all()

    def stop_listening(self, path: Path) -> None:
        listener = self._unix.pop(path)
        if listener in self._not_served:
            self._not_served.remove(listener)
        if self._server is not None:
            self._server.stop(listener)
        listener.close()

    async def ready(self) -> None:
        """Wait until requests are served. Raises YouBenchaError if the server could not be started."""
        if self._starting is not None:
            await asyncio.shield(self._starting)
        if self._failure is not None:
            raise self._failure

    @property
    def failure(self) -> YouBenchaError | None:
        """The reason why it cannot serve: it could not be started, or LiteLLM behind it has ended."""
        return self._failure

    def fail(self, failure: YouBenchaError) -> None:
        """Record why it cannot serve, and end the trials that use it."""
        self._failure = failure
        for callback in tuple(self._failure_callbacks):
            callback()

    def on_failure(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for the case that it cannot serve, so that a trial need not wait for answers.

        Returns a function that ends this.
        """
        if self._failure is not None:
            callback()
        self._failure_callbacks.append(callback)
        return lambda: self._failure_callbacks.remove(callback)

    async def __aenter__(self) -> Self:
        host, port = self._address
        self._not_served = _listen(host, port)
        self._url = server_url(host, self._not_served[0].getsockname()[1])
        self._starting = asyncio.create_task(self._start())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._url = None
        self.keys.end_all()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        self._close_not_served()
        if self._server is not None:
            await self._server.close()

    async def _start(self) -> None:
        try:
            server = await asyncio.to_thread(_load_server, self)
            await server.start()
            self._server = server
            await self._serve_all()
        except Exception as error:  # noqa: BLE001 - clients must not wait, for any error
            self.fail(
                YouBenchaError(
                    "GATEWAY_START_FAILED",
                    f"The gateway's server cannot be started: {type(error).__name__}: {error}",
                    hint="Check the installation with `yb doctor`.",
                )
            )
            self._close_not_served()

    async def _serve_all(self) -> None:
        while self._server is not None and self._not_served:
            await self._server.serve(self._not_served.pop(0))

    def _close_not_served(self) -> None:
        for listener in self._not_served:
            listener.close()
        self._not_served.clear()


def _load_server(gateway: Gateway) -> GatewayServer:
    from youbencha.gateway.server import GatewayServer

    return GatewayServer(gateway)


def _listen(host: str, port: int) -> list[socket.socket]:
    """Listen on every address of the host, on one port."""
    listeners: list[socket.socket] = []
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((info[0], str(info[4][0])) for info in addresses):
            chosen = listeners[0].getsockname()[1] if listeners else port
            listeners.append(socket.create_server((address, chosen), family=family, backlog=_BACKLOG))
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise YouBenchaError(
            "GATEWAY_LISTEN_FAILED",
            f"Cannot listen on {host}:{port}: {error.strerror or error}",
            hint="Choose another address, or let the system choose a port: 127.0.0.1:0.",
        ) from error
    return listeners
