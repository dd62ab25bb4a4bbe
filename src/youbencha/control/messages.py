"""The shapes of messages, both ways.

Claude Code wraps a control message: `{"type", "request_id", "request": {"subtype", …}}`. The flat shapes, with the
`subtype` at the top, are those of the protocol's first description; clients built to it are answered in kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from youbencha.json_lines import Record, mapping, records, text

INITIALIZE_ID = "youbencha-initialize"

INTERRUPT_ID = "youbencha-interrupt"

Identity = str | int

Outgoing = dict[str, Any]


class ControlRequest(NamedTuple):
    """Something the agent asks of us."""

    id: Identity | None
    subtype: str
    body: Record
    flat: bool


def request_in(message: Record) -> ControlRequest:
    flat = "request" not in message
    body = message if flat else mapping(message.get("request"))
    return ControlRequest(_identity(message.get("request_id")), text(body.get("subtype")) or "", body, flat)


def answers_initialize(message: Record) -> bool:
    """Whether a `control_response` is the one to our `initialize`, be it a refusal."""
    if "response" not in message:
        return message.get("subtype") == "initialize"
    return mapping(message.get("response")).get("request_id") == INITIALIZE_ID


def is_refusal(message: Record) -> bool:
    return mapping(message.get("response")).get("subtype") == "error"


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
    """To a client that starts the handshake itself."""
    return _answer(request, {"apiVersion": "1", "permissionMode": "default"})


def allow(request: ControlRequest, given: Mapping[str, Any]) -> Outgoing:
    """What `updatedInput` says is executed, so it is what was asked for, unchanged."""
    if request.flat:
        return _answer(request, {"allowed": True})
    return _answer(request, {"behavior": "allow", "updatedInput": dict(given)})


def deny(request: ControlRequest, reason: str) -> Outgoing:
    if request.flat:
        return _answer(request, {"allowed": False, "reason": reason})
    return _answer(request, {"behavior": "deny", "message": reason})


def refuse(request: ControlRequest) -> Outgoing:
    """For whatever nobody here can do. Never left unanswered: some versions wait for ever."""
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
    named = {} if request.id is None else {"request_id": request.id}
    return {"type": "control_response", "subtype": request.subtype, **named, **content}


# How a CLI is told that nothing more comes.

END_SESSION: dict[str, Any] = {
    "type": "control_request",
    "request_id": "youbencha-end",
    "request": {"subtype": "end_session"},
}
"""2.1.72 and later."""

PROTOCOL_ERROR = 1002
"""The close code that 2.1.50 and later take for a reason to exit. After any other they connect again, for ever."""

LEAVES_WITHIN_S = 5.0
"""All exit within 0.3 s, and 2.1.325 within 1.6 s if it has to end commands in the background."""
