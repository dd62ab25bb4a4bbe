"""OpenAI's chat completions: what most other agents, and most other servers, speak."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from youbencha.gateway.routes import Action
from youbencha.gateway.script.asked import (
    Asked,
    Incoming,
    Required,
    Said,
    asked,
    complaint,
    mappings,
    opening,
    system_of,
    texts_of,
)
from youbencha.gateway.script.format import Answer, StopReason
from youbencha.gateway.script.tokens import Tokens
from youbencha.gateway.script.wires.openai import OpenAI, session_of
from youbencha.gateway.script.wires.wire import Event, Message, new_id, pieces, texts_in, written

_REQUIRED: tuple[Required, ...] = (("model", (str,), "text"), ("messages", (list,), "a list"))

_FINISH: Mapping[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class OpenAIChat(OpenAI):
    name = "openai-chat"
    closing = b"data: [DONE]\n\n"

    def complaint(self, request: Incoming, action: Action) -> str | None:
        if wrong := complaint(request.body, _REQUIRED):
            return wrong
        return None if request.body["messages"] else "messages: at least one message is required"

    def asked(self, request: Incoming) -> Asked:
        body = request.body
        talk = [Said(str(m.get("role")), tuple(texts_of(m.get("content")))) for m in mappings(body["messages"])]
        return asked(
            session=session_of(request),
            model=body["model"],
            stream=body.get("stream") is True,
            has_tools=bool(body.get("tools")),
            system=system_of(talk),
            prompt=opening(talk),
            talk=talk,
        )

    def message(self, answer: Answer, model: str, tokens: Tokens, request: Incoming) -> Message:
        stop = answer.stop_reason or ("tool_use" if answer.tools else "end_turn")
        choice = {"index": 0, "message": _message(answer), "logprobs": None, "finish_reason": _FINISH[stop]}
        return {
            "id": new_id("chatcmpl"),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [choice],
            "usage": _usage(tokens),
        }

    def events(self, message: Message, request: Incoming) -> list[Event]:
        options = request.body.get("stream_options")
        with_usage = isinstance(options, Mapping) and options.get("include_usage") is True
        chunk = {**message, "object": "chat.completion.chunk", "usage": None}
        if not with_usage:
            del chunk["usage"]
        (choice,) = message["choices"]
        events = [{**chunk, "choices": [_choice(delta)]} for delta in _deltas(choice["message"])]
        events.append({**chunk, "choices": [_choice({}, choice["finish_reason"])]})
        return [*events, {**chunk, "choices": [], "usage": message["usage"]}] if with_usage else events

    def is_delta(self, event: Event) -> bool:
        deltas = (choice["delta"] for choice in event["choices"])
        return any(delta.get("content") or delta.get("tool_calls") or "reasoning_content" in delta for delta in deltas)

    def error_event(self, body: Message, begun: list[Event]) -> Event:
        return body


def _message(answer: Answer) -> dict[str, Any]:
    """Thinking goes under the name that DeepSeek began with and that others took over: the API has none."""
    texts = texts_in(answer)
    message: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) if texts else None, "refusal": None}
    if answer.thinking is not None:
        message["reasoning_content"] = answer.thinking
    if answer.tools:
        message["tool_calls"] = [
            {
                "id": tool.id or new_id("call"),
                "type": "function",
                "function": {"name": tool.name, "arguments": written(tool.input)},
            }
            for tool in answer.tools
        ]
    return message


def _deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    for piece in pieces(message.get("reasoning_content", "")):
        yield {"reasoning_content": piece}
    for piece in pieces(message["content"] or ""):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls", [])):
        function = call["function"]
        yield {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _choice(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _usage(tokens: Tokens) -> dict[str, Any]:
    """Here, the cached tokens are a part of the prompt's."""
    return {
        "prompt_tokens": tokens.all_input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.all_input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_creation},
        "completion_tokens_details": {"reasoning_tokens": tokens.thought},
    }
