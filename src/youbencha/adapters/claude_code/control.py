"""The agent control protocol as a state machine without I/O: messages and the time go in, actions come out.

```
WAITING --connected--> INITIALIZING --prompt sent--> RUNNING --last result--> DONE
```
and FAILED from any state: no agent connected, it was silent too long, it disconnected without a result. DONE means that
a result arrived, successful or not: see `SessionEnded.ok` and `failure`.

Below the protocol come the formats of its messages, and what the agent is doing according to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from youbencha.json_lines import Record, as_mapping, as_records, as_str, as_strs
from youbencha.process.redact import MASK

MALFORMED = "CONTROL_MALFORMED_MESSAGE"
NO_HANDSHAKE = "CONTROL_NO_HANDSHAKE"
UNKNOWN_REQUEST = "CONTROL_UNKNOWN_REQUEST"
REPEATED_REQUEST = "CONTROL_REPEATED_REQUEST"
LEFT_RUNNING = "CONTROL_BACKGROUND_LEFT_RUNNING"
_MAX_WARNINGS = 20
_MAX_QUOTED = 200


class Send(NamedTuple):
    """A message to the agent."""

    message: dict[str, Any]


class Decided(NamedTuple):
    """A tool call was allowed or denied; the answer is a separate `Send`."""

    call_id: str | None
    tool: str
    allowed: bool
    reason: str


class Warn(NamedTuple):
    code: str
    text: str


class SessionEnded(NamedTuple):
    """The last action: close the connection. `reason` is for people."""

    ok: bool
    reason: str


Action = Send | Decided | Warn | SessionEnded


class Timeouts(NamedTuple):
    """How long to wait for what."""

    connect_s: float = 60
    """For an agent to connect."""
    handshake_s: float = 20
    """For an answer to `initialize`; a cold start took 15 s. Then the prompt is sent: not every client answers."""
    silence_s: float = 300
    """For the next message. The time in which a tool runs does not count."""
    interrupt_s: float = 2
    """For a result after `interrupt`: agents answer in 0.1 s, and the kill must not wait."""
    background_s: float = 30
    """For commands that run in the background after the result: one that ends gets another turn, a server never ends.
    Claude Code itself waits for 600 s, or without end."""
    more_results_s: float = 10
    """For the turn in which the agent looks at finished background work. It begins within milliseconds."""


DEFAULT_TIMEOUTS = Timeouts()


class State(StrEnum):
    WAITING = "waiting"
    INITIALIZING = "initializing"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class _Wait(NamedTuple):
    until: float
    then: Callable[[float], list[Action]]


class ControlProtocol:
    """One session with an agent. Every method takes the time of a monotonic clock."""

    def __init__(
        self,
        prompt: str,
        *,
        approves: bool = True,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        now: float,
        awaits_model: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start a session that waits for its agent.

        `approves`: the answer to an agent that asks whether it may use a tool. `awaits_model`: whether the agent is
        known to have a request to its model in progress.
        """
        self._prompt = prompt
        self._approves = approves
        self._timeouts = timeouts
        self._awaits_model = awaits_model
        self._state = State.WAITING
        self._since = self._message_at = self._result_at = now
        self._activity = Activity()
        self._answered: set[RequestId] = set()
        self._interrupted: tuple[float, str] | None = None
        self._result: Record | None = None
        self._failure: str | None = None
        self._warn = LimitedWarnings()
        self._connected_at: float | None = None
        self._ended: tuple[float, str] | None = None

    @property
    def state(self) -> State:
        return self._state

    @property
    def deadline(self) -> float | None:
        """When `tick` is due, unless something happens before. None if there is no timeout, or a tool is running."""
        wait = self._wait()
        return wait.until if wait else None

    @property
    def result(self) -> Mapping[str, Any] | None:
        """The last result."""
        return self._result

    @property
    def failure(self) -> str | None:
        return self._failure

    @property
    def ended(self) -> str | None:
        """How the session ended, for people."""
        return self._ended[1] if self._ended else None

    @property
    def duration_ms(self) -> int | None:
        """From the connection to the end."""
        if self._connected_at is None or self._ended is None:
            return None
        return round((self._ended[0] - self._connected_at) * 1000)

    def connected(self, now: float) -> list[Action]:
        if self._state is not State.WAITING:
            return []
        self._state = State.INITIALIZING
        self._since = self._message_at = self._connected_at = now
        return [Send(initialize_request())]

    def received(self, message: Mapping[str, Any], now: float) -> list[Action]:
        if message.get("type") == "result":
            self._result, self._result_at = message, now
        if self._has_ended:
            return []
        actions = self.connected(now)
        self._message_at = now
        self._activity.note(message, now)
        actions += self._react(message, now)
        if self._result is not None and not self._has_ended:
            actions += self._after_result(message, now)
        return actions

    def malformed(self, text: str, now: float) -> list[Action]:
        if self._has_ended:
            return []
        self._message_at = now
        return self._warn(MALFORMED, f"skipped an invalid message: {text[:_MAX_QUOTED]!r}")

    def interrupt(self, reason: str, now: float) -> list[Action]:
        """Interrupt the agent. Before the prompt is sent, the session just ends."""
        if self._has_ended or self._interrupted:
            return []
        if self._result is not None and self._activity.is_idle:
            return self._end_with_result(now)
        if self._state is not State.RUNNING:
            return [self._end(False, reason, now)]
        self._interrupted = (now, reason)
        return [Send(interrupt_request())]

    def disconnected(self, now: float) -> list[Action]:
        if self._has_ended:
            return []
        if self._interrupted:
            return self._end_interrupted(now)
        if self._result is not None:
            return self._end_with_result(now)
        when = "before it got its task" if self._state is not State.RUNNING else "without a result"
        return [self._end(False, f"the agent disconnected {when}", now)]

    def tick(self, now: float) -> list[Action]:
        wait = self._wait()
        return wait.then(now) if wait and now >= wait.until else []

    @property
    def _has_ended(self) -> bool:
        return self._state in (State.DONE, State.FAILED)

    def _wait(self) -> _Wait | None:
        timeouts, activity = self._timeouts, self._activity
        if self._has_ended:
            return None
        if self._interrupted:
            return _Wait(self._interrupted[0] + timeouts.interrupt_s, self._end_interrupted)
        if self._state is State.WAITING:
            return _Wait(self._since + timeouts.connect_s, self._connect_timed_out)
        if self._state is State.INITIALIZING:
            return _Wait(self._since + timeouts.handshake_s, self._handshake_timed_out)
        if not activity.is_idle:
            return (
                None if activity.tool_running else _Wait(self._message_at + timeouts.silence_s, self._silence_timed_out)
            )
        if activity.commands_running:
            return _Wait(self._result_at + timeouts.background_s, self._background_timed_out)
        return _Wait((activity.expecting_since or self._result_at) + timeouts.more_results_s, self._end_with_result)

    def _react(self, message: Record, now: float) -> list[Action]:
        kind = as_str(message.get("type"))
        if kind == "control_request":
            return self._asked(read_request(message))
        if kind == "control_response" and answers_initialize(message):
            return self._begin(flat="response" not in message)  # a refusal is an answer too
        if kind is None:
            keys = ", ".join(sorted(str(key) for key in message))[:_MAX_QUOTED] or "(none)"
            return self._warn(MALFORMED, f"skipped a message without a type, with the keys {keys}")
        return []  # each release has new message types

    def _after_result(self, message: Record, now: float) -> list[Action]:
        if self._interrupted:
            return self._end_interrupted(now) if message.get("type") == "result" else []
        return self._end_with_result(now) if self._activity.finished else []

    def _begin(self, *, flat: bool = False) -> list[Action]:
        if self._state is not State.INITIALIZING:
            return []
        self._state = State.RUNNING
        return [Send(prompt_message(self._prompt, flat=flat))]

    def _asked(self, request: ControlRequest) -> list[Action]:
        if request.id is None and not (request.flat and request.subtype):
            return self._warn(MALFORMED, "skipped a control request that cannot be answered: it has no request_id")
        if request.id in self._answered:
            return self._warn(REPEATED_REQUEST, f"a control request came twice: {str(request.id)[:_MAX_QUOTED]}")
        if request.id is not None:
            self._answered.add(request.id)
        if request.subtype == "can_use_tool":
            return self._decide(request)
        if request.subtype == "initialize":
            return [Send(welcome_answer(request)), *self._begin(flat=request.flat)]
        warnings = self._warn(UNKNOWN_REQUEST, f"refused a control request: {request.subtype[:_MAX_QUOTED]!r}")
        return [Send(refuse_answer(request)), *warnings]

    def _decide(self, request: ControlRequest) -> list[Action]:
        tool = as_str(request.body.get("tool_name", request.body.get("toolName")))
        call = as_str(request.body.get("tool_use_id"))  # missing in 1.0.128
        arguments = request.body.get("input")
        denied = self._reason_to_deny(tool, arguments)
        self._activity.decided(call, allowed=denied is None)
        answer = allow_answer(request, as_mapping(arguments)) if denied is None else deny_answer(request, denied)
        call_id = call if call is not None or request.id is None else str(request.id)
        return [Send(answer), Decided(call_id, tool or "(unnamed)", denied is None, denied or "every tool is allowed")]

    def _reason_to_deny(self, tool: str | None, arguments: object) -> str | None:
        """Return None if a call is allowed."""
        if self._interrupted:
            return "the session is being stopped"
        if not tool:
            return "the request names no tool"
        if not isinstance(arguments, Mapping):
            return "the tool's input is not an object"
        return None if self._approves else f"{tool} needs approval, and nobody can approve it"

    def _connect_timed_out(self, now: float) -> list[Action]:
        return [self._end(False, f"no agent connected within {self._timeouts.connect_s:g} s", now)]

    def _handshake_timed_out(self, now: float) -> list[Action]:
        problem = f"initialize was not answered within {self._timeouts.handshake_s:g} s"
        return [*self._warn(NO_HANDSHAKE, f"{problem}; the prompt was sent without it"), *self._begin()]

    def _silence_timed_out(self, now: float) -> list[Action]:
        if self._awaits_model():  # the model may take any time
            self._message_at = now
            return []
        return [self._end(False, f"the agent sent no message for {self._timeouts.silence_s:g} s", now)]

    def _end_interrupted(self, now: float) -> list[Action]:
        assert self._interrupted is not None
        return [self._end(False, self._interrupted[1], now)]

    def _background_timed_out(self, now: float) -> list[Action]:
        commands = f"{self._activity.commands_running} of its commands"
        message = f"{commands} still ran in the background {self._timeouts.background_s:g} s after the agent was done"
        return [*self._warn(LEFT_RUNNING, message), *self._end_with_result(now)]

    def _end_with_result(self, now: float) -> list[Action]:
        assert self._result is not None
        return [self._end(*result_verdict(self._result), now)]

    def _end(self, ok: bool, reason: str, now: float) -> SessionEnded:
        self._state = State.FAILED if self._result is None else State.DONE
        self._failure = None if ok else reason
        self._ended = (now, reason)
        return SessionEnded(ok, reason)


class LimitedWarnings:
    """Warns up to a limit, so that a client that sends only invalid messages does not fill the log."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, code: str, message: str) -> list[Action]:
        self._count += 1
        if self._count < _MAX_WARNINGS:
            return [Warn(code, message)]
        return [Warn(code, f"{message} (no more warnings follow)")] if self._count == _MAX_WARNINGS else []


INITIALIZE_ID = "youbencha-initialize"
INTERRUPT_ID = "youbencha-interrupt"
RequestId = str | int
Outgoing = dict[str, Any]


class ControlRequest(NamedTuple):
    """A request of the agent to the harness."""

    id: RequestId | None
    subtype: str
    body: Record
    flat: bool


def read_request(message: Record) -> ControlRequest:
    flat = "request" not in message
    body = message if flat else as_mapping(message.get("request"))
    return ControlRequest(_request_id(message.get("request_id")), as_str(body.get("subtype")) or "", body, flat)


def answers_initialize(message: Record) -> bool:
    """Return whether a `control_response` answers our `initialize`, even with a refusal."""
    if "response" not in message:
        return message.get("subtype") == "initialize"
    return as_mapping(message.get("response")).get("request_id") == INITIALIZE_ID


def content_blocks(message: Record) -> list[Record]:
    """Return the content blocks of an `assistant` or `user` message."""
    return as_records(as_mapping(message.get("message")).get("content"))


def _request_id(value: object) -> RequestId | None:
    return value if isinstance(value, str) or type(value) is int else None


def initialize_request() -> Outgoing:
    return _request(INITIALIZE_ID, {"subtype": "initialize", "hooks": None})


def interrupt_request() -> Outgoing:
    return _request(INTERRUPT_ID, {"subtype": "interrupt"})


def prompt_message(prompt: str, *, flat: bool) -> Outgoing:
    """Build the message with the task.

    Without `message.role` Claude Code exits; a flat client looks for `content` at the top.
    """
    content = [{"type": "text", "text": prompt}]
    message: Outgoing = {
        "type": "user",
        "message": {"role": "user", "content": content},
        "session_id": "",
        "parent_tool_use_id": None,
    }
    return {**message, "content": content} if flat else message


def welcome_answer(request: ControlRequest) -> Outgoing:
    """Return the answer to a client that starts the handshake itself."""
    return _answer(request, {"apiVersion": "1", "permissionMode": "default"})


def allow_answer(request: ControlRequest, arguments: Mapping[str, Any]) -> Outgoing:
    """Allow a call. The CLI executes `updatedInput`, so it is the unchanged input of the request.

    An input that was masked on its way here is left out: 2.1.325 then uses its own, 1.0.128 and 2.0.62 refuse the call.
    """
    if request.flat:
        return _answer(request, {"allowed": True})
    unchanged = {} if MASK.decode() in repr(arguments) else {"updatedInput": dict(arguments)}
    return _answer(request, {"behavior": "allow", **unchanged})


def deny_answer(request: ControlRequest, reason: str) -> Outgoing:
    if request.flat:
        return _answer(request, {"allowed": False, "reason": reason})
    return _answer(request, {"behavior": "deny", "message": reason})


def refuse_answer(request: ControlRequest) -> Outgoing:
    """Reject an unsupported request. Without an answer, some versions wait forever."""
    error = f"not supported: {request.subtype or 'a control request without a subtype'}"
    if request.flat:
        return _answer(request, {"error": error})
    return {"type": "control_response", "response": {"subtype": "error", "request_id": request.id, "error": error}}


def _request(request_id: str, body: Outgoing) -> Outgoing:
    return {"type": "control_request", "request_id": request_id, "request": body}


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
_MAX_QUOTED_RESULT = 500

_ENDINGS = {
    "error_max_turns": "the agent reached its limit of turns",
    "error_max_budget_usd": "the agent reached its own budget",
    "error_during_execution": "the agent failed during its work",
}


class ResultVerdict(NamedTuple):
    ok: bool
    reason: str


def result_verdict(result: Record) -> ResultVerdict:
    """Judge a result. A missing `subtype` or `is_error` is not an error, an invalid `is_error` is one.

    API errors have the subtype "success".
    """
    subtype = result.get("subtype")
    wrong = result.get("is_error", False) is not False
    if subtype in (None, "success") and not wrong:
        return ResultVerdict(True, COMPLETED)
    if subtype in (None, "success"):
        return ResultVerdict(False, _describe("the agent reported an error", result))
    return ResultVerdict(
        False, _describe(_ENDINGS.get(str(subtype), f"the agent ended with {str(subtype)[:80]}"), result)
    )


def _describe(failure: str, result: Record) -> str:
    listed = as_strs(result.get("errors")) or (as_str(result.get("result")) or "",)
    details = " ".join(" ".join(listed).split())
    return f"{failure}: {details[:_MAX_QUOTED_RESULT]}" if details else failure


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
        parent = as_str(message.get("parent_tool_use_id"))
        answer = as_str(as_mapping(message.get("message")).get("id"))
        stale = [key for key, call in self._calls.items() if call.parent == parent and call.message != answer]
        for key in stale:
            del self._calls[key]
        self._call_without_id = False
        made = [as_str(block.get("id")) for block in content_blocks(message) if block.get("type") == "tool_use"]
        self._calls |= {call: _Call(parent, answer) for call in made if call is not None}

    def _on_user(self, message: Record) -> None:
        results = [block for block in content_blocks(message) if block.get("type") == "tool_result"]
        for block in results:
            self._calls.pop(as_str(block.get("tool_use_id")) or "", None)
        if results:
            self._call_without_id = False
            if message.get("parent_tool_use_id") is None:
                self._end_unreported = False  # the next request of this turn informs the model

    def _on_system(self, message: Record, now: float) -> None:
        subtype, name = message.get("subtype"), as_str(message.get("task_id"))
        if subtype == "init":
            self._turns_begun += 1
            self.in_turn, self.expecting_since, self._end_unreported = True, None, False
        elif subtype == "background_tasks_changed":
            self._set_tasks({key: task for key, task in map(_read_task, as_records(message.get("tasks"))) if key}, now)
        elif name is None:
            return
        elif subtype == "task_started" and message.get("is_backgrounded") is not False:
            self._tasks[name] = _read_task(message)[1]
        elif subtype == "task_notification" or (
            subtype == "task_updated" and as_str(as_mapping(message.get("patch")).get("status")) in _ENDED
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


def _read_task(message: Record) -> tuple[str, _Task]:
    kind = as_str(message.get("task_type")) or COMMAND
    return as_str(message.get("task_id")) or "", _Task(kind, as_str(message.get("tool_use_id")))
