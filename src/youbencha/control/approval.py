"""An agent's question whether it may use a tool, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from youbencha.control import messages
from youbencha.control.messages import Request
from youbencha.control.policy import Decision, ToolPolicy
from youbencha.control.reading import mapping, text


class Approval(NamedTuple):
    tool: str | None
    call: str | None
    """1.0.128 does not name it."""
    decision: Decision
    answer: dict[str, Any]


def approval(request: Request, policy: ToolPolicy, *, stopping: bool) -> Approval:
    tool = text(request.body.get("tool_name", request.body.get("toolName")))
    given = request.body.get("input")
    decision = Decision(False, "the session is being stopped") if stopping else decided(policy, tool, given)
    allowed, reason = decision
    answer = messages.allow(request, mapping(given)) if allowed else messages.deny(request, reason)
    return Approval(tool, text(request.body.get("tool_use_id")), decision, answer)


def decided(policy: ToolPolicy, tool: str | None, given: object) -> Decision:
    if not tool:
        return Decision(False, "the request names no tool")
    if not isinstance(given, Mapping):
        return Decision(False, "the tool's input is not an object")
    try:
        return policy.decide(tool, given)
    except Exception as error:  # noqa: BLE001 - a CLI that gets no answer, or an error, uses the tool
        return Decision(False, f"it could not be decided: {type(error).__name__}")
