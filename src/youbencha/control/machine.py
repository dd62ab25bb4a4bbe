"""The agent control protocol as a state machine without I/O: messages and the time go in, actions come out.

```
WAITING --connected--> INITIALIZING --prompt sent--> RUNNING --last result--> DONE
```
and FAILED from any state: no agent connected, it was silent too long, it disconnected without a result. DONE means that
a result arrived, successful or not: see `SessionEnded.ok` and `failure`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from youbencha.control import messages
from youbencha.control.activity import Activity
from youbencha.control.messages import ControlRequest, result_verdict
from youbencha.json_lines import Record, mapping, text

MALFORMED = "CONTROL_MALFORMED_MESSAGE"
NO_HANDSHAKE = "CONTROL_NO_HANDSHAKE"
UNKNOWN_REQUEST = "CONTROL_UNKNOWN_REQUEST"
REPEATED_REQUEST = "CONTROL_REPEATED_REQUEST"
LEFT_RUNNING = "CONTROL_BACKGROUND_LEFT_RUNNING"
_MOST_WARNINGS = 20
_QUOTED = 200


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


class Machine:
    """One session. Every method takes the time of a monotonic clock."""

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
        self._answered: set[messages.Identity] = set()
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
        return [Send(messages.initialize())]

    def received(self, message: Mapping[str, Any], now: float) -> list[Action]:
        if message.get("type") == "result":
            self._result, self._result_at = message, now
        if self._is_over:
            return []
        actions = self.connected(now)
        self._message_at = now
        self._activity.note(message, now)
        actions += self._react(message, now)
        if self._result is not None and not self._is_over:
            actions += self._after_result(message, now)
        return actions

    def malformed(self, text: str, now: float) -> list[Action]:
        if self._is_over:
            return []
        self._message_at = now
        return self._warn(MALFORMED, f"skipped an invalid message: {text[:_QUOTED]!r}")

    def interrupt(self, reason: str, now: float) -> list[Action]:
        """Interrupt the agent. Before the prompt is sent, the session just ends."""
        if self._is_over or self._interrupted:
            return []
        if self._result is not None and self._activity.is_idle:
            return self._end_with_result(now)
        if self._state is not State.RUNNING:
            return [self._end(False, reason, now)]
        self._interrupted = (now, reason)
        return [Send(messages.interrupt())]

    def disconnected(self, now: float) -> list[Action]:
        if self._is_over:
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
    def _is_over(self) -> bool:
        return self._state in (State.DONE, State.FAILED)

    def _wait(self) -> _Wait | None:
        timeouts, activity = self._timeouts, self._activity
        if self._is_over:
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
        kind = text(message.get("type"))
        if kind == "control_request":
            return self._asked(messages.request_in(message))
        if kind == "control_response" and messages.answers_initialize(message):
            return self._begin(flat="response" not in message)  # a refusal is an answer too
        if kind is None:
            keys = ", ".join(sorted(str(key) for key in message))[:_QUOTED] or "(none)"
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
        return [Send(messages.prompt(self._prompt, flat=flat))]

    def _asked(self, request: ControlRequest) -> list[Action]:
        if request.id is None and not (request.flat and request.subtype):
            return self._warn(MALFORMED, "skipped a control request that cannot be answered: it has no request_id")
        if request.id in self._answered:
            return self._warn(REPEATED_REQUEST, f"a control request came twice: {str(request.id)[:_QUOTED]}")
        if request.id is not None:
            self._answered.add(request.id)
        if request.subtype == "can_use_tool":
            return self._decide(request)
        if request.subtype == "initialize":
            return [Send(messages.welcome(request)), *self._begin(flat=request.flat)]
        warnings = self._warn(UNKNOWN_REQUEST, f"refused a control request: {request.subtype[:_QUOTED]!r}")
        return [Send(messages.refuse(request)), *warnings]

    def _decide(self, request: ControlRequest) -> list[Action]:
        tool = text(request.body.get("tool_name", request.body.get("toolName")))
        call = text(request.body.get("tool_use_id"))  # missing in 1.0.128
        given = request.body.get("input")
        denied = self._reason_to_deny(tool, given)
        self._activity.decided(call, allowed=denied is None)
        answer = messages.allow(request, mapping(given)) if denied is None else messages.deny(request, denied)
        call_id = call if call is not None or request.id is None else str(request.id)
        return [Send(answer), Decided(call_id, tool or "(unnamed)", denied is None, denied or "every tool is allowed")]

    def _reason_to_deny(self, tool: str | None, given: object) -> str | None:
        """Return None if a call is allowed."""
        if self._interrupted:
            return "the session is being stopped"
        if not tool:
            return "the request names no tool"
        if not isinstance(given, Mapping):
            return "the tool's input is not an object"
        return None if self._approves else f"{tool} needs approval, and there is nobody to ask"

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
        if self._count < _MOST_WARNINGS:
            return [Warn(code, message)]
        return [Warn(code, f"{message} (no more warnings follow)")] if self._count == _MOST_WARNINGS else []
