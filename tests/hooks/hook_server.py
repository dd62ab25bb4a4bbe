"""Real servers for hooks to send results to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Received:
    """What a server was sent, in order."""

    address: str = ""
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)


@asynccontextmanager
async def server(*answers: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[Received]:
    """A real one on a free port. It gives its answers in turn, and the last one for ever."""
    received = Received()

    async def handle(request: web.Request) -> web.StreamResponse:
        received.requests.append(request)
        received.bodies.append(json.loads(await request.text()))
        return await answers[min(len(received.requests), len(answers)) - 1](request)

    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        assert runner.addresses
        received.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield received
    finally:
        await runner.cleanup()


def status(code: int, text: str = "", **headers: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(_: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=code, text=text, headers=named)

    return answer
