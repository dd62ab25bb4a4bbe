"""An answer as the Messages API would write it: one JSON message, or the events of a stream. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from youbencha.gateway.script.format import Answer
from youbencha.gateway.script.tokens import Tokens
from youbencha.gateway.script.wires.wire import Event, Message, new_id, pieces, texts_in, written


def message_json(answer: Answer, model: str, tokens: Tokens) -> Message:
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks(answer),
        "stop_reason": answer.stop_reason or ("tool_use" if answer.tools else "end_turn"),
        "stop_sequence": None,
        "usage": usage_json(tokens),
    }


def blocks(answer: Answer) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if answer.thinking is not None:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": secrets.token_urlsafe(48)})
    content += [{"type": "text", "text": text} for text in texts_in(answer)]
    for tool in answer.tools:
        call_id = tool.id or new_id("toolu")
        content.append({"type": "tool_use", "id": call_id, "name": tool.name, "input": tool.input})
    return content


def counts(tokens: Tokens) -> dict[str, int]:
    """This API does not say how many tokens went into thinking."""
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_creation,
    }


def usage_json(tokens: Tokens) -> dict[str, Any]:
    created = {"ephemeral_5m_input_tokens": tokens.cache_creation, "ephemeral_1h_input_tokens": 0}
    return {**counts(tokens), "cache_creation": created, "service_tier": "standard"}


def message_events(message: Message) -> Iterator[Event]:
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
        "usage": {name: number for name, number in usage.items() if isinstance(number, int)},
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
        for piece in pieces(written(block["input"])):
            yield {"type": "input_json_delta", "partial_json": piece}
