"""The formats of control messages in both directions.

Claude Code wraps a control message: `{"type", "request_id", "request": {"subtype", …}}`. The flat form, with the
`subtype` at the top, is that of the protocol's first description; clients that use it get flat answers.
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
    """The answer to a client that starts the handshake itself."""
    return _answer(request, {"apiVersion": "1", "permissionMode": "default"})


def allow(request: ControlRequest, given: Mapping[str, Any]) -> Outgoing:
    """Allow a call. The CLI executes `updatedInput`, so it is the unchanged input of the request."""
    if request.flat:
        return _answer(request, {"allowed": True})
    return _answer(request, {"behavior": "allow", "updatedInput": dict(given)})


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


# A hook makes Claude Code ask about every tool.
#
# Without it, the CLI runs what it considers harmless without a question (Read, Glob, `ls`; 2.0.62 even `echo > file`),
# and everything if permissions are bypassed. A hook before each tool is called in any mode: 1.0.86 and later send
# `hook_callback`. It is also the only method that does not change the agent: with `--permission-prompt-tool`, 2.1.325
# offers its model three more tools, and without the bypass it tells the model to avoid the shell (measured: requests
# are otherwise the same, byte for byte).

CALLBACK = "youbencha-tools"
_EVENT = "PreToolUse"

_HOOK_TIMEOUT_S = 600
"""How long the CLI waits for an answer before it continues without one; its default is a minute."""

_MASKED = "[REDACTED]"


class ToolHooks:
    """Translates between the hook's question and `can_use_tool`, which the state machine answers."""

    def __init__(self, *, decide: bool = True) -> None:
        """`decide`: the policy's decision is final. Otherwise it only denies, and the CLI's mode decides the rest."""
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
            hooks = {_EVENT: [{"matcher": None, "hookCallbackIds": [CALLBACK], "timeout": _HOOK_TIMEOUT_S}]}
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
    """Remove a masked input: standard output is masked, and the CLI would execute the input of the answer.

    2.1.325 accepts an answer without it; 1.0.128 and 2.0.62 then refuse the call (measured), which is still better.
    """
    masked = _MASKED in repr(answer.get("updatedInput", ""))
    return {key: value for key, value in answer.items() if key != "updatedInput" or not masked}
