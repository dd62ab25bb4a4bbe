"""Small clients of the other APIs: their requests, and how they reassemble a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from talking import Heard, send
from youbencha.scripted_model import ScriptedModel, WireName

SYSTEM = "You are careful."
PROMPT = "do it"
GEMINI_PATH = "/v1beta/models/gemini-test"


@dataclass(frozen=True)
class Client:
    wire: WireName
    body: dict[str, Any]
    """An agent's request; without `tools` it is one on the side."""
    key: dict[str, str]
    path: str
    stream_path: str
    together: Callable[[list[dict[str, Any]]], dict[str, Any]]
    """What a client makes of a stream: the answer that it would have had in one piece."""
    words: Callable[[dict[str, Any]], str]
    error: Callable[[dict[str, Any]], str]
    """The message of an error's body."""

    async def ask(
        self, model: ScriptedModel, *, stream: bool = True, headers: dict[str, str] | None = None, **changes: Any
    ) -> Heard:
        body = {key: value for key, value in ({**self.body, **changes}).items() if value is not None}
        if self.wire != "gemini":
            body["stream"] = stream
        path = self.stream_path if stream else self.path
        return await send(model, "POST", path, json=body, headers={**self.key, **(headers or {})})

    def heard(self, answer: Heard) -> dict[str, Any]:
        streamed = answer.headers["content-type"].startswith("text/event")
        return self.together(events(answer.raw)) if streamed else answer.json

    def text(self, answer: Heard) -> str:
        return self.words(self.heard(answer))


def events(raw: bytes) -> list[dict[str, Any]]:
    """Of a stream of either style: those that have a type are named after it."""
    found = []
    for part in raw.decode().split("\n\n"):
        *name, data = part.split("\n") if part else ("data: [DONE]",)
        if data == "data: [DONE]":
            continue
        event = json.loads(data.removeprefix("data: "))
        assert name == ([f"event: {event['type']}"] if "type" in event else [])
        found.append(event)
    return found


def _chat(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    finish, usage = None, None
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk"
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            finish = choice["finish_reason"] or finish
            _add_delta(message, choice["delta"])
    message["content"] = message["content"] or None
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {**chunks[0], "object": "chat.completion", "choices": [choice], "usage": usage}


def _add_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if key == "tool_calls":
            for call in value:
                calls = message.setdefault("tool_calls", [])
                if call["index"] == len(calls):
                    calls.append({**call, "function": dict(call["function"])})
                    del calls[-1]["index"]
                else:
                    calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
        elif key in ("content", "reasoning_content"):
            message[key] = message.get(key, "") + value
        else:
            message[key] = value


def _response(given: list[dict[str, Any]]) -> dict[str, Any]:
    """The deltas must give what the events that end an item, and the last of all, say at once."""
    assert [event["sequence_number"] for event in given] == list(range(len(given)))
    heard: dict[str, str] = {}
    items: list[dict[str, Any]] = []
    for event in given:
        if event["type"].endswith(".delta"):
            heard[event["item_id"]] = heard.get(event["item_id"], "") + event["delta"]
        elif event["type"] == "response.output_item.done":
            assert event["output_index"] == len(items)
            items.append(event["item"])
    for item in items:
        assert heard.get(item["id"], "") == _item_text(item)
    last: dict[str, Any] = given[-1]["response"]
    assert last["output"] == items
    return last


def _item_text(item: dict[str, Any]) -> str:
    match item["type"]:
        case "message":
            return "".join(part["text"] for part in item["content"])
        case "reasoning":
            return "".join(part["text"] for part in item["summary"])
        case "custom_tool_call":
            return str(item["input"])
    return str(item["arguments"])


def _gemini(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for chunk in chunks:
        for part in chunk["candidates"][0]["content"]["parts"]:
            last = parts[-1] if parts else {}
            if "text" in part and "text" in last and part.get("thought") == last.get("thought"):
                last["text"] += part["text"]
            else:
                parts.append(dict(part))
    ended = {**chunks[-1]["candidates"][0], "content": {"role": "model", "parts": parts}}
    return {**chunks[-1], "candidates": [ended]}


CHAT = Client(
    wire="openai-chat",
    body={
        "model": "gpt-test",
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}],
        "tools": [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}],
        "stream_options": {"include_usage": True},
    },
    key={"authorization": "Bearer k"},
    path="/v1/chat/completions",
    stream_path="/v1/chat/completions",
    together=_chat,
    words=lambda answer: answer["choices"][0]["message"]["content"] or "",
    error=lambda body: body["error"]["message"],
)

RESPONSES = Client(
    wire="openai-responses",
    body={
        "model": "gpt-test",
        "instructions": SYSTEM,
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]}],
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}],
    },
    key={"authorization": "Bearer k"},
    path="/v1/responses",
    stream_path="/v1/responses",
    together=_response,
    words=lambda answer: "|".join(_item_text(item) for item in answer["output"] if item["type"] == "message"),
    error=lambda body: body["error"]["message"],
)

GEMINI = Client(
    wire="gemini",
    body={
        "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
        "systemInstruction": {"parts": [{"text": SYSTEM}]},
        "tools": [{"functionDeclarations": [{"name": "shell"}]}],
    },
    key={"x-goog-api-key": "k"},
    path=f"{GEMINI_PATH}:generateContent",
    stream_path=f"{GEMINI_PATH}:streamGenerateContent?alt=sse",
    together=_gemini,
    words=lambda answer: "".join(
        part["text"] for part in answer["candidates"][0]["content"]["parts"] if "text" in part and "thought" not in part
    ),
    error=lambda body: body["error"]["message"],
)

CLIENTS = (CHAT, RESPONSES, GEMINI)
