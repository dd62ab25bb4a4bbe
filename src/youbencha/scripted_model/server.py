"""The scripted model's HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from youbencha.gateway.access import server_url
from youbencha.gateway.wires import WireName, lower_names
from youbencha.json_lines import loads
from youbencha.scripted_model.answering import Decider, Kind, Reply, ScriptedEnding
from youbencha.scripted_model.format import Script
from youbencha.scripted_model.wire import HttpRequest

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Prompts of a million characters are tested, and agents send them again with every turn."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it was received, and how it was answered."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    """Parsed; None if there is none, or if it is not JSON."""
    status: int
    """The status of the answer. A stream that fails later has 200."""
    kind: Kind = "other"
    wire: WireName | None = None
    """The API of the path; None if it is unknown."""
    turn: int | None = None
    conversation: int | None = None
    at: float = field(default_factory=time.time)


class ScriptedModel:
    """Serves a script during its `async with` block."""

    def __init__(
        self,
        script: Script,
        *,
        variables: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        on_request: Callable[[RecordedRequest], None] | None = None,
    ) -> None:
        self.script = script
        self.requests: list[RecordedRequest] = []
        self._host, self._port = host, port
        self._on_request = on_request
        self._decider = Decider(script, dict(variables or {}))
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._url: str | None = None

    @property
    def url(self) -> str:
        if self._url is None:
            raise RuntimeError("the scripted model is not running: use it in an `async with`")
        return self._url

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A handler that hangs is cancelled when its client disconnects, and all of them at the end of the block.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=5.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        self._url = server_url(self._host, self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._url = None
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        headers = lower_names(request.headers)
        incoming = HttpRequest(request.path, request.query, headers, _parsed(await request.read()))
        decision = self._decider.decide(request.method, incoming)
        chosen = decision.chosen
        recorded = RecordedRequest(
            method=request.method,
            path=request.path_qs,
            headers=headers,
            body=incoming.body,
            status=decision.reply.status,
            kind=decision.kind,
            wire=decision.wire.name if decision.wire else None,
            turn=chosen.turn if chosen else None,
            conversation=chosen.conversation if chosen else None,
        )
        self.requests.append(recorded)
        if self._on_request is not None:
            self._on_request(recorded)
        return await self._send(request, decision.reply)

    async def _send(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        await self._wait(reply.delay)
        await response.prepare(request)
        # A client that has disconnected needs nothing more.
        with contextlib.suppress(ConnectionResetError):
            for number, piece in enumerate(reply.pieces):
                if number:
                    await self._wait(reply.pause)
                await response.write(piece)
            match reply.ending:
                case ScriptedEnding.HANG:
                    await self._closing.wait()
                    _abort(request)
                case ScriptedEnding.DROP:
                    _abort(request)
                case ScriptedEnding.COMPLETE:
                    await response.write_eof()
        return response

    async def _wait(self, seconds: float) -> None:
        """Sleep, but no longer than the server runs. Without a pause, let other tasks run."""
        if not seconds:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)


def _abort(request: web.Request) -> None:
    """Close the connection without ending the body, so that the client sees that it was cut off."""
    if request.transport is not None:
        request.transport.close()


def _parsed(raw: bytes) -> Any:
    try:
        return loads(raw) if raw else None
    except ValueError:
        return None
