"""An answer as the Messages API would write it: one JSON message, or the events of a stream. Pure."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from youbencha.gateway.script.format import Answer, Usage

Event = dict[str, Any]

DEFAULT_USAGE: Mapping[str, int] = {
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}

DELTAS = 4
"""A text comes in so many pieces: enough to see that a client puts them together."""


def new_id(prefix: str) -> str:
    return f"{prefix}_01{secrets.token_hex(11)}"


def usage_of(answer: Answer, default: Usage) -> dict[str, int]:
    """Each number from the answer, else from the script, else a small one."""
    said = default.model_dump(exclude_none=True) | answer.usage.model_dump(exclude_none=True)
    return {**DEFAULT_USAGE, **said}


def message_json(answer: Answer, model: str, usage: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks(answer),
        "stop_reason": answer.stop_reason or ("tool_use" if answer.tools else "end_turn"),
        "stop_sequence": None,
        "usage": full_usage(usage),
    }


def blocks(answer: Answer) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if answer.thinking is not None:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": secrets.token_urlsafe(48)})
    texts = [answer.text] if isinstance(answer.text, str) else answer.text or []
    content += [{"type": "text", "text": text} for text in texts]
    for tool in answer.tools:
        call_id = tool.id or new_id("toolu")
        content.append({"type": "tool_use", "id": call_id, "name": tool.name, "input": tool.input})
    return content


def full_usage(usage: Mapping[str, int]) -> dict[str, Any]:
    created = usage["cache_creation_input_tokens"]
    return {
        **usage,
        "cache_creation": {"ephemeral_5m_input_tokens": created, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }


def message_events(message: Mapping[str, Any]) -> Iterator[Event]:
    """The stream that a client puts together to `message` again.

    As from the real API, message_start counts one token of output and message_delta all of them.
    """
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": _opening(block)}
        if index == 0:
            yield {"type": "ping"}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
        "usage": {name: usage[name] for name in DEFAULT_USAGE},
    }
    yield {"type": "message_stop"}


def _opening(block: Mapping[str, Any]) -> dict[str, Any]:
    empty: Mapping[str, Mapping[str, Any]] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **empty[block["type"]]}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        for piece in pieces(block["text"]):
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "thinking":
        for piece in pieces(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        yield {"type": "input_json_delta", "partial_json": ""}
        for piece in pieces(json.dumps(block["input"], ensure_ascii=False)):
            yield {"type": "input_json_delta", "partial_json": piece}


def pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // DELTAS))
    return [text[start : start + size] for start in range(0, len(text), size)]


def sse(event: Event) -> bytes:
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n".encode("utf-8", "replace")
