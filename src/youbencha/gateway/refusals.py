"""The gateway's own error answers: status, headers and body in the format of each API. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import orjson

from youbencha.gateway.api import WireName

Reason = Literal[
    "key_missing",
    "key_unknown",
    "key_expired",
    "key_foreign",
    "not_allowed",
    "not_found",
    "too_large",
    "unreadable",
    "not_metered",
    "no_upstream",
    "budget_exceeded",
    "call_over_cap",
    "price_unknown",
    "circuit_open",
    "upstream_unreachable",
    "not_recorded",
]


class Refusal(Exception):
    """The gateway refuses a request, instead of sending it to the provider."""

    def __init__(self, reason: Reason, message: str, *, account: str | None = None) -> None:
        """`account` is that of the budget that refuses it."""
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.account = account


STATUS: Mapping[Reason, int] = {
    "key_missing": 401,
    "key_unknown": 401,
    "key_expired": 401,
    "key_foreign": 401,
    "not_allowed": 403,
    "not_found": 404,
    "too_large": 413,
    "unreadable": 400,
    "not_metered": 400,
    "no_upstream": 400,
    # Measured: at 402 the CLIs stop at once (but see below); at 429 they would wait and retry.
    "budget_exceeded": 402,
    "call_over_cap": 402,
    "price_unknown": 400,
    "circuit_open": 503,
    "upstream_unreachable": 502,
    "not_recorded": 400,
}

_SPENT = frozenset({"budget_exceeded", "call_over_cap"})
_SPENT_STATUS: Mapping[WireName, int] = {"openai-responses": 400}
"""Measured: Codex, the only agent with this API, retries five times after 402, not after 400. Aider always retries."""

_ANTHROPIC = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    502: "api_error",
    503: "api_error",
}
_OPENAI_CODE = {401: "invalid_api_key", 402: "insufficient_quota", 404: "not_found", 413: "request_too_large"}
_GEMINI = {401: "UNAUTHENTICATED", 402: "FAILED_PRECONDITION", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}

_TEMPORARY: frozenset[Reason] = frozenset({"upstream_unreachable"})
"""A single lost connection must not end a trial; after more, the circuit opens."""


def headers_of(reason: Reason) -> dict[str, str]:
    """Return the headers. The SDKs of Anthropic and OpenAI check `x-should-retry` before the status."""
    final = {} if reason in _TEMPORARY else {"x-should-retry": "false"}
    return {"Content-Type": "application/json", **final}


def status_of(wire: WireName | None, reason: Reason) -> int:
    usual = STATUS[reason]
    return _SPENT_STATUS.get(wire, usual) if wire and reason in _SPENT else usual


def body_of(wire: WireName | None, reason: Reason, message: str) -> bytes:
    """Return the body. If the path does not identify the API, it has Anthropic's format."""
    return orjson.dumps(_error(wire, status_of(wire, reason), reason, message))


def _error(wire: WireName | None, status: int, reason: Reason, message: str) -> dict[str, Any]:
    text = f"youBencha: {message}"
    match wire:
        case "openai-chat" | "openai-responses":
            known = _OPENAI_CODE.get(STATUS[reason])
            kind = "server_error" if status >= 500 else known or "invalid_request_error"
            return {"error": {"message": text, "type": kind, "param": None, "code": known or reason}}
        case "gemini":
            word = "UNAVAILABLE" if status >= 500 else _GEMINI.get(status, "INVALID_ARGUMENT")
            return {"error": {"code": status, "message": text, "status": word}}
        case _:
            kind = _ANTHROPIC.get(status, "invalid_request_error")
            return {"type": "error", "error": {"type": kind, "message": text}}
