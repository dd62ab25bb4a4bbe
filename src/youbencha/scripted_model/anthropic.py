"""Anthropic's Messages API, which Claude Code uses."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from youbencha.gateway.wires import Action
from youbencha.scripted_model.format import ScriptedAnswer
from youbencha.scripted_model.wire import (
    ClaimedTokens,
    HttpRequest,
    Message,
    Required,
    ScriptedWire,
    ScriptRequest,
    WireEvent,
    json_text,
    new_id,
    pieces,
    problem_with,
    read_messages,
    read_texts,
    script_request,
    texts_in,
)

_COUNTED: tuple[Required, ...] = (("model", (str,), "text"), ("messages", (list,), "a list"))

_ANSWERED: tuple[Required, ...] = (_COUNTED[0], ("max_tokens", (int,), "a whole number"), _COUNTED[1])
"""A request to count tokens has no limit on the answer."""


class ScriptedAnthropic(ScriptedWire):
    name = "anthropic-messages"
    request_id_header = "request-id"
    bad_key = "invalid x-api-key"

    def problem_with(self, request: HttpRequest, action: Action) -> str | None:
        if wrong := problem_with(request.body, _ANSWERED if action is Action.GENERATE else _COUNTED):
            return wrong
        return None if request.body["messages"] else "messages: at least one message is required"

    def read(self, request: HttpRequest) -> ScriptRequest:
        body = request.body
        messages = read_messages(body["messages"])
        first = next((message for message in messages if message.role == "user"), None)
        return script_request(
            session=read_session(request),
            model=body["model"],
            stream=body.get("stream") is True,
            has_tools=bool(body.get("tools")),
            system="\n".join(read_texts(body.get("system"))),
            prompt="\n".join(first.texts if first else ()),
            messages=messages,
        )

    def message(self, answer: ScriptedAnswer, model: str, tokens: ClaimedTokens, request: HttpRequest) -> Message:
        return message_json(answer, model, tokens)

    def events(self, message: Message, request: HttpRequest) -> list[WireEvent]:
        return list(message_events(message))

    def is_delta(self, event: WireEvent) -> bool:
        return bool(event["type"] == "content_block_delta")

    def error_body(self, status: int, message: str | None, kind: str | None, request_id: str | None) -> Message:
        default = "api_error" if status >= 500 else "invalid_request_error"
        kind = kind or TYPE_OF_STATUS.get(status, default)
        text = message or MESSAGE_OF_TYPE.get(kind, "An error from the script.")
        body: Message = {"type": "error", "error": {"type": kind, "message": text}}
        return body | ({"request_id": request_id} if request_id else {})

    def model(self, name: str) -> Message:
        return {"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"}

    def models(self, names: Sequence[str]) -> Message:
        listed = [self.model(name) for name in names]
        return {"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]}

    def counted(self, tokens: int) -> Message:
        return {"input_tokens": tokens}


def read_session(request: HttpRequest) -> str:
    """Return the client's session id. Claude Code sends a header from 2.1.86 on; before, it was in the user id."""
    metadata: Any = request.body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    return request.headers.get("x-claude-code-session-id") or (user if isinstance(user, str) else "") or request.key


TYPE_OF_STATUS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}

MESSAGE_OF_TYPE: Mapping[str, str] = {
    "authentication_error": "invalid x-api-key",
    "billing_error": "There is a problem with the billing or payment information.",
    "permission_error": "The API key may not use this resource.",
    "not_found_error": "The requested resource was not found.",
    "request_too_large": "The request is larger than allowed.",
    "rate_limit_error": "This request would exceed the rate limit.",
    "api_error": "Internal server error",
    "timeout_error": "The request timed out.",
    "overloaded_error": "Overloaded",
}


def message_json(answer: ScriptedAnswer, model: str, tokens: ClaimedTokens) -> Message:
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


def blocks(answer: ScriptedAnswer) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if answer.thinking is not None:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": secrets.token_urlsafe(48)})
    content += [{"type": "text", "text": text} for text in texts_in(answer)]
    for tool in answer.tools:
        call_id = tool.id or new_id("toolu")
        content.append({"type": "tool_use", "id": call_id, "name": tool.name, "input": tool.input})
    return content


def usage_json(tokens: ClaimedTokens) -> dict[str, Any]:
    """This API does not report thinking tokens."""
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_creation,
        "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_creation, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }


def message_events(message: Message) -> Iterator[WireEvent]:
    """Yield the events of a stream with the content of `message`.

    As in the real API, message_start counts one token of output and message_delta all of them.
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
        for piece in pieces(json_text(block["input"])):
            yield {"type": "input_json_delta", "partial_json": piece}
