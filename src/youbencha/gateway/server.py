"""The gateway's HTTP server: health, metrics, control, and the proxy."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from youbencha import __version__
from youbencha.gateway.call import Call
from youbencha.gateway.forward import Forwarder, load_certificates, new_client
from youbencha.gateway.keys import KEY_WITHIN_S, MAX_CONNECTIONS
from youbencha.gateway.lending import CONTROL_PREFIX, Lending
from youbencha.gateway.proxy import Proxy

if TYPE_CHECKING:  # a cycle: it loads this module
    from youbencha.gateway.gateway import Gateway
    from youbencha.gateway.metrics import Metrics


class GatewayServer:
    """Serves the requests to a gateway's sockets. May be created in any thread."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lending = Lending(gateway.tickets, lambda request: self._keep(request.protocol))
        self._certificates = load_certificates(gateway.upstreams)
        self._metrics = _new_metrics() if gateway.with_metrics else None
        self._stack = AsyncExitStack()
        self._servers: dict[socket.socket, asyncio.Server] = {}
        self._unproven: dict[RequestHandler, asyncio.TimerHandle] = {}
        """Connections without a valid key so far, the oldest first."""

    async def start(self) -> None:
        gateway = self._gateway
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(new_client(self._certificates))
            self._proxy = Proxy(
                forwarder=Forwarder(gateway.upstreams, client),
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

    async def serve(self, listener: socket.socket) -> None:
        """Serve the connections of a listening socket, which is closed at the end."""
        accept = self._runner.server
        assert accept is not None
        loop = asyncio.get_running_loop()
        is_unix = sys.platform != "win32" and listener.family == socket.AF_UNIX
        address = listener.getsockname()

        def limited() -> asyncio.BaseProtocol:
            here = (connection for connection in accept.connections if is_unix and _socket_name(connection) == address)
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
            return await self._lending.handle(request)
        if request.method in ("GET", "HEAD"):
            match request.path:
                case "/":  # Claude Code probes its base URL
                    return web.json_response({"youbencha": __version__})
                case "/healthz":
                    return web.json_response({"status": "ok", "in_flight": self._proxy.in_flight})
                case "/metrics" if self._gateway.with_metrics:
                    return self._metrics_page()
                case _:
                    pass
        return await self._proxy.handle(request)

    def _metrics_page(self) -> web.Response:
        if self._metrics is None:
            return web.Response(status=501, text="Install the metrics: pip install 'youbencha[metrics]'\n")
        page = self._metrics.page(self._proxy.in_flight, self._gateway.keys.valid())
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    def _ended(self, call: Call) -> None:
        if self._metrics is not None:
            self._metrics.count(call)
        if self._gateway.on_call is not None:
            self._gateway.on_call(call)


def _new_metrics() -> Metrics | None:
    """Return None without prometheus-client, which is optional."""
    try:
        from youbencha.gateway.metrics import Metrics
    except ImportError:
        return None
    return Metrics()


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


def _socket_name(connection: RequestHandler) -> object:
    return connection.transport.get_extra_info("sockname") if connection.transport is not None else None


class _TooManyConnections(asyncio.Protocol):
    """Closes connection connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
