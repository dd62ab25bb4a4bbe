"""What the two APIs of OpenAI have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from youbencha.gateway.script.asked import Incoming, text_in
from youbencha.gateway.script.wires.wire import MODEL_WITHOUT_NAME, Message, Wire

_SESSION_HEADERS = ("session-id", "session_id")
"""Codex: with a hyphen today, with an underscore before."""


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
"""529 is no status of this API: what it means is said with 503 here."""


class OpenAI(Wire):
    request_id_header = "x-request-id"
    bad_key = "Incorrect API key provided."

    def error_body(self, status: int, message: str | None, kind: str | None, request_id: str | None) -> Message:
        usual = _OF_STATUS.get(status) or _OF_STATUS[500 if status >= 500 else 400]
        error = {"message": message or usual.message, "type": kind or usual.type, "param": None, "code": usual.code}
        return {"error": error}

    def models(self, name: str | None) -> Message:
        shown = name or MODEL_WITHOUT_NAME
        return {"object": "list", "data": [{"id": shown, "object": "model", "created": 0, "owned_by": "script"}]}


def session_of(request: Incoming) -> str:
    """Who is asking: a conversation that says its name, else a user, else a key."""
    said = (request.headers.get(name, "") for name in _SESSION_HEADERS)
    written = (text_in(request.body, name) for name in ("prompt_cache_key", "user"))
    return next((name for name in (*said, *written) if name), request.key)
