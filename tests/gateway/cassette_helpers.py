"""Helpers for the tests of cassettes: requests, paths, and a small proxy that records or replays."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from youbencha.gateway.cassette.answers import ReplayedAnswer
from youbencha.gateway.cassette.cassette import Cassette, CassetteSession
from youbencha.gateway.cassette.matching import ModelRequest, Places
from youbencha.gateway.wires import WireName, find_route

HERE = Path("/rec/work space/run-2026-11-16-023149-0ad713/src-modified")
THERE = Path("/srv/elsewhere/src")
HOME = Path("/rec/home")
SSE = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}


def places(workspace: Path = HERE, home: Path = HOME) -> Places:
    return Places((("workspace", workspace), ("home", home)))


def asking(body: object, path: str = "/v1/messages", wire: WireName | None = "anthropic-messages") -> ModelRequest:
    return ModelRequest("POST", path, wire, {}, body)


def messages(*texts: str, **more: Any) -> dict[str, Any]:
    """A conversation: messages of the user and the model in turn."""
    talk = [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]
    return {"model": "claude-test", "max_tokens": 1000, "messages": talk, **more}


def sse(events: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def said(text: str) -> bytes:
    return json.dumps({"type": "message", "content": [{"type": "text", "text": text}]}).encode()


def keep_text(session: CassetteSession, request: ModelRequest, text: str, ms: float = 5.0) -> None:
    session.keep(request, 200, JSON, [(ms, said(text))])


def text_of(replay: ReplayedAnswer | None) -> str:
    assert replay is not None
    content = json.loads(whole(replay))["content"]
    return str(content[0]["text"])


def whole(replay: ReplayedAnswer | None) -> bytes:
    assert replay is not None
    return b"".join(data for _, data in replay.chunks)


def everything_in(directory: Path) -> bytes:
    return b"\n".join(file.name.encode() + file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file())


class Proxy:
    """No more than a gateway must do for a cassette: asks it first, and shows it every answer."""

    def __init__(self, session: CassetteSession, upstream: str | None) -> None:
        self._session, self._upstream = session, upstream
        self.url = ""
        self.unmatched: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        raw = await request.read()
        route = find_route(request.method, request.path, headers)
        if route is None:
            return web.Response(status=404)
        asked = ModelRequest(
            request.method, route.path, route.wire.name, headers, json.loads(raw) if raw else None, raw
        )
        found = self._session.find(asked)
        if found is None and self._upstream is None:
            self.unmatched.append(self._session.mismatch(asked).text)
            return web.Response(status=400, text=self.unmatched[-1])
        if found is not None:
            return web.Response(status=found.status, headers=dict(found.headers), body=whole(found))
        return await self._forward(request, asked)

    async def _forward(self, request: web.Request, asked: ModelRequest) -> web.Response:
        begun = time.monotonic()
        chunks: list[tuple[float, bytes]] = []
        sent = {name: value for name, value in asked.headers.items() if name not in ("host", "accept-encoding")}
        async with (
            aiohttp.ClientSession() as client,
            client.request(request.method, f"{self._upstream}{request.path_qs}", data=asked.raw, headers=sent) as got,
        ):
            async for chunk in got.content.iter_any():
                chunks.append(((time.monotonic() - begun) * 1000, chunk))
            response_headers = {name.lower(): value for name, value in got.headers.items()}
            self._session.keep(asked, got.status, response_headers, chunks)
            kind = {"content-type": response_headers["content-type"]} if "content-type" in response_headers else {}
            return web.Response(status=got.status, headers=kind, body=b"".join(data for _, data in chunks))


@asynccontextmanager
async def proxied(cassette: Cassette, where: Places, upstream: str | None = None) -> AsyncIterator[Proxy]:
    proxy = Proxy(cassette.session(where), upstream)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield proxy
    finally:
        await runner.cleanup()
