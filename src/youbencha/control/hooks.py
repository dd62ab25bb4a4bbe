"""Has Claude Code ask about every tool, where by itself it asks only about some.

By itself it runs what it takes for harmless without a question (Read, Glob, `ls`; 2.0.62 even `echo > file`), and with
permissions bypassed everything. A hook before each tool is asked in any mode: 1.0.86 and later send `hook_callback`.
And it is the only way that does not change the agent: with `--permission-prompt-tool` 2.1.325 offers its model three
more tools, and without the bypass it tells the model to keep away from the shell (measured: the requests are otherwise
the same, byte for byte).

The state machine knows one question about tools, `can_use_tool`. Here the hook's question is put in its words, and the
answer in the hook's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.control.reading import Message, mapping, text

CALLBACK = "youbencha-tools"
_EVENT = "PreToolUse"
_WAITS_S = 600
"""How long the CLI waits for an answer before it goes on without one; its own choice is a minute."""
_MASKED = "[REDACTED]"


class Hooks:
    def __init__(self, *, decide: bool = True) -> None:
        """`decide`: what the policy allows is allowed. Else it only forbids, and the CLI's own mode has its say."""
        self._decide = decide
        self._open: set[object] = set()

    def incoming(self, message: Message) -> Message:
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

    def _of_hook(self, answer: Message) -> dict[str, Any]:
        if answer["behavior"] == "allow" and not self._decide:
            return {}
        decision = {"hookEventName": _EVENT, "permissionDecision": answer["behavior"]}
        if reason := answer.get("message"):
            decision["permissionDecisionReason"] = reason
        return {"hookSpecificOutput": decision}


def _unmasked(answer: Message) -> dict[str, Any]:
    """We see standard output with secrets masked; what is given back is executed, and must not be the mask."""
    masked = _MASKED in repr(answer.get("updatedInput", ""))
    return {key: value for key, value in answer.items() if key != "updatedInput" or not masked}
