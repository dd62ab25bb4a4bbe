"""The Gemini API, which Gemini CLI uses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from youbencha.gateway.wires import Action
from youbencha.scripted_model.format import ScriptedAnswer, StopReason
from youbencha.scripted_model.wire import (
    MODEL_WITHOUT_NAME,
    ClaimedTokens,
    HttpRequest,
    Message,
    Required,
    ScriptedWire,
    ScriptRequest,
    WireEvent,
    first_prompt,
    new_id,
    pieces,
    problem_with,
    read_messages,
    read_texts,
    script_request,
    texts_in,
)

_REQUIRED: tuple[Required, ...] = (("contents", (list,), "a list"),)
_CALLED = re.compile(r"/models/(?P<model>[^/:]+):(?P<method>[A-Za-z]+)/?$")

_USER_HEADER = "x-gemini-api-privileged-user-id"
"""Gemini CLI sends no session id, only the id of its installation."""

_FINISH: Mapping[StopReason, str] = {
    "max_tokens": "MAX_TOKENS",
    "model_context_window_exceeded": "MAX_TOKENS",
    "refusal": "SAFETY",
}
"""Anything else is STOP, including a tool call."""

_STATUS: Mapping[int, str] = {
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}

_MESSAGE: Mapping[str, str] = {
    "INVALID_ARGUMENT": "Request contains an invalid argument.",
    "UNAUTHENTICATED": "API key not valid. Please pass a valid API key.",
    "PERMISSION_DENIED": "The caller does not have permission.",
    "NOT_FOUND": "Requested entity was not found.",
    "RESOURCE_EXHAUSTED": "You exceeded your current quota.",
    "INTERNAL": "An internal error has occurred.",
    "UNAVAILABLE": "The model is overloaded. Please try again later.",
    "DEADLINE_EXCEEDED": "The request timed out.",
}


class ScriptedGemini(ScriptedWire):
    name = "gemini"
    bad_key = _MESSAGE["UNAUTHENTICATED"]

    def problem_with(self, request: HttpRequest, action: Action) -> str | None:
        if _method(request) == "streamGenerateContent" and request.query.get("alt") != "sse":
            return "alt: only sse is served here"
        if action is Action.COUNT and isinstance(request.body, Mapping) and "generateContentRequest" in request.body:
            return problem_with(request.body["generateContentRequest"], _REQUIRED)
        if wrong := problem_with(request.body, _REQUIRED):
            return wrong
        return None if request.body["contents"] else "contents is not specified"

    def read(self, request: HttpRequest) -> ScriptRequest:
        body = request.body
        messages = read_messages(body["contents"], content="parts", default_role="user")
        system = body.get("systemInstruction") or body.get("system_instruction")
        match = _CALLED.search(request.path)
        return script_request(
            session=request.headers.get(_USER_HEADER) or request.key,
            model=match["model"] if match else MODEL_WITHOUT_NAME,
            stream=_method(request) == "streamGenerateContent",
            has_tools=bool(body.get("tools")),
            system="\n".join(read_texts(system.get("parts") if isinstance(system, Mapping) else system)),
            prompt=first_prompt(messages),
            messages=messages,
        )

    def message(self, answer: ScriptedAnswer, model: str, tokens: ClaimedTokens, request: HttpRequest) -> Message:
        content = {"role": "model", "parts": _parts(answer)}
        finish = _FINISH.get(answer.stop_reason, "STOP") if answer.stop_reason else "STOP"
        return {
            "candidates": [{"content": content, "finishReason": finish, "index": 0}],
            "usageMetadata": _usage(tokens),
            "modelVersion": model,
            "responseId": new_id("resp"),
        }

    def events(self, message: Message, request: HttpRequest) -> list[WireEvent]:
        """As in the real API, each chunk counts the prompt, and the last one all tokens."""
        (candidate,) = message["candidates"]
        prompt = message["usageMetadata"]["promptTokenCount"]
        early = {"promptTokenCount": prompt, "totalTokenCount": prompt}
        events = [
            {**message, "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
            for whole in candidate["content"]["parts"]
            for part in _pieces(whole)
        ]
        *begun, last = events
        ended = {**last["candidates"][0], "finishReason": candidate["finishReason"]}
        return [{**event, "usageMetadata": early} for event in begun] + [{**last, "candidates": [ended]}]

    def is_delta(self, event: WireEvent) -> bool:
        return True

    def error_body(self, status: int, message: str | None, kind: str | None, request_id: str | None) -> Message:
        usual = _STATUS.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
        return {"error": {"code": status, "message": message or _MESSAGE[usual], "status": kind or usual}}

    def model(self, name: str) -> Message:
        methods = ["generateContent", "countTokens"]
        return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}

    def models(self, names: Sequence[str]) -> Message:
        return {"models": [self.model(name) for name in names]}

    def counted(self, tokens: int) -> Message:
        return {"totalTokens": tokens}


def _method(request: HttpRequest) -> str:
    match = _CALLED.search(request.path)
    return match["method"] if match else ""


def _parts(answer: ScriptedAnswer) -> list[dict[str, Any]]:
    """A call has an id only if the script sets one: this API does not need it."""
    thought = [{"text": answer.thinking, "thought": True}] if answer.thinking is not None else []
    calls = [
        {"functionCall": {**({"id": tool.id} if tool.id else {}), "name": tool.name, "args": tool.input}}
        for tool in answer.tools
    ]
    return [*thought, *({"text": text} for text in texts_in(answer)), *calls] or [{"text": ""}]


def _pieces(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Split a text into pieces; a tool call is always whole."""
    texts = pieces(part["text"]) if "text" in part else []
    return [{**part, "text": text} for text in texts] or [dict(part)]


def _usage(tokens: ClaimedTokens) -> dict[str, Any]:
    """Return the usage as this API reports it: the prompt includes cached tokens, the answer excludes thinking."""
    usage = {
        "promptTokenCount": tokens.all_input,
        "candidatesTokenCount": tokens.output - tokens.thought,
        "totalTokenCount": tokens.all_input + tokens.output,
    }
    cached = {"cachedContentTokenCount": tokens.cache_read} if tokens.cache_read else {}
    thought = {"thoughtsTokenCount": tokens.thought} if tokens.thought else {}
    return usage | cached | thought
