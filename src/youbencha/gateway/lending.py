"""Control routes of a gateway: a trial on another machine issues and ends its keys, and learns when to stop.

Each request has the token of its trial, which is valid for the keys of that trial only. An agent has no token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from youbencha.errors import YouBenchaError
from youbencha.gateway.cassette.matching import Places
from youbencha.gateway.keys import LentKeys, Tickets
from youbencha.gateway.request import find_peer
from youbencha.json_lines import as_mapping

CONTROL_PREFIX = "/_youbencha/"
"""No API of a model begins with it."""

STATE_EVERY_S = 1.0
"""Between two lines about the state of a trial's keys."""

_MAX_BODY_BYTES = 16 * 1024
_BODY_WITHIN_S = 10.0
_MAX_NAME_CHARS = 200


class Lending:
    """Answers requests below `CONTROL_PREFIX`."""

    def __init__(self, tickets: Tickets, on_valid_token: Callable[[web.Request], None]) -> None:
        self._tickets = tickets
        self._on_valid_token = on_valid_token

    async def handle(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        keys = self._tickets.find(token)
        if keys is None:
            return _answer(401, {"error": "this ticket is not valid, or its trial has ended"})
        self._on_valid_token(request)
        action = request.path.removeprefix(CONTROL_PREFIX)
        if (request.method, action) == ("GET", "state"):
            return await self._state(request, token, keys)
        known = _ACTIONS.get(action) if request.method == "POST" else None
        if known is None:
            return _answer(404, {"error": f"{request.method} {request.path[:_MAX_NAME_CHARS]} does not exist"})
        try:
            return _answer(200, await known(keys, await _body(request), request))
        except _BadRequestError as error:
            return _answer(400, {"error": str(error)})
        except YouBenchaError as error:
            return _answer(409, {"error": error.message, "code": error.code, "hint": error.hint})

    async def _state(self, request: web.Request, token: str, keys: LentKeys) -> web.StreamResponse:
        """Send a line when the agent has to stop, and otherwise one every second, as long as the ticket is valid."""
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        while self._tickets.find(token) is keys:
            stop = keys.stop.is_set()
            await response.write(orjson.dumps({"stop": stop, "busy": keys.agent_is_busy}) + b"\n")
            with suppress(TimeoutError):
                async with asyncio.timeout(STATE_EVERY_S):
                    await (asyncio.sleep(STATE_EVERY_S) if stop else keys.stop.wait())
        return response


class _BadRequestError(Exception):
    """The body of a request is not what it should be."""


async def _body(request: web.Request) -> Mapping[str, Any]:
    raw, ends_at = b"", time.monotonic() + _BODY_WITHIN_S
    try:
        while piece := await asyncio.wait_for(request.content.readany(), ends_at - time.monotonic()):
            raw += piece
            if len(raw) > _MAX_BODY_BYTES:
                raise _BadRequestError("the body is too large")
        body = orjson.loads(raw)
    except TimeoutError:
        raise _BadRequestError("the body did not arrive") from None
    except orjson.JSONDecodeError:
        raise _BadRequestError("the body is not JSON") from None
    if not isinstance(body, dict):
        raise _BadRequestError("the body is not an object")
    return body


async def _issue(keys: LentKeys, body: Mapping[str, Any], request: web.Request) -> dict[str, Any]:
    """The key is valid only for the machine that asks for it."""
    match body:
        case {"role": "agent" | "evaluator" as role, "name": str(name)} if 0 < len(name) <= _MAX_NAME_CHARS:
            peer = find_peer(request)
            places = Places(tuple((name, Path(path)) for name, path in _texts_in(body.get("places"))))
            peers = None if peer is None else frozenset({peer})
            access = await keys.issue(role, name, places=places, peers=peers)
            return {"key": access.key}
    raise _BadRequestError("role must be agent or evaluator, and name a text")


def _texts_in(value: object) -> list[tuple[str, str]]:
    """The entries of an object that are texts."""
    return [(key, text) for key, text in as_mapping(value).items() if isinstance(text, str)]


async def _end(keys: LentKeys, body: Mapping[str, Any], _: web.Request) -> dict[str, Any]:
    match body:
        case {"key": str(key)}:
            ended = await keys.end(key)
            return {"report": ended.report.model_dump(mode="json"), "total_exceeded": ended.total_exceeded}
    raise _BadRequestError("key must be a text")


async def _close(keys: LentKeys, _: Mapping[str, Any], __: web.Request) -> dict[str, Any]:
    return {"warnings": await keys.close()}


_Action = Callable[["LentKeys", Mapping[str, Any], web.Request], Awaitable[dict[str, Any]]]
_ACTIONS: Mapping[str, _Action] = {"issue": _issue, "end": _end, "close": _close}


def _answer(status: int, body: dict[str, Any]) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), content_type="application/json")
