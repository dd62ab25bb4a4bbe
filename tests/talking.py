"""A small client of the Messages API, for the tests of the scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from youbencha.scripted_model import ScriptedModel, parse_script

TOOLS = [{"name": "Bash", "description": "Runs a command.", "input_schema": {"type": "object"}}]


@asynccontextmanager
async def scripted(text: str, **options: Any) -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(parse_script(text), **options) as model:
        yield model


def request(**changes: Any) -> dict[str, Any]:
    """The body of an agent's request; a value of None leaves the key out."""
    body = {
        "model": "claude-test",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "do it"}],
        "tools": TOOLS,
        "stream": True,
    }
    return {key: value for key, value in (body | changes).items() if value is not None}


class Heard:
    """An answer: as bytes, as JSON, or as events put together again to a message."""

    def __init__(self, status: int, headers: dict[str, str], raw: bytes) -> None:
        self.status = status
        self.headers = headers
        self.raw = raw

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def events(self) -> list[dict[str, Any]]:
        return parse_events(self.raw)

    @property
    def message(self) -> dict[str, Any]:
        return together(self.events) if self.headers["content-type"].startswith("text/event") else self.json

    @property
    def text(self) -> str:
        return "|".join(block["text"] for block in self.message["content"] if block["type"] == "text")

    @property
    def error(self) -> tuple[str, str]:
        error = self.json["error"]
        return error["type"], error["message"]


async def ask(model: ScriptedModel, *, headers: dict[str, str] | None = None, **changes: Any) -> Heard:
    return await send(model, "POST", "/v1/messages?beta=true", headers=headers, json=request(**changes))


async def send(model: ScriptedModel, method: str, path: str, **options: Any) -> Heard:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, model.url + path, **options) as response,
    ):
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Heard(response.status, headers, await response.read())


def parse_events(raw: bytes) -> list[dict[str, Any]]:
    events = []
    for part in raw.decode().split("\n\n"):
        if not part:
            continue
        name, data = part.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What a client makes of a stream."""
    message: dict[str, Any] = {}
    partial = ""
    for event in events:
        match event["type"]:
            case "message_start":
                message = json.loads(json.dumps(event["message"]))
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(dict(event["content_block"]))
                partial = ""
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "signature_delta":
                        block["signature"] += delta["signature"]
                    case "input_json_delta":
                        partial += delta["partial_json"]
                        block["input"] = {}
            case "content_block_stop" if message["content"][event["index"]]["type"] == "tool_use":
                message["content"][event["index"]]["input"] = json.loads(partial)
            case "message_delta":
                message.update(event["delta"])
                message["usage"].update(event["usage"])
    return message
