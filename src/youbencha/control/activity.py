"""Track an agent's turns, tool calls and background tasks from its messages.

This answers two questions: is a silent agent stuck, or does a tool run; and is a `result` the last one? Claude Code
2.1.325 (measured) gives a result while commands and subagents continue in the background, and takes another turn when
one of them has ended. They are announced (`task_started`, `background_tasks_changed`).

Only whole `assistant` and `user` messages count: a partial message has no call id, and must not end a running tool.
"""

from __future__ import annotations

from typing import NamedTuple

from youbencha.control.messages import blocks
from youbencha.json_lines import Record, mapping, records, text

COMMAND = "local_bash"
"""The kind of a background task that is a shell command, such as a server that never exits."""

_ENDED = frozenset({"completed", "failed", "killed", "stopped", "cancelled"})


class _Call(NamedTuple):
    parent: str | None
    """The call of the subagent that made this one."""
    message: str | None


class _Task(NamedTuple):
    kind: str
    call: str | None


class Activity:
    """The tool calls, turns and background tasks in progress."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._call_without_id = False
        self._tasks: dict[str, _Task] = {}
        self._turns_begun = 0
        self._results = 0
        self._end_unreported = False  # a task has ended, and the model has not been informed yet
        self.in_turn = True
        self.expecting_since: float | None = None
        """The time since which another turn is expected; turns are not announced."""

    @property
    def tool_running(self) -> bool:
        return bool(self._calls) or self._call_without_id

    @property
    def agents_running(self) -> bool:
        """Whether a subagent runs in the background. Unlike a command, it sends messages."""
        return any(task.kind != COMMAND for task in self._tasks.values())

    @property
    def is_idle(self) -> bool:
        """Whether at most commands run in the background."""
        return not self.in_turn and not self.agents_running

    @property
    def commands_running(self) -> int:
        return sum(task.kind == COMMAND for task in self._tasks.values())

    @property
    def finished(self) -> bool:
        return not self.in_turn and not self._tasks and self.expecting_since is None

    def note(self, message: Record, now: float) -> None:
        kind = message.get("type")
        if kind == "assistant":
            self._on_assistant(message)
        elif kind == "user":
            self._on_user(message)
        elif kind == "system":
            self._on_system(message, now)
        elif kind == "result":
            self._on_result(now)

    def decided(self, call: str | None, *, allowed: bool) -> None:
        """Note a decision about a call. 1.0.128 asks without the call's id."""
        if not allowed:
            self._calls.pop(call or "", None)
        elif call is None:
            self._call_without_id = True
        else:
            self._calls.setdefault(call, _Call(None, None))

    def _on_assistant(self, message: Record) -> None:
        """Note the model's calls. All calls of its previous answer are then done, even without a result."""
        parent = text(message.get("parent_tool_use_id"))
        answer = text(mapping(message.get("message")).get("id"))
        stale = [key for key, call in self._calls.items() if call.parent == parent and call.message != answer]
        for key in stale:
            del self._calls[key]
        self._call_without_id = False
        made = [text(block.get("id")) for block in blocks(message) if block.get("type") == "tool_use"]
        self._calls |= {call: _Call(parent, answer) for call in made if call is not None}

    def _on_user(self, message: Record) -> None:
        results = [block for block in blocks(message) if block.get("type") == "tool_result"]
        for block in results:
            self._calls.pop(text(block.get("tool_use_id")) or "", None)
        if results:
            self._call_without_id = False
            if message.get("parent_tool_use_id") is None:
                self._end_unreported = False  # the next request of this turn informs the model

    def _on_system(self, message: Record, now: float) -> None:
        subtype, name = message.get("subtype"), text(message.get("task_id"))
        if subtype == "init":
            self._turns_begun += 1
            self.in_turn, self.expecting_since, self._end_unreported = True, None, False
        elif subtype == "background_tasks_changed":
            self._set_tasks({key: task for key, task in map(_task_in, records(message.get("tasks"))) if key}, now)
        elif name is None:
            return
        elif subtype == "task_started" and message.get("is_backgrounded") is not False:
            self._tasks[name] = _task_in(message)[1]
        elif subtype == "task_notification" or (
            subtype == "task_updated" and text(mapping(message.get("patch")).get("status")) in _ENDED
        ):
            self._set_tasks({key: task for key, task in self._tasks.items() if key != name}, now)

    def _set_tasks(self, tasks: dict[str, _Task], now: float) -> None:
        for name in self._tasks.keys() - tasks.keys():
            self._end_unreported = True
            self.expecting_since = None if self.in_turn else now
            parent = self._tasks[name].call
            for key in [key for key, call in self._calls.items() if parent and call.parent == parent]:
                del self._calls[key]
        self._tasks = {name: self._tasks.get(name, task) for name, task in tasks.items()}

    def _on_result(self, now: float) -> None:
        """In print mode, 2.1.325 delays the first result until the second turn has ended: both come at the end."""
        self._results += 1
        self.in_turn = False
        self._call_without_id = False
        self._calls = {key: call for key, call in self._calls.items() if call.parent and self._tasks}
        self.expecting_since = now if self._end_unreported or self._turns_begun > self._results else None


def _task_in(message: Record) -> tuple[str, _Task]:
    kind = text(message.get("task_type")) or COMMAND
    return text(message.get("task_id")) or "", _Task(kind, text(message.get("tool_use_id")))
