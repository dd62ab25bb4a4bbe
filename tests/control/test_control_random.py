"""Any messages in any order: nothing raises, and the machine's invariants hold."""

from __future__ import annotations

import json
from typing import Any

from control_talk import (
    FAILED_RESULT,
    INIT,
    INITIALIZED,
    RESULT,
    Message,
    Recorded,
    ended,
    may_i,
    says,
    started,
    tool_result,
    tool_use,
    updated,
)
from hypothesis import given
from hypothesis import strategies as st

from youbencha.adapters.claude_code.control import Action, ControlProtocol, Send, SessionEnded, State

ORDER = [State.WAITING, State.INITIALIZING, State.RUNNING, State.DONE, State.FAILED]
NAMES = st.sampled_from(["t1", "t2", "b1", "r1", "r2", "youbencha-initialize"])

REAL = st.one_of(
    st.sampled_from([INITIALIZED, INIT, RESULT, FAILED_RESULT, says("hello")]),
    st.builds(tool_use, NAMES, parent=st.none() | NAMES, answer=NAMES),
    st.builds(tool_result, NAMES, parent=st.none() | NAMES),
    st.builds(may_i, NAMES, st.sampled_from(["Bash", "Write", "mcp__a__b"])),
    st.builds(may_i, NAMES, tool_use_id=NAMES),
    st.builds(started, NAMES, st.sampled_from(["local_bash", "local_agent"]), background=st.none() | st.booleans()),
    st.builds(ended, NAMES),
    st.builds(updated, NAMES, st.sampled_from(["running", "completed", []])),
    st.builds(lambda tasks: {"type": "system", "subtype": "background_tasks_changed", "tasks": tasks}, st.just([])),
    st.sampled_from([{"type": "keep_alive"}, {"type": "control_cancel_request", "request_id": "r1"}]),
)
FLAT = st.one_of(
    st.sampled_from(["initialize", "can_use_tool", "hook_callback"]).map(
        lambda subtype: {"type": "control_request", "subtype": subtype, "toolName": "Bash", "input": {}}
    ),
    st.just({"type": "result", "result": "Done.", "usage": {"input_tokens": 3}}),
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(["", "success", "init", "t1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "id", "message"]), inner),
    max_leaves=3,
)


@st.composite
def broken(draw: st.DrawFn) -> Message:
    """A good message with something else at one of its keys, however deep."""
    message: Message = json.loads(json.dumps(draw(REAL | FLAT)))
    holder: Any = message
    while True:
        key = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        inner = holder[key]
        if not (isinstance(inner, dict | list) and inner) or draw(st.booleans()):
            holder[key] = draw(ANYTHING)
            return message
        holder = inner


MESSAGES = st.one_of(REAL, FLAT, broken(), st.dictionaries(st.sampled_from(["type", "request", "x"]), ANYTHING))
STEPS = st.one_of(
    MESSAGES.map(lambda message: ("received", message)),
    MESSAGES.map(lambda message: ("received", message)),
    st.sampled_from(
        [("connected", None), ("disconnected", None), ("tick", None), ("interrupt", "no"), ("malformed", "{")]
    ),
)


def step(machine: ControlProtocol | Recorded, what: str, given: Any, now: float) -> list[Action]:
    method = getattr(machine, what)
    found: list[Action] = method(now) if given is None else method(given, now)
    return found


def answered_ids(actions: list[Action]) -> list[object]:
    sent = [action.message for action in actions if isinstance(action, Send)]
    answers = [message for message in sent if message["type"] == "control_response"]
    return [message.get("response", message).get("request_id") for message in answers]


def asked_id(message: Message) -> object:
    """The id of a request that must be answered: it has an id and a known shape."""
    identity = message.get("request_id")
    usable = isinstance(identity, str) or type(identity) is int
    return identity if message.get("type") == "control_request" and usable else None


@given(st.lists(st.tuples(STEPS, st.sampled_from([0.0, 1.0, 20.0, 400.0])), max_size=25), st.booleans())
def test_any_messages_in_any_order(steps: list[tuple[tuple[str, Any], float]], approves: bool) -> None:
    machine = ControlProtocol("go", now=0.0, approves=approves)
    session = Recorded(machine)
    now, seen, actions, asked = 0.0, [machine.state], [], []  # type: ignore[var-annotated]

    for (what, given_), wait in steps:
        now += wait
        was_over = machine.state in (State.DONE, State.FAILED)
        found = step(session if what == "received" else machine, what, given_, now)
        assert not (was_over and found)
        if what == "received" and not was_over and (identity := asked_id(given_)) is not None:
            asked.append(identity)
        actions += found
        seen.append(machine.state)
        json.dumps(session.sidecar)

    ends = [index for index, action in enumerate(actions) if isinstance(action, SessionEnded)]
    assert ends == ([len(actions) - 1] if machine.state in (State.DONE, State.FAILED) else [])
    assert [ORDER.index(state) for state in seen] == sorted(ORDER.index(state) for state in seen)
    answered = [identity for identity in answered_ids(actions) if identity is not None]
    assert sorted(map(repr, answered)) == sorted(map(repr, dict.fromkeys(asked)))
    for action in actions:
        if isinstance(action, Send):
            json.dumps(action.message)


@given(st.lists(MESSAGES, max_size=20))
def test_every_session_times_out_unless_a_tool_is_running(messages: list[Message]) -> None:
    machine = ControlProtocol("go", now=0.0)
    for message in messages:
        machine.received(message, 1.0)

    for _ in range(5):
        if machine.deadline is not None:
            machine.tick(machine.deadline)

    assert machine.deadline is None
    machine.interrupt("enough", 9999.0)
    machine.tick(99999.0)
    assert machine.state in (State.DONE, State.FAILED)
