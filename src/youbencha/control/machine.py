"""The agent control protocol as a state machine. No I/O: messages and the time go in, actions come out.

```
WAITING --connected--> INITIALIZING --prompt sent--> RUNNING --last result--> DONE
```
and FAILED from anywhere: no agent connected, it went silent, it left without a result. DONE means that a result came,
good or bad: `SessionEnded.ok` and `failure` say which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from youbencha.control import messages
from youbencha.control.activity import Activity, UnapprovedCalls
from youbencha.control.messages import ControlRequest, result_verdict
from youbencha.control.policy import ALLOW_ALL, PolicyDecision, ToolPolicy
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
    """A tool call was allowed or denied; the answer itself is a `Send` of its own."""

    call_id: str | None
    tool: str
    allowed: bool
    reason: str


class Warn(NamedTuple):
    code: str
    text: str


class SessionEnded(NamedTuple):
    """Said once, and last: close down now. `reason` is for people."""

    ok: bool
    reason: str


Action = Send | Decided | Warn | SessionEnded


class Timeouts(NamedTuple):
    """How long to wait, and for what."""

    connect_s: float = 60
    """For an agent to connect."""
    handshake_s: float = 20
    """For an answer to `initialize`; a cold start took 15 s. Then the prompt goes out: not every client answers."""
    silence_s: float = 300
    """For the next message. A tool at work is not silence."""
    interrupt_s: float = 2
    """For a result after `interrupt`: agents answer it in 0.1 s, and the kill must not wait."""
    background_s: float = 600
    """For commands left in the background once the agent said it was done. As long as Claude Code's own print mode."""
    more_results_s: float = 10
    """For the turn in which the agent looks at background work that has ended. It begins within milliseconds."""


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
    """One session. Every method takes the time, of any clock that only goes forward."""

    def __init__(
        self,
        prompt: str,
        *,
        policy: ToolPolicy = ALLOW_ALL,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        now: float,
        awaits_model: Callable[[], bool] = lambda: False,
    ) -> None:
        """`awaits_model`: whether a request of the agent to its model is known to be under way."""
        self._prompt = prompt
        self._policy = policy
        self._timeouts = timeouts
        self._awaits_model = awaits_model
        self._unapproved = UnapprovedCalls(policy)
        self._state = State.WAITING
        self._since = self._heard = self._result_at = now
        self._activity = Activity()
        self._answered: set[messages.Identity] = set()
        self._interrupted: tuple[float, str] | None = None
        self._result: Record | None = None
        self._failure: str | None = None
        self._warned = LimitedWarnings()
        self._connected_at: float | None = None
        self._ended: tuple[float, str] | None = None

    @property
    def state(self) -> State:
        return self._state

    @property
    def deadline(self) -> float | None:
        """When `tick` is due, if nothing else happens before. None: nothing is waited for, or a tool is at work."""
        wait = self._wait()
        return wait.until if wait else None

    @property
    def result(self) -> Mapping[str, Any] | None:
        """The last one."""
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
        self._since = self._heard = self._connected_at = now
        return [Send(messages.initialize())]

    def received(self, message: Mapping[str, Any], now: float) -> list[Action]:
        if message.get("type") == "result":
            self._result, self._result_at = message, now
        if self._is_over:
            return []
        actions = self.connected(now)
        self._heard = now
        self._activity.note(message, now)
        actions += self._react(message, now)
        if not self._is_over and (broken := self._unapproved.found(message)):
            return [*actions, self._over(False, f"the agent used a tool without asking, though {broken}", now)]
        if self._result is not None and not self._is_over:
            actions += self._after_result(message, now)
        return actions

    def malformed(self, text: str, now: float) -> list[Action]:
        if self._is_over:
            return []
        self._heard = now
        return self._warned(MALFORMED, f"skipped what is not a message: {text[:_QUOTED]!r}")

    def interrupt(self, reason: str, now: float) -> list[Action]:
        """Before the prompt is out there is nothing to interrupt, nor a result to wait for."""
        if self._is_over or self._interrupted:
            return []
        if self._state is not State.RUNNING:
            return [self._over(False, reason, now)]
        self._interrupted = (now, reason)
        return [Send(messages.interrupt())]

    def disconnected(self, now: float) -> list[Action]:
        if self._is_over:
            return []
        if self._interrupted:
            return self._give_up_interrupted(now)
        if self._result is not None:
            return self._over_by_result(now)
        what = "before it was given its task" if self._state is not State.RUNNING else "without a result"
        return [self._over(False, f"the agent left {what}", now)]

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
            return _Wait(self._interrupted[0] + timeouts.interrupt_s, self._give_up_interrupted)
        if self._state is State.WAITING:
            return _Wait(self._since + timeouts.connect_s, self._connect_timed_out)
        if self._state is State.INITIALIZING:
            return _Wait(self._since + timeouts.handshake_s, self._go_on_unanswered)
        if activity.in_turn or activity.agents_running:
            return None if activity.tool_running else _Wait(self._heard + timeouts.silence_s, self._silence_timed_out)
        if activity.commands_running:
            return _Wait(self._result_at + timeouts.background_s, self._leave_running)
        return _Wait((activity.expecting_since or self._result_at) + timeouts.more_results_s, self._over_by_result)

    def _react(self, message: Record, now: float) -> list[Action]:
        kind = text(message.get("type"))
        if kind == "control_request":
            return self._asked(messages.request_in(message))
        if kind == "control_response" and messages.answers_initialize(message):
            if messages.is_refusal(message) and not self._policy.allows_all:
                return self._cannot_enforce("initialize was refused", now)
            return self._begin(flat="response" not in message)
        if kind is None:
            return self._warned(MALFORMED, f"skipped a message without a type, with the keys {_keys(message)}")
        return []  # new kinds come with every release

    def _after_result(self, message: Record, now: float) -> list[Action]:
        if self._interrupted:
            return self._give_up_interrupted(now) if message.get("type") == "result" else []
        return self._over_by_result(now) if self._activity.finished else []

    def _begin(self, *, flat: bool = False) -> list[Action]:
        if self._state is not State.INITIALIZING:
            return []
        self._state = State.RUNNING
        return [Send(messages.prompt(self._prompt, flat=flat))]

    def _asked(self, request: ControlRequest) -> list[Action]:
        if request.id is None and not (request.flat and request.subtype):
            return self._warned(MALFORMED, "skipped a control request that cannot be answered: it has no request_id")
        if request.id in self._answered:
            return self._warned(REPEATED_REQUEST, f"a control request came twice: {str(request.id)[:_QUOTED]}")
        if request.id is not None:
            self._answered.add(request.id)
        if request.subtype == "can_use_tool":
            return self._decide(request)
        if request.subtype == "initialize":
            return [Send(messages.welcome(request)), *self._begin(flat=request.flat)]
        warned = self._warned(UNKNOWN_REQUEST, f"refused a control request: {request.subtype[:_QUOTED]!r}")
        return [Send(messages.refuse(request)), *warned]

    def _decide(self, request: ControlRequest) -> list[Action]:
        tool = text(request.body.get("tool_name", request.body.get("toolName")))
        call = text(request.body.get("tool_use_id"))  # 1.0.128 does not name it
        given = request.body.get("input")
        if self._interrupted:
            decision = PolicyDecision(False, "the session is being stopped")
        else:
            decision = self._policy.decide_request(tool, given)
        allowed, reason = decision
        self._activity.decided(call, allowed=allowed)
        self._unapproved.asked(call)
        answer = messages.allow(request, mapping(given)) if allowed else messages.deny(request, reason)
        named = call if call is not None or request.id is None else str(request.id)
        return [Send(answer), Decided(named, tool or "(unnamed)", allowed, reason)]

    def _connect_timed_out(self, now: float) -> list[Action]:
        return [self._over(False, f"no agent connected within {self._timeouts.connect_s:g} s", now)]

    def _go_on_unanswered(self, now: float) -> list[Action]:
        waited = f"initialize was not answered within {self._timeouts.handshake_s:g} s"
        if not self._policy.allows_all:
            return self._cannot_enforce(waited, now)
        return [*self._warned(NO_HANDSHAKE, f"{waited}; the prompt was sent without it"), *self._begin()]

    def _cannot_enforce(self, why: str, now: float) -> list[Action]:
        return [self._over(False, f"{why}: the agent would use tools without asking, and there is a policy", now)]

    def _silence_timed_out(self, now: float) -> list[Action]:
        if self._awaits_model():  # it may think for as long as it likes
            self._heard = now
            return []
        return [self._over(False, f"nothing was heard from the agent for {self._timeouts.silence_s:g} s", now)]

    def _give_up_interrupted(self, now: float) -> list[Action]:
        assert self._interrupted is not None
        return [self._over(False, self._interrupted[1], now)]

    def _leave_running(self, now: float) -> list[Action]:
        left = f"{self._activity.commands_running} of its commands"
        words = f"{left} still ran in the background {self._timeouts.background_s:g} s after the agent was done"
        return [*self._warned(LEFT_RUNNING, words), *self._over_by_result(now)]

    def _over_by_result(self, now: float) -> list[Action]:
        assert self._result is not None
        return [self._over(*result_verdict(self._result), now)]

    def _over(self, ok: bool, reason: str, now: float) -> SessionEnded:
        self._state = State.FAILED if self._result is None else State.DONE
        self._failure = None if ok else reason
        self._ended = (now, reason)
        return SessionEnded(ok, reason)


def _keys(message: Record) -> str:
    return ", ".join(sorted(str(key) for key in message))[:_QUOTED] or "(none)"


class LimitedWarnings:
    """Warns up to a limit: a client that sends nothing but noise does not fill the log."""

    def __init__(self) -> None:
        self._given = 0

    def __call__(self, code: str, words: str) -> list[Action]:
        self._given += 1
        if self._given < _MOST_WARNINGS:
            return [Warn(code, words)]
        return [Warn(code, f"{words} (no more warnings follow)")] if self._given == _MOST_WARNINGS else []
