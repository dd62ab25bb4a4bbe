"""The shapes of control messages, both ways.

Claude Code wraps a control message: `{"type", "request_id", "request": {"subtype", …}}`. The flat shapes, with the
`subtype` at the top, are those of the protocol's first description; clients built to it are answered in kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from youbencha.json_lines import Record, mapping, records, text, texts

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
    """For what is not supported. Never left unanswered: some versions wait for ever."""
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


# How a session ends.

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

COMPLETED = "completed"

_QUOTED_RESULT = 500

_ENDINGS = {
    "error_max_turns": "the agent reached its limit of turns",
    "error_max_budget_usd": "the agent reached its own budget",
    "error_during_execution": "the agent stopped in the middle of its work",
}


class ResultVerdict(NamedTuple):
    ok: bool
    reason: str


def result_verdict(result: Record) -> ResultVerdict:
    """An absent `subtype` or `is_error` is no error; a wrong `is_error` is one. API errors come as "success"."""
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


# How Claude Code is made to ask about every tool, where by itself it asks only about some.
#
# By itself it runs what it takes for harmless without a question (Read, Glob, `ls`; 2.0.62 even `echo > file`), and
# with permissions bypassed everything. A hook before each tool is asked in any mode: 1.0.86 and later send
# `hook_callback`. It is also the only means that does not change the agent: with `--permission-prompt-tool` 2.1.325
# offers its model three more tools, and without the bypass it tells the model to keep away from the shell (measured:
# the requests are otherwise the same, byte for byte).

CALLBACK = "youbencha-tools"

_EVENT = "PreToolUse"

_WAITS_S = 600
"""How long the CLI waits for an answer before it goes on without one; its own choice is a minute."""

_MASKED = "[REDACTED]"


class ToolHooks:
    """Translates between the hook's question and `can_use_tool`, the one question that the state machine knows."""

    def __init__(self, *, decide: bool = True) -> None:
        """`decide`: what the policy allows is allowed. Else it only forbids, and the CLI's own mode has its say."""
        self._decide = decide
        self._open: set[object] = set()

    def incoming(self, message: Record) -> Record:
        request = mapping(message.get("request"))
        if request.get("subtype") != "hook_callback" or request.get("callback_id") != CALLBACK:
            return message
        asked = mapping(request.get("input"))
        self._open.add(message.get("request_id"))
        question = {
            "subtype": "can_use_tool",
            "tool_name": asked.get("tool_name"),
            "input": asked.get("tool_input"),
            "tool_use_id": text(request.get("tool_use_id")) or text(asked.get("tool_use_id")),
        }
        return {**message, "request": question}

    def outgoing(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if mapping(message.get("request")).get("subtype") == "initialize":
            hooks = {_EVENT: [{"matcher": None, "hookCallbackIds": [CALLBACK], "timeout": _WAITS_S}]}
            return {**message, "request": {**message["request"], "hooks": hooks}}
        response = mapping(message.get("response"))
        answer = mapping(response.get("response"))
        if "behavior" not in answer:
            return message
        if response.get("request_id") in self._open:
            self._open.discard(response.get("request_id"))
            return {**message, "response": {**response, "response": self._of_hook(answer)}}
        return {**message, "response": {**response, "response": _unmasked(answer)}}

    def _of_hook(self, answer: Record) -> dict[str, Any]:
        if answer["behavior"] == "allow" and not self._decide:
            return {}
        decision = {"hookEventName": _EVENT, "permissionDecision": answer["behavior"]}
        if reason := answer.get("message"):
            decision["permissionDecisionReason"] = reason
        return {"hookSpecificOutput": decision}


def _unmasked(answer: Record) -> dict[str, Any]:
    """Leave out a masked input: standard output comes masked, and what is given back is executed.

    2.1.325 takes an answer without it; 1.0.128 and 2.0.62 then refuse the call (measured), which is still better.
    """
    masked = _MASKED in repr(answer.get("updatedInput", ""))
    return {key: value for key, value in answer.items() if key != "updatedInput" or not masked}
