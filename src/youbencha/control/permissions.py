"""Answer an agent's questions about tools, and note calls made without asking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from youbencha.control import messages
from youbencha.control.messages import ControlRequest, blocks
from youbencha.control.policy import PolicyDecision, ToolPolicy
from youbencha.json_lines import Record, mapping, text


class Approval(NamedTuple):
    tool: str | None
    call: str | None
    """1.0.128 does not name it."""
    decision: PolicyDecision
    answer: dict[str, Any]


def approval(request: ControlRequest, policy: ToolPolicy, *, stopping: bool) -> Approval:
    tool = text(request.body.get("tool_name", request.body.get("toolName")))
    given = request.body.get("input")
    decision = PolicyDecision(False, "the session is being stopped") if stopping else decided(policy, tool, given)
    allowed, reason = decision
    answer = messages.allow(request, mapping(given)) if allowed else messages.deny(request, reason)
    return Approval(tool, text(request.body.get("tool_use_id")), decision, answer)


def decided(policy: ToolPolicy, tool: str | None, given: object) -> PolicyDecision:
    if not tool:
        return PolicyDecision(False, "the request names no tool")
    if not isinstance(given, Mapping):
        return PolicyDecision(False, "the tool's input is not an object")
    try:
        return policy.decide(tool, given)
    except Exception as error:  # noqa: BLE001 - a CLI that gets no answer, or an error, uses the tool
        return PolicyDecision(False, f"it could not be decided: {type(error).__name__}")


# Has Claude Code ask about every tool, where by itself it asks only about some.
#
# By itself it runs what it takes for harmless without a question (Read, Glob, `ls`; 2.0.62 even `echo > file`), and
# with
# permissions bypassed everything. A hook before each tool is asked in any mode: 1.0.86 and later send `hook_callback`.
# And it is the only way that does not change the agent: with `--permission-prompt-tool` 2.1.325 offers its model three
# more tools, and without the bypass it tells the model to keep away from the shell (measured: the requests are
# otherwise
# the same, byte for byte).
#
# The state machine knows one question about tools, `can_use_tool`. Here the hook's question is put in its words, and
# the
# answer in the hook's.

CALLBACK = "youbencha-tools"

_EVENT = "PreToolUse"

_WAITS_S = 600
"""How long the CLI waits for an answer before it goes on without one; its own choice is a minute."""

_MASKED = "[REDACTED]"


class ToolHooks:
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
    """We see standard output with secrets masked; what is given back is executed, and must not be the mask."""
    masked = _MASKED in repr(answer.get("updatedInput", ""))
    return {key: value for key, value in answer.items() if key != "updatedInput" or not masked}


# Tools that were used though nobody asked us, and that we would have denied.
#
# The hook by which a CLI asks can be switched off behind our back: 1.0.128 and 2.0.62 do so if the repository's
# settings
# say `disableAllHooks` (measured; 2.1.325 asks all the same). What was done is done, but a run that goes on would be
# one
# that claims a policy and has none.


class UnapprovedCalls:
    def __init__(self, policy: ToolPolicy) -> None:
        self._policy = policy
        self._matters = not policy.allows_all
        self._asked: set[str] = set()
        self._denied: dict[str, str] = {}

    def asked(self, call: str | None) -> None:
        """1.0.128 does not name it where it asks by itself: then nothing can be told of any call."""
        if call is None:
            self._matters = False
        else:
            self._asked.add(call)

    def found(self, message: Record) -> str | None:
        """Which rule was broken, if this message tells of such a call."""
        kind = message.get("type") if self._matters else None
        for block in blocks(message):
            if kind == "assistant" and block.get("type") == "tool_use":
                self._announced(block)
            elif kind == "user" and block.get("type") == "tool_result" and (broken := self._returned(block)):
                return broken
        return None

    def _announced(self, use: Record) -> None:
        call, tool = text(use.get("id")), text(use.get("name"))
        allowed, reason = decided(self._policy, tool, use.get("input"))
        if call and not allowed:
            self._denied[call] = reason

    def _returned(self, result: Record) -> str | None:
        """A call that failed may have been refused before anybody is asked: for its input, by the CLI's own mode."""
        call = text(result.get("tool_use_id")) or ""
        reason = self._denied.pop(call, None)
        return None if call in self._asked or result.get("is_error") else reason
