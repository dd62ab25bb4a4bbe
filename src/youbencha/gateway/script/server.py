"""The scripted model as an HTTP server: reads requests, lets the pure parts decide, plays the reply."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from aiohttp import web

from youbencha.gateway.script.asked import Asked, asked, complaint, key_of
from youbencha.gateway.script.choosing import Chosen, Progress
from youbencha.gateway.script.format import Answer, Script
from youbencha.gateway.script.reply import Ending, Reply, json_reply, refusal, reply_to
from youbencha.gateway.script.variables import UnknownVariableError, substitute

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""A prompt of a million characters is tried in earnest, and agents send it again with every turn."""

_MODEL_WITHOUT_NAME = "scripted-model"

Kind = Literal["turn", "side", "other"]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it came, and what was decided about it."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    """Parsed JSON; None if there was none, or if it was none."""
    status: int
    """Of the answer, as it begins: a stream that fails later began with 200."""
    kind: Kind = "other"
    turn: int | None = None
    conversation: int | None = None
    at: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class _Decision:
    reply: Reply
    kind: Kind = "other"
    chosen: Chosen | None = None


class ScriptedModel:
    """Serves a script for as long as the `async with` block lasts."""

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
        self._variables = dict(variables or {})
        self._required_key = substitute(script.require_key, self._variables)
        self._host, self._port = host, port
        self._on_request = on_request
        self._progress = Progress(script)
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
        # A handler that hangs ends with its client, and all end when the block does.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=5.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        port = self._runner.addresses[0][1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._url = None
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = _parsed(raw)
        headers = {name.lower(): value for name, value in request.headers.items()}
        decision = self._decide(request.method, request.path, headers, body)
        chosen = decision.chosen
        recorded = RecordedRequest(
            method=request.method,
            path=request.path_qs,
            headers=headers,
            body=body,
            status=decision.reply.status,
            kind=decision.kind,
            turn=chosen.turn if chosen else None,
            conversation=chosen.conversation if chosen else None,
        )
        self.requests.append(recorded)
        if self._on_request is not None:
            self._on_request(recorded)
        return await self._play(request, decision.reply)

    def _decide(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> _Decision:
        """Pure but for the script's progress. Prefixes of the path do not matter: base URLs have them."""
        if method == "HEAD":  # Claude Code 2.1.197 looks this way whether its base URL is alive
            return _Decision(Reply())
        if method == "GET" and path.endswith("/healthz"):
            return _Decision(json_reply({"status": "ok"}))
        endpoint = _endpoint(method, path)
        if endpoint is None:
            return _Decision(refusal(404, f"there is no {method} {path} here"))
        if self._required_key is not None and key_of(headers) != self._required_key:
            return _Decision(refusal(401, "invalid x-api-key"))
        if endpoint == "models":
            return _Decision(json_reply(_models(self.script.model)))
        if wrong := complaint(body if endpoint == "messages" else _with_max_tokens(body)):
            return _Decision(refusal(400, wrong))
        if endpoint == "count_tokens":
            return _Decision(json_reply({"input_tokens": len(json.dumps(body)) // 4}))
        return self._answer(asked(headers, body))

    def _answer(self, request: Asked) -> _Decision:
        chosen = self._progress.choose(request)
        kind: Kind = "side" if chosen.answer is self.script.side else "turn"
        if chosen.answer is None:
            return _Decision(refusal(400, _exhausted(chosen)), kind, chosen)
        known = ({"cwd": request.cwd} if request.cwd else {}) | self._variables
        try:
            answer = _filled(chosen.answer, known)
            model = substitute(self.script.model, known) or request.model
        except UnknownVariableError as unknown:
            return _Decision(refusal(400, _unknown_variable(unknown.name, known)), kind, chosen)
        return _Decision(reply_to(request, answer, model=model, usage=self.script.usage), kind, chosen)

    async def _play(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        await self._wait(reply.delay)
        await response.prepare(request)
        # A client that leaves early is its own business: nothing is left to do for it.
        with contextlib.suppress(ConnectionResetError):
            for number, piece in enumerate(reply.pieces):
                if number:
                    await self._wait(reply.pause)
                await response.write(piece)
            match reply.ending:
                case Ending.HANG:
                    await self._closing.wait()
                    _close(request)
                case Ending.DROP:
                    _close(request)
                case Ending.COMPLETE:
                    await response.write_eof()
        return response

    async def _wait(self, seconds: float) -> None:
        """Sleeps, but no longer than the server lives. Without a pause, others still get their turn."""
        if not seconds:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)


def _close(request: web.Request) -> None:
    """Without the end mark of the body, so that the client sees that it was cut off."""
    if request.transport is not None:
        request.transport.close()


def _endpoint(method: str, path: str) -> str | None:
    found = re.search(r"/v1/(messages/count_tokens|messages|models)/?$", path)
    wanted = {"messages": "POST", "count_tokens": "POST", "models": "GET"}
    name = found[1].rpartition("/")[2] if found else ""
    return name if wanted.get(name) == method else None


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None


def _with_max_tokens(body: Any) -> Any:
    """To count tokens, a client need not say how many it wants back."""
    return {"max_tokens": 1, **body} if isinstance(body, dict) else body


def _models(name: str | None) -> dict[str, Any]:
    shown = name or _MODEL_WITHOUT_NAME
    model = {"type": "model", "id": shown, "display_name": shown, "created_at": "2025-01-01T00:00:00Z"}
    return {"data": [model], "has_more": False, "first_id": shown, "last_id": shown}


def _filled(answer: Answer, variables: Mapping[str, str]) -> Answer:
    return type(answer).model_validate(substitute(answer.model_dump(exclude_unset=True), variables))


def _exhausted(chosen: Chosen) -> str:
    where = "" if chosen.conversation is None else f" (conversation {chosen.conversation + 1})"
    return f"script exhausted after {chosen.given} turn{'' if chosen.given == 1 else 's'}{where}"


def _unknown_variable(name: str, known: Mapping[str, str]) -> str:
    names = ", ".join(sorted(known)) or "none"
    hint = "; the request does not say where it works" if name == "cwd" else ""
    return f"the script names an unknown variable '{name}'{hint} (known: {names})"
