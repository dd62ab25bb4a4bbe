"""OpenAI's two APIs: chat completions, which most agents use, and responses, which Codex uses."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from youbencha.gateway.wires import Action
from youbencha.json_lines import as_records
from youbencha.scripted_model.format import ScriptedAnswer, StopReason
from youbencha.scripted_model.wire import (
    ClaimedTokens,
    HttpRequest,
    Message,
    Required,
    ScriptedMessage,
    ScriptedWire,
    ScriptRequest,
    WireEvent,
    first_prompt,
    json_text,
    new_id,
    pieces,
    problem_with,
    read_messages,
    script_request,
    system_text,
    text_in,
    texts_in,
)

_SESSION_HEADERS = ("session-id", "session_id")
"""Codex uses a hyphen, and used an underscore before."""


class _Kind(NamedTuple):
    type: str
    code: str | None
    message: str


_OF_STATUS: Mapping[int, _Kind] = {
    400: _Kind("invalid_request_error", None, "The request is not valid."),
    401: _Kind("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    402: _Kind("insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
    403: _Kind("invalid_request_error", "permission_denied", "The API key may not use this resource."),
    404: _Kind("invalid_request_error", "model_not_found", "The requested resource was not found."),
    413: _Kind("invalid_request_error", "request_too_large", "The request is larger than allowed."),
    429: _Kind("requests", "rate_limit_exceeded", "Rate limit reached."),
    500: _Kind("server_error", None, "The server had an error while processing your request."),
    503: _Kind("server_error", "server_is_overloaded", "The engine is currently overloaded."),
    529: _Kind("server_error", "server_is_overloaded", "The engine is currently overloaded."),
}
"""529 is not a status of this API, which uses 503 for the same."""


class ScriptedOpenAI(ScriptedWire):
    request_id_header = "x-request-id"
    bad_key = "Incorrect API key provided."

    def error_body(self, status: int, message: str | None, kind: str | None, request_id: str | None) -> Message:
        usual = _OF_STATUS.get(status) or _OF_STATUS[500 if status >= 500 else 400]
        error = {"message": message or usual.message, "type": kind or usual.type, "param": None, "code": usual.code}
        return {"error": error}

    def model(self, name: str) -> Message:
        return {"id": name, "object": "model", "created": 0, "owned_by": "script"}


def read_session(request: HttpRequest) -> str:
    """Return the client's session id, else its user, else its key."""
    in_headers = (request.headers.get(name, "") for name in _SESSION_HEADERS)
    in_body = (text_in(request.body, name) for name in ("prompt_cache_key", "user"))
    return next((name for name in (*in_headers, *in_body) if name), request.key)


_CHAT_REQUIRED: tuple[Required, ...] = (("model", (str,), "text"), ("messages", (list,), "a list"))

_FINISH: Mapping[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class ScriptedChat(ScriptedOpenAI):
    name = "openai-chat"
    closing = b"data: [DONE]\n\n"

    def problem_with(self, request: HttpRequest, action: Action) -> str | None:
        if wrong := problem_with(request.body, _CHAT_REQUIRED):
            return wrong
        return None if request.body["messages"] else "messages: at least one message is required"

    def read(self, request: HttpRequest) -> ScriptRequest:
        body = request.body
        messages = read_messages(body["messages"])
        return script_request(
            session=read_session(request),
            model=body["model"],
            stream=body.get("stream") is True,
            has_tools=bool(body.get("tools")),
            system=system_text(messages),
            prompt=first_prompt(messages),
            messages=messages,
        )

    def message(self, answer: ScriptedAnswer, model: str, tokens: ClaimedTokens, request: HttpRequest) -> Message:
        stop = answer.stop_reason or ("tool_use" if answer.tools else "end_turn")
        choice = {"index": 0, "message": _message(answer), "logprobs": None, "finish_reason": _FINISH[stop]}
        return {
            "id": new_id("chatcmpl"),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [choice],
            "usage": _chat_usage(tokens),
        }

    def events(self, message: Message, request: HttpRequest) -> list[WireEvent]:
        options = request.body.get("stream_options")
        with_usage = isinstance(options, Mapping) and options.get("include_usage") is True
        chunk = {**message, "object": "chat.completion.chunk", "usage": None}
        if not with_usage:
            del chunk["usage"]
        (choice,) = message["choices"]
        events = [{**chunk, "choices": [_choice(delta)]} for delta in _deltas(choice["message"])]
        events.append({**chunk, "choices": [_choice({}, choice["finish_reason"])]})
        return [*events, {**chunk, "choices": [], "usage": message["usage"]}] if with_usage else events

    def is_delta(self, event: WireEvent) -> bool:
        deltas = (choice["delta"] for choice in event["choices"])
        return any(delta.get("content") or delta.get("tool_calls") or "reasoning_content" in delta for delta in deltas)


def _message(answer: ScriptedAnswer) -> dict[str, Any]:
    """Thinking has DeepSeek's name, which others have adopted, because the API itself has none."""
    texts = texts_in(answer)
    message: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) if texts else None, "refusal": None}
    if answer.thinking is not None:
        message["reasoning_content"] = answer.thinking
    if answer.tools:
        message["tool_calls"] = [
            {
                "id": tool.id or new_id("call"),
                "type": "function",
                "function": {"name": tool.name, "arguments": json_text(tool.input)},
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


def _chat_usage(tokens: ClaimedTokens) -> dict[str, Any]:
    """Return the usage as this API reports it: the prompt includes cached tokens."""
    return {
        "prompt_tokens": tokens.all_input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.all_input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_creation},
        "completion_tokens_details": {"reasoning_tokens": tokens.thought},
    }


_RESPONSES_REQUIRED: tuple[Required, ...] = (("model", (str,), "text"), ("input", (str, list), "text or a list"))

_INCOMPLETE: Mapping[StopReason, str] = {
    "max_tokens": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "refusal": "content_filter",
}
"""Why a response is incomplete, by stop reason; with any other, it is complete."""


class ScriptedResponses(ScriptedOpenAI):
    name = "openai-responses"

    def problem_with(self, request: HttpRequest, action: Action) -> str | None:
        if wrong := problem_with(request.body, _RESPONSES_REQUIRED):
            return wrong
        return None if request.body["input"] else "input: at least one item is required"

    def read(self, request: HttpRequest) -> ScriptRequest:
        body = request.body
        messages = _messages(body["input"])
        system = (text_in(body, "instructions"), system_text(messages))
        return script_request(
            session=read_session(request),
            model=body["model"],
            stream=body.get("stream") is True,
            has_tools=bool(offered_tools(body)),
            system="\n".join(text for text in system if text),
            prompt=first_prompt(messages),
            messages=messages,
        )

    def message(self, answer: ScriptedAnswer, model: str, tokens: ClaimedTokens, request: HttpRequest) -> Message:
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
            "usage": _responses_usage(tokens),
        }

    def events(self, message: Message, request: HttpRequest) -> list[WireEvent]:
        return [{**event, "sequence_number": number} for number, event in enumerate(response_events(message))]

    def is_delta(self, event: WireEvent) -> bool:
        return str(event["type"]).endswith(".delta")

    def error_event(self, body: Message, begun: list[WireEvent]) -> WireEvent:
        error = {"code": body["error"]["code"] or body["error"]["type"], "message": body["error"]["message"]}
        failed = {**begun[0]["response"], "status": "failed", "error": error}
        return {"type": "response.failed", "response": failed, "sequence_number": len(begun)}


def _messages(given: Any) -> list[ScriptedMessage]:
    """Read the input. Items other than messages (tool calls, reasoning) are the model's."""
    if isinstance(given, str):
        return [ScriptedMessage("user", (given,))]
    return read_messages(given, default_role="assistant")


def _items(answer: ScriptedAnswer, offered: Mapping[str, Offered]) -> list[dict[str, Any]]:
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
            given = text_in(tool.input, "input") or json_text(tool.input)
            items.append(_item("ctc", type="custom_tool_call", **call, input=given))
        else:
            items.append(_item("fc", type="function_call", **call, arguments=json_text(tool.input)))
    return items


def _item(prefix: str, **fields: Any) -> dict[str, Any]:
    return {"id": new_id(prefix), "status": "completed", **fields}


def _responses_usage(tokens: ClaimedTokens) -> dict[str, Any]:
    """Return the usage as this API reports it: the input includes cached tokens."""
    return {
        "input_tokens": tokens.all_input,
        "input_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_creation},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.thought},
        "total_tokens": tokens.all_input + tokens.output,
    }


def response_events(response: Message) -> Iterator[WireEvent]:
    begun = {**response, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": _opening(item)}
        for event in _PARTS[item["type"]](item):
            yield {**event, "item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _opening(item: Mapping[str, Any]) -> dict[str, Any]:
    empty: Mapping[str, Mapping[str, Any]] = {
        "message": {"content": [], "status": "in_progress"},
        "function_call": {"arguments": "", "status": "in_progress"},
        "custom_tool_call": {"input": "", "status": "in_progress"},
        "reasoning": {"summary": []},
    }
    return {**item, **empty[item["type"]]}


def _message_parts(item: Mapping[str, Any]) -> Iterator[WireEvent]:
    for index, part in enumerate(item["content"]):
        at = {"content_index": index}
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
        yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}


def _summary_parts(item: Mapping[str, Any]) -> Iterator[WireEvent]:
    for index, part in enumerate(item["summary"]):
        at = {"summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}


def _call_parts(item: Mapping[str, Any]) -> Iterator[WireEvent]:
    for piece in pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    done = {"name": item["name"], "arguments": item["arguments"]}
    yield {"type": "response.function_call_arguments.done", **done}


def _free_form_parts(item: Mapping[str, Any]) -> Iterator[WireEvent]:
    for piece in pieces(item["input"]):
        yield {"type": "response.custom_tool_call_input.delta", "delta": piece}
    yield {"type": "response.custom_tool_call_input.done", "input": item["input"]}


_PARTS = {
    "message": _message_parts,
    "function_call": _call_parts,
    "custom_tool_call": _free_form_parts,
    "reasoning": _summary_parts,
}


class Offered(NamedTuple):
    free_form: bool = False
    """It takes a text instead of arguments, such as Codex's apply_patch."""
    namespace: str | None = None


def offered_tools(body: Mapping[str, Any]) -> dict[str, Offered]:
    """Return the tools by name. For its newest models, Codex 0.166 puts them into the conversation."""
    added = [item for item in as_records(body.get("input")) if item.get("type") == "additional_tools"]
    return {name: tool for holder in (body, *added) for name, tool in _named(holder, None)}


def _named(holder: Mapping[str, Any], namespace: str | None) -> Iterator[tuple[str, Offered]]:
    for tool in as_records(holder.get("tools")):
        name, kind = text_in(tool, "name"), tool.get("type")
        if kind == "namespace":
            yield from _named(tool, name)
        else:  # tools of the API itself (a web search) have only a type
            yield name or str(kind), Offered(kind == "custom", namespace)
