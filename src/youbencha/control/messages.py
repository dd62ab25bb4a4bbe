"""The formats of control messages in both directions.

Claude Code wraps a control message: `{"type", "request_id", "request": {"subtype", …}}`. The flat form, with the
`subtype` at the top, is that of the protocol's first description; clients that use it get flat answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from youbencha.json_lines import Record, mapping, records, text, texts
from youbencha.process.redact import MASK

INITIALIZE_ID = "youbencha-initialize"
INTERRUPT_ID = "youbencha-interrupt"
Identity = str | int
Outgoing = dict[str, Any]


class ControlRequest(NamedTuple):
    """A request of the agent to the harness."""

    id: Identity | None
    subtype: str
    body: Record
    flat: bool


def request_in(message: Record) -> ControlRequest:
    flat = "request" not in message
    body = message if flat else mapping(message.get("request"))
    return ControlRequest(_identity(message.get("request_id")), text(body.get("subtype")) or "", body, flat)


def answers_initialize(message: Record) -> bool:
    """Whether a `control_response` answers our `initialize`, even with a refusal."""
    if "response" not in message:
        return message.get("subtype") == "initialize"
    return mapping(message.get("response")).get("request_id") == INITIALIZE_ID


def blocks(message: Record) -> list[Record]:
    """The content blocks of an `assistant` or `user` message."""
    return records(mapping(message.get("message")).get("content"))


def _identity(value: object) -> Identity | None:
    return value if isinstance(value, str) or type(value) is int else None


def initialize() -> Outgoing:
    return _request(INITIALIZE_ID, {"subtype": "initialize", "hooks": None})


def interrupt() -> Outgoing:
    return _request(INTERRUPT_ID, {"subtype": "interrupt"})


def prompt(words: str, *, flat: bool) -> Outgoing:
    """The task. Without `message.role` Claude Code exits; a flat client looks for `content` at the top."""
    content = [{"type": "text", "text": words}]
    message: Outgoing = {
        "type": "user",
        "message": {"role": "user", "content": content},
        "session_id": "",
        "parent_tool_use_id": None,
    }
    return {**message, "content": content} if flat else message


def welcome(request: ControlRequest) -> Outgoing:
    """The answer to a client that starts the handshake itself."""
    return _answer(request, {"apiVersion": "1", "permissionMode": "default"})


def allow(request: ControlRequest, given: Mapping[str, Any]) -> Outgoing:
    """Allow a call. The CLI executes `updatedInput`, so it is the unchanged input of the request.

    An input that was masked on its way here is left out: 2.1.325 then uses its own, 1.0.128 and 2.0.62 refuse the call.
    """
    if request.flat:
        return _answer(request, {"allowed": True})
    unchanged = {} if MASK.decode() in repr(given) else {"updatedInput": dict(given)}
    return _answer(request, {"behavior": "allow", **unchanged})


def deny(request: ControlRequest, reason: str) -> Outgoing:
    if request.flat:
        return _answer(request, {"allowed": False, "reason": reason})
    return _answer(request, {"behavior": "deny", "message": reason})


def refuse(request: ControlRequest) -> Outgoing:
    """Reject an unsupported request. Without an answer, some versions wait forever."""
    error = f"not supported: {request.subtype or 'a control request without a subtype'}"
    if request.flat:
        return _answer(request, {"error": error})
    return {"type": "control_response", "response": {"subtype": "error", "request_id": request.id, "error": error}}


def _request(identity: str, body: Outgoing) -> Outgoing:
    return {"type": "control_request", "request_id": identity, "request": body}


def _answer(request: ControlRequest, content: Outgoing) -> Outgoing:
    if not request.flat:
        success = {"subtype": "success", "request_id": request.id, "response": content}
        return {"type": "control_response", "response": success}
    request_id = {} if request.id is None else {"request_id": request.id}
    return {"type": "control_response", "subtype": request.subtype, **request_id, **content}


END_SESSION: dict[str, Any] = {
    "type": "control_request",
    "request_id": "youbencha-end",
    "request": {"subtype": "end_session"},
}
"""Supported by 2.1.72 and later."""

PROTOCOL_ERROR = 1002
"""The close code after which 2.1.50 and later exit. After any other, they reconnect forever."""

EXIT_TIMEOUT_S = 5.0
"""All exit within 0.3 s, and 2.1.325 within 1.6 s if it has to end commands in the background."""

COMPLETED = "completed"
_QUOTED_RESULT = 500

_ENDINGS = {
    "error_max_turns": "the agent reached its limit of turns",
    "error_max_budget_usd": "the agent reached its own budget",
    "error_during_execution": "the agent failed during its work",
}


class ResultVerdict(NamedTuple):
    ok: bool
    reason: str


def result_verdict(result: Record) -> ResultVerdict:
    """A missing `subtype` or `is_error` is not an error; an invalid `is_error` is. API errors are a "success"."""
    subtype = result.get("subtype")
    wrong = result.get("is_error", False) is not False
    if subtype in (None, "success") and not wrong:
        return ResultVerdict(True, COMPLETED)
    if subtype in (None, "success"):
        return ResultVerdict(False, _in_words("the agent reported an error", result))
    return ResultVerdict(
        False, _in_words(_ENDINGS.get(str(subtype), f"the agent ended with {str(subtype)[:80]}"), result)
    )


def _in_words(what: str, result: Record) -> str:
    listed = texts(result.get("errors")) or (text(result.get("result")) or "",)
    details = " ".join(" ".join(listed).split())
    return f"{what}: {details[:_QUOTED_RESULT]}" if details else what
