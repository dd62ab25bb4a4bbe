"""Messages as an agent sends them, and machines in a given state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from youbencha.adapters.claude_code.control import Action, ControlProtocol, Decided, Send, SessionEnded, Timeouts
from youbencha.control import SessionMetrics
from youbencha.events import ToolDecided

Message = dict[str, Any]

PROMPT = "Write hello.txt."
PATIENCE = Timeouts(connect_s=60, handshake_s=5, silence_s=300, interrupt_s=2, background_s=600, more_results_s=10)
INITIALIZED: Message = {
    "type": "control_response",
    "response": {"subtype": "success", "request_id": "youbencha-initialize", "response": {"commands": []}},
}
INIT: Message = {"type": "system", "subtype": "init", "session_id": "s1", "model": "a-model"}
RESULT: Message = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "num_turns": 2,
    "total_cost_usd": 0.5,
    "usage": {"input_tokens": 10, "output_tokens": 3},
}
FAILED_RESULT: Message = {**RESULT, "subtype": "error_max_turns", "is_error": True, "errors": ["Reached 2 turns"]}


def tool_use(call: str, tool: str = "Bash", *, answer: str = "m1", parent: str | None = None, **given: Any) -> Message:
    block = {"type": "tool_use", "id": call, "name": tool, "input": given}
    return {
        "type": "assistant",
        "message": {"id": answer, "role": "assistant", "content": [block]},
        "parent_tool_use_id": parent,
    }


def says(words: str, *, answer: str = "m2", parent: str | None = None) -> Message:
    content = [{"type": "text", "text": words}]
    return {"type": "assistant", "message": {"id": answer, "content": content}, "parent_tool_use_id": parent}


def tool_result(call: str, *, parent: str | None = None) -> Message:
    block = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": parent}


def may_i(request_id: object, tool: object = "Bash", given: object = None, **more: Any) -> Message:
    asked = {
        "subtype": "can_use_tool",
        "tool_name": tool,
        "input": {"command": "ls"} if given is None else given,
        **more,
    }
    return {"type": "control_request", "request_id": request_id, "request": asked}


def started(task: str, kind: str = "local_bash", *, call: str = "t1", background: bool | None = True) -> Message:
    message: Message = {"type": "system", "subtype": "task_started", "task_id": task, "tool_use_id": call}
    return {**message, "task_type": kind, **({} if background is None else {"is_backgrounded": background})}


def ended(task: str) -> Message:
    return {"type": "system", "subtype": "task_notification", "task_id": task, "status": "completed"}


def updated(task: str, status: object) -> Message:
    return {"type": "system", "subtype": "task_updated", "task_id": task, "patch": {"status": status}}


def running(now: float = 0.0, **options: Any) -> ControlProtocol:
    """A machine whose agent has its prompt."""
    machine = ControlProtocol(PROMPT, now=now, timeouts=PATIENCE, **options)
    machine.connected(now)
    machine.received(INITIALIZED, now)
    return machine


def hear(machine: ControlProtocol | Recorded, *heard: Message, now: float = 0.0) -> list[Action]:
    return [action for message in heard for action in machine.received(message, now)]


class Recorded:
    """A machine and what is counted beside it, as `python -m youbencha.control` has them."""

    def __init__(self, machine: ControlProtocol) -> None:
        self.machine = machine
        self._metrics = SessionMetrics()

    def received(self, message: Message, now: float) -> list[Action]:
        self._metrics.on_record(message)
        actions = self.machine.received(message, now)
        for action in actions:
            if isinstance(action, Decided):
                call_id, tool, allowed, reason = action
                self._metrics.on_event(ToolDecided(call_id=call_id, name=tool, allowed=allowed, reason=reason))
        return actions

    @property
    def sidecar(self) -> dict[str, Any]:
        return self._metrics.sidecar(self.machine)


def sent(actions: Sequence[Action]) -> list[Message]:
    return [action.message for action in actions if isinstance(action, Send)]


def over(actions: Sequence[Action]) -> list[SessionEnded]:
    return [action for action in actions if isinstance(action, SessionEnded)]
