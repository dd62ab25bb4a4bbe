"""OpenAI's responses: what Codex speaks. The stream is in `openai_response_events`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
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
    text_in,
    texts_of,
)
from youbencha.gateway.script.format import Answer, StopReason
from youbencha.gateway.script.tokens import Tokens
from youbencha.gateway.script.wires.openai import OpenAI, session_of
from youbencha.gateway.script.wires.openai_response_events import response_events
from youbencha.gateway.script.wires.openai_tools import Offered, offered_tools
from youbencha.gateway.script.wires.wire import Event, Message, new_id, texts_in, written

_REQUIRED: tuple[Required, ...] = (("model", (str,), "text"), ("input", (str, list), "text or a list"))

_INCOMPLETE: Mapping[StopReason, str] = {
    "max_tokens": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "refusal": "content_filter",
}
"""Why a response is not complete; after anything else it is."""


class OpenAIResponses(OpenAI):
    name = "openai-responses"

    def complaint(self, request: Incoming, action: Action) -> str | None:
        if wrong := complaint(request.body, _REQUIRED):
            return wrong
        return None if request.body["input"] else "input: at least one item is required"

    def asked(self, request: Incoming) -> Asked:
        body = request.body
        talk = _talk(body["input"])
        system = (text_in(body, "instructions"), system_of(talk))
        return asked(
            session=session_of(request),
            model=body["model"],
            stream=body.get("stream") is True,
            has_tools=bool(offered_tools(body)),
            system="\n".join(text for text in system if text),
            prompt=opening(talk),
            talk=talk,
        )

    def message(self, answer: Answer, model: str, tokens: Tokens, request: Incoming) -> Message:
        reason = _INCOMPLETE.get(answer.stop_reason) if answer.stop_reason else None
        return {
            "id": new_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "incomplete" if reason else "completed",
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": model,
            "output": _items(answer, offered_tools(request.body)),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": _usage(tokens),
        }

    def events(self, message: Message, request: Incoming) -> list[Event]:
        return [{**event, "sequence_number": number} for number, event in enumerate(response_events(message))]

    def is_delta(self, event: Event) -> bool:
        return str(event["type"]).endswith(".delta")

    def error_event(self, body: Message, begun: list[Event]) -> Event:
        error = {"code": body["error"]["code"] or body["error"]["type"], "message": body["error"]["message"]}
        failed = {**begun[0]["response"], "status": "failed", "error": error}
        return {"type": "response.failed", "response": failed, "sequence_number": len(begun)}


def _talk(given: Any) -> list[Said]:
    """Items that are no messages (calls of tools, thoughts) are the model's: what follows them is no opening."""
    if isinstance(given, str):
        return [Said("user", (given,))]
    return [Said(str(item.get("role", "assistant")), tuple(texts_of(item.get("content")))) for item in mappings(given)]


def _items(answer: Answer, offered: Mapping[str, Offered]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.thinking is not None:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        hidden = secrets.token_urlsafe(48)
        items.append({"id": new_id("rs"), "type": "reasoning", "summary": summary, "encrypted_content": hidden})
    for text in texts_in(answer):
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        items.append(_item("msg", type="message", role="assistant", content=[part]))
    for tool in answer.tools:
        kind = offered.get(tool.name, Offered())
        call = {"call_id": tool.id or new_id("call"), "name": tool.name}
        call |= {"namespace": kind.namespace} if kind.namespace else {}
        if kind.free_form:
            given = text_in(tool.input, "input") or written(tool.input)
            items.append(_item("ctc", type="custom_tool_call", **call, input=given))
        else:
            items.append(_item("fc", type="function_call", **call, arguments=written(tool.input)))
    return items


def _item(prefix: str, **fields: Any) -> dict[str, Any]:
    return {"id": new_id(prefix), "status": "completed", **fields}


def _usage(tokens: Tokens) -> dict[str, Any]:
    """Here, the cached tokens are a part of the input's."""
    return {
        "input_tokens": tokens.all_input,
        "input_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_creation},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.thought},
        "total_tokens": tokens.all_input + tokens.output,
    }
