"""A provider that fails as the request says, and an agent that makes given requests. For tests of who is to blame."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

OWN, OTHER = "claude-opus-4-5", "claude-haiku-4-5"

_START = {
    "type": "message_start",
    "message": {"model": OWN, "usage": {"input_tokens": 9, "output_tokens": 1}},
}
_DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}}
_END = [{"type": "message_delta", "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
_ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
_STREAMS: dict[str, list[Any]] = {
    "ok": [_START, _DELTA, *_END],
    "early": [_START, _DELTA],
    "cut": [_START, _DELTA, "cut"],
    "error in the stream": [_START, _DELTA, _ERROR],
    "hang": ["hang"],
    "hang in the stream": [_START, _DELTA, "hang"],
    "slow": ["pause", _START, _DELTA, *_END],
}
NO_CREDIT = "Your credit balance is too low to access the Anthropic API."


async def _answer(request: web.Request) -> web.StreamResponse:
    """Do what the request's text says: a status, or one of `_STREAMS`."""
    text = (await request.json())["messages"][0]["content"]
    what = text.partition("#")[0]
    if what == "garbage":
        return web.Response(text="<html>", content_type="text/html")
    if what == "no credit":
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": NO_CREDIT}}
        return web.json_response(error, status=400)
    if what.isdigit():
        return web.json_response({"type": "error", "error": {"type": "x", "message": text}}, status=int(what))
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    if _STREAMS[what][0] != "hang":
        await response.prepare(request)
    for event in _STREAMS[what]:
        match event:
            case "hang":
                await asyncio.sleep(3600)
            case "pause":
                await asyncio.sleep(0.5)
            case "cut":
                assert request.transport is not None
                request.transport.abort()
                return response
            case _:
                line = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                await response.write(line.encode())
    await response.write_eof()
    return response


@asynccontextmanager
async def faulty_provider() -> AsyncIterator[str]:
    """Serve, and yield the URL."""
    app = web.Application()
    app.router.add_post("/v1/messages", _answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


_PROGRAM = """
import http.client, json, os, sys, time, urllib.parse
address = urllib.parse.urlsplit(os.environ["PROXY_URL"])
for step in steps:
    if step.get("print"):
        print(step["print"], end="", flush=True)
        continue
    if step.get("sleep"):
        time.sleep(step["sleep"])
        continue
    body = {"model": step["model"], "max_tokens": 50, "stream": True, **step.get("more", {})}
    body["messages"] = [{"role": "user", "content": step["text"]}]
    key = step.get("key") or os.environ["ANTHROPIC_API_KEY"]
    connection = http.client.HTTPConnection(address.hostname, address.port)
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01", "content-type": "application/json"}
    connection.request("POST", "/v1/messages", json.dumps(body), headers)
    if step.get("leaves") == "at once":
        time.sleep(0.3)
        connection.close()
        continue
    try:
        answer = connection.getresponse()
        answer.read(20) if step.get("leaves") else answer.read()
    except (OSError, http.client.HTTPException):
        pass
    connection.close()
if code < 0:
    os.kill(os.getpid(), -code)
raise SystemExit(code)
"""


def asks(text: str, model: str = OWN, **more: Any) -> dict[str, Any]:
    """One request; `text` may have a `#…` that only makes it different from others."""
    return {"text": text, "model": model, **more}


def program_of(steps: Sequence[dict[str, Any]], code: int) -> str:
    """The text of a program that makes these requests, and exits with that code (or is ended by that signal)."""
    return f"steps, code = {list(steps)!r}, {code}\n{_PROGRAM}"


def agent_that(
    steps: Sequence[dict[str, Any]], code: int = 1, *, model: str | None = OWN, python: str = sys.executable
) -> dict[str, Any]:
    """An agent that is this program."""
    command = [python, "-c", program_of(steps, code)]
    agent = {"type": "command", "config": {"command": command, "prompt_by": "none"}}
    return {**agent, "model": model} if model else agent
