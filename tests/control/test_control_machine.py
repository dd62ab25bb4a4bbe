"""Every transition of the control protocol, with the test's own clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from control_talk import (
    FAILED_RESULT,
    INIT,
    INITIALIZED,
    PATIENCE,
    PROMPT,
    RESULT,
    Message,
    Recorded,
    ended,
    hear,
    may_i,
    over,
    running,
    says,
    sent,
    started,
    tool_result,
    tool_use,
    updated,
)

from youbencha.adapters.claude_code.control import (
    Action,
    ControlProtocol,
    Decided,
    Send,
    SessionEnded,
    State,
    Timeouts,
    Warn,
    answers_initialize,
    read_request,
)

KEEP_ALIVE: Message = {"type": "keep_alive"}
HOOK: Message = {"type": "system", "subtype": "hook_started", "hook_name": "SessionStart"}
FLAT_INITIALIZE: Message = {"type": "control_request", "subtype": "initialize", "supportedApiVersions": ["1"]}


def waiting(now: float = 0.0) -> ControlProtocol:
    return ControlProtocol(PROMPT, now=now, timeouts=PATIENCE)


def initializing(now: float = 0.0) -> ControlProtocol:
    machine = waiting(now)
    machine.connected(now)
    return machine


def interrupted(now: float = 0.0) -> ControlProtocol:
    machine = running(now)
    machine.interrupt("the budget is spent", now)
    return machine


def left_with_a_command(now: float = 0.0) -> ControlProtocol:
    machine = running(now)
    hear(machine, INIT, tool_use("t1"), started("b1"), tool_result("t1"), RESULT, now=now)
    return machine


def left_with_an_agent(now: float = 0.0) -> ControlProtocol:
    machine = running(now)
    hear(machine, INIT, tool_use("t1", "Agent"), started("a1", "local_agent"), tool_result("t1"), RESULT, now=now)
    return machine


def expecting_a_turn(now: float = 0.0) -> ControlProtocol:
    machine = left_with_a_command(now)
    machine.received(ended("b1"), now)
    return machine


Step = Callable[[ControlProtocol], list[Action]]


def hears(message: Message, now: float = 1.0) -> Step:
    return lambda machine: machine.received(message, now)


TRANSITIONS: list[tuple[str, Callable[[], ControlProtocol], Step, State, list[str]]] = [
    ("an agent connects", waiting, lambda m: m.connected(1), State.INITIALIZING, ["send control_request"]),
    ("no agent connects", waiting, lambda m: m.tick(60), State.FAILED, ["sessionended"]),
    ("not yet", waiting, lambda m: m.tick(59.9), State.WAITING, []),
    ("stopped while waiting", waiting, lambda m: m.interrupt("no", 1), State.FAILED, ["sessionended"]),
    ("closed while waiting", waiting, lambda m: m.disconnected(1), State.FAILED, ["sessionended"]),
    ("rubbish while waiting", waiting, lambda m: m.malformed("x", 1), State.WAITING, ["warn"]),
    ("a message connects too", waiting, hears(HOOK), State.INITIALIZING, ["send control_request"]),
    ("connects again", initializing, lambda m: m.connected(1), State.INITIALIZING, []),
    ("answers", initializing, hears(INITIALIZED), State.RUNNING, ["send user"]),
    ("hooks before", initializing, hears(HOOK), State.INITIALIZING, []),
    ("keep-alives before", initializing, hears(KEEP_ALIVE), State.INITIALIZING, []),
    ("never answers", initializing, lambda m: m.tick(5), State.RUNNING, ["warn", "send user"]),
    ("starts itself", initializing, hears(FLAT_INITIALIZE), State.RUNNING, ["send control_response", "send user"]),
    ("a result at once", initializing, hears(FAILED_RESULT), State.DONE, ["sessionended"]),
    ("stopped before the prompt", initializing, lambda m: m.interrupt("no", 1), State.FAILED, ["sessionended"]),
    ("closed before the prompt", initializing, lambda m: m.disconnected(1), State.FAILED, ["sessionended"]),
    ("answers again", running, hears(INITIALIZED), State.RUNNING, []),
    ("a good result", running, hears(RESULT), State.DONE, ["sessionended"]),
    ("a bad result", running, hears(FAILED_RESULT), State.DONE, ["sessionended"]),
    ("silence", running, lambda m: m.tick(300), State.FAILED, ["sessionended"]),
    ("not yet silence", running, lambda m: m.tick(299), State.RUNNING, []),
    ("closed without a result", running, lambda m: m.disconnected(1), State.FAILED, ["sessionended"]),
    ("rubbish", running, lambda m: m.malformed("Error: x", 1), State.RUNNING, ["warn"]),
    ("no type", running, hears({"a": 1}), State.RUNNING, ["warn"]),
    ("a new kind", running, hears({"type": "weather_report"}), State.RUNNING, []),
    ("a cancelled request", running, hears({"type": "control_cancel_request"}), State.RUNNING, []),
    ("may I", running, hears(may_i("r1")), State.RUNNING, ["send control_response", "decided"]),
    ("interrupt", running, lambda m: m.interrupt("no", 1), State.RUNNING, ["send control_request"]),
    ("interrupt again", interrupted, lambda m: m.interrupt("no", 1), State.RUNNING, []),
    ("may I, now", interrupted, hears(may_i("r1")), State.RUNNING, ["send control_response", "decided"]),
    ("a result of the interrupt", interrupted, hears(FAILED_RESULT), State.DONE, ["sessionended"]),
    ("no result of it", interrupted, lambda m: m.tick(2), State.FAILED, ["sessionended"]),
    ("closed by it", interrupted, lambda m: m.disconnected(1), State.FAILED, ["sessionended"]),
    ("a command goes on", left_with_a_command, lambda m: m.tick(599), State.RUNNING, []),
    ("a command never ends", left_with_a_command, lambda m: m.tick(600), State.DONE, ["warn", "sessionended"]),
    ("closed then", left_with_a_command, lambda m: m.disconnected(1), State.DONE, ["sessionended"]),
    ("a command ends", left_with_a_command, hears(ended("b1")), State.RUNNING, []),
    ("stopped then", left_with_a_command, lambda m: m.interrupt("no", 1), State.DONE, ["sessionended"]),
    (
        "an agent is stopped",
        left_with_an_agent,
        lambda m: m.interrupt("no", 1),
        State.RUNNING,
        ["send control_request"],
    ),
    ("an agent goes on", left_with_an_agent, lambda m: m.tick(299), State.RUNNING, []),
    ("an agent is stuck", left_with_an_agent, lambda m: m.tick(300), State.DONE, ["sessionended"]),
    ("the turn comes", expecting_a_turn, hears(INIT), State.RUNNING, []),
    ("the turn does not come", expecting_a_turn, lambda m: m.tick(10), State.DONE, ["sessionended"]),
    ("not yet the turn", expecting_a_turn, lambda m: m.tick(9), State.RUNNING, []),
]


def named(action: Action) -> str:
    return f"send {action.message['type']}" if isinstance(action, Send) else type(action).__name__.lower()


@pytest.mark.parametrize(
    ("make", "step", "state", "actions"), [row[1:] for row in TRANSITIONS], ids=[row[0] for row in TRANSITIONS]
)
def test_transition(make: Callable[[], ControlProtocol], step: Step, state: State, actions: list[str]) -> None:
    machine = make()

    found = step(machine)

    assert (machine.state, [named(action) for action in found]) == (state, actions)


def test_a_complete_session() -> None:
    machine = waiting()
    talk = [*machine.connected(0), *hear(machine, INITIALIZED, INIT, tool_use("t1"), now=1)]
    assert sent(talk)[0]["request"] == {"subtype": "initialize", "hooks": None}
    assert sent(talk)[1]["message"] == {"role": "user", "content": [{"type": "text", "text": PROMPT}]}

    asked = hear(machine, may_i("r1", "Bash", {"command": "ls"}, tool_use_id="t1"), now=1)
    answer = {"behavior": "allow", "updatedInput": {"command": "ls"}}
    assert sent(asked)[0]["response"] == {"subtype": "success", "request_id": "r1", "response": answer}
    assert asked[1] == Decided("t1", "Bash", True, "every tool is allowed")

    assert hear(machine, tool_result("t1"), says("Done."), RESULT, now=2) == [SessionEnded(True, "completed")]
    assert (machine.result, machine.failure) == (RESULT, None)


def test_nothing_happens_after_the_end() -> None:
    machine = running()
    hear(machine, RESULT)

    later = [machine.received(may_i("r9"), 1), machine.malformed("x", 1), machine.interrupt("no", 1)]
    later += [machine.disconnected(1), machine.tick(9999), machine.connected(1)]

    assert later == [[]] * 6


def test_a_late_result_still_counts() -> None:
    machine = interrupted()
    session = Recorded(machine)
    machine.tick(2)

    assert session.received(FAILED_RESULT, 3) == []
    assert (machine.state, machine.failure) == (State.FAILED, "the budget is spent")
    assert machine.result == FAILED_RESULT
    assert session.sidecar["total_cost_usd"] == 0.5


def test_a_denied_tool() -> None:
    asked = hear(running(approves=False), may_i("r1"))

    decided = asked[1]
    assert isinstance(decided, Decided)
    assert (decided.call_id, decided.tool, decided.allowed) == ("r1", "Bash", False)
    assert sent(asked)[0]["response"]["response"] == {"behavior": "deny", "message": decided.reason}


def test_masked_input_is_not_sent_back() -> None:
    """Output is read with secrets masked. What an answer holds is executed: better nothing than the mask."""
    [answer] = sent(hear(running(), may_i("r1", given={"command": "curl -H [REDACTED]"})))

    assert answer["response"]["response"] == {"behavior": "allow"}


def test_an_agent_that_refuses_to_initialize_gets_its_task() -> None:
    machine = ControlProtocol(PROMPT, now=0.0, timeouts=PATIENCE)
    machine.connected(0.0)
    identity = INITIALIZED["response"]["request_id"]
    refused = {"type": "control_response", "response": {"subtype": "error", "request_id": identity, "error": "no"}}

    assert [message["type"] for message in sent(machine.received(refused, 1.0))] == ["user"]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (may_i("r1", None), "the request names no tool"),
        (may_i("r1", 7), "the request names no tool"),
        (may_i("r1", "Bash", "ls"), "the tool's input is not an object"),
    ],
)
def test_a_broken_question_is_denied(asked: Message, reason: str) -> None:
    found = hear(running(), asked)

    assert sent(found)[0]["response"]["response"] == {"behavior": "deny", "message": reason}


def test_no_tool_is_allowed_once_interrupted() -> None:
    found = hear(interrupted(), may_i("r1"))

    assert sent(found)[0]["response"]["response"]["message"] == "the session is being stopped"


def test_a_question_is_answered_once() -> None:
    machine = running()

    found = hear(machine, may_i("r1"), may_i("r1"), may_i(1), may_i("1"))

    assert [message["response"]["request_id"] for message in sent(found)] == ["r1", 1, "1"]
    assert [action.code for action in found if isinstance(action, Warn)] == ["CONTROL_REPEATED_REQUEST"]


@pytest.mark.parametrize("subtype", ["hook_callback", "mcp_message", "elicitation", 7])
def test_an_unknown_request_is_refused(subtype: object) -> None:
    found = hear(running(), {"type": "control_request", "request_id": "r1", "request": {"subtype": subtype}})

    [answer] = sent(found)
    assert (answer["response"]["subtype"], answer["response"]["request_id"]) == ("error", "r1")
    assert "not supported" in answer["response"]["error"]


def test_a_running_tool_is_not_silence() -> None:
    machine = running()
    hear(machine, INIT, tool_use("t1"), now=1)
    assert machine.deadline is None
    assert machine.tick(99999) == []

    hear(machine, tool_result("t1"), now=100000)
    assert machine.deadline == 100300


@pytest.mark.parametrize(
    ("heard", "at_work"),
    [
        ([tool_use("t1"), tool_use("t2")], True),
        ([tool_use("t1"), tool_use("t2"), tool_result("t1")], True),
        ([tool_use("t1"), tool_use("t2"), tool_result("t1"), tool_result("t2")], False),
        ([tool_use("t1", "Agent"), tool_use("t2", parent="t1", answer="m9"), tool_result("t2", parent="t1")], True),
        ([tool_use("t1"), says("never mind the lost call", answer="m2")], False),
        ([tool_use("t1"), says("a subagent's words", answer="m2", parent="t0")], True),
        ([may_i("r1")], True),
        ([may_i("r1"), tool_result("somewhere")], False),
        ([may_i("r1", tool_use_id="t1")], True),
        ([may_i("r1", tool_use_id="t1"), tool_result("t1")], False),
        ([{"type": "user", "message": {"content": "a text"}}], False),
    ],
)
def test_when_a_tool_counts_as_running(heard: list[Message], at_work: bool) -> None:
    machine = running()

    hear(machine, *heard, now=7)

    assert machine.deadline == (None if at_work else 307)


def test_a_denied_tool_is_not_running() -> None:
    machine = running(approves=False)

    hear(machine, tool_use("t1", "Write"), may_i("r1", "Write", tool_use_id="t1"), now=7)

    assert machine.deadline == 307


def test_a_slow_model_is_not_silence() -> None:
    asked = True
    machine = ControlProtocol(PROMPT, now=0.0, timeouts=PATIENCE, awaits_model=lambda: asked)
    machine.connected(0.0)
    machine.received(INITIALIZED, 0.0)
    for now in (300.0, 600.0, 900.0):
        assert machine.deadline == now
        assert machine.tick(now) == []
    asked = False
    assert over(machine.tick(1200.0)) == [(False, "the agent sent no message for 300 s")]


def test_the_last_result_counts() -> None:
    machine = left_with_a_command()
    last = {**RESULT, "result": "the second turn"}

    assert hear(machine, ended("b1"), INIT, says("I have seen it"), now=5) == []
    assert machine.deadline == 305
    assert hear(machine, last, now=6) == [SessionEnded(True, "completed")]
    assert machine.result == last


def test_a_task_that_ended_while_the_model_answered_brings_another_turn() -> None:
    """It is not announced: `queued_turn_count` is 0. Seen with 2.1.325."""
    machine = running()
    hear(machine, INIT, tool_use("t1", "Agent"), started("a1", "local_agent"), tool_result("t1"), ended("a1"))

    assert hear(machine, says("Waiting for it."), RESULT, now=3) == []
    assert machine.deadline == 13
    assert over(hear(machine, INIT, says("It has come."), RESULT, now=4)) == [SessionEnded(True, "completed")]


def test_a_task_that_ended_before_a_tool_brings_no_other_turn() -> None:
    machine = running()
    agent = [tool_use("t1", "Agent"), started("a1", "local_agent"), tool_result("t1")]
    hear(machine, INIT, *agent, tool_use("t2", answer="m2"), ended("a1"), tool_result("t2"), says("Done.", answer="m3"))

    assert hear(machine, RESULT) == [SessionEnded(True, "completed")]


def test_two_results_at_the_end() -> None:
    """As 2.1.325 does in print mode."""
    machine = running()

    assert hear(machine, INIT, INIT, {**RESULT, "result": "first"}, now=1) == []
    assert machine.deadline == 11
    assert hear(machine, {**RESULT, "result": "second"}, now=1) == [SessionEnded(True, "completed")]


def test_a_subagent_in_the_foreground_is_not_background_work() -> None:
    machine = running()
    hear(machine, INIT, tool_use("t1", "Agent"), started("a1", "local_agent", background=False), tool_result("t1"))

    assert hear(machine, RESULT) == [SessionEnded(True, "completed")]


def test_a_background_subagents_command_suspends_the_deadline() -> None:
    machine = running()
    hear(machine, INIT, tool_use("t1", "Agent"), started("a1", "local_agent"), tool_result("t1"))
    hear(machine, tool_use("t2", answer="m5", parent="t1"), RESULT)
    assert machine.deadline is None

    hear(machine, {"type": "system", "subtype": "background_tasks_changed", "tasks": []}, now=50)
    assert machine.deadline == 60


def test_a_stopped_subagent_leaves_no_running_tool() -> None:
    machine = running()
    hear(machine, INIT, tool_use("t1", "Agent"), started("a1", "local_agent"), tool_result("t1"))
    hear(machine, tool_use("t2", answer="m5", parent="t1"))
    assert machine.deadline is None

    hear(machine, updated("a1", "killed"), now=50)
    assert machine.deadline == 350


@pytest.mark.parametrize(("status", "goes_on"), [("running", True), ("completed", False), ("killed", False)])
def test_task_status_updates(status: str, goes_on: bool) -> None:
    machine = left_with_a_command()

    hear(machine, updated("b1", status), now=5)

    assert machine.deadline == (600 if goes_on else 15)


def test_a_command_left_running_does_not_change_the_result() -> None:
    machine = left_with_a_command()

    warned, end = machine.tick(600)

    assert isinstance(warned, Warn)
    assert warned.code == "CONTROL_BACKGROUND_LEFT_RUNNING"
    assert end == SessionEnded(True, "completed")


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (FAILED_RESULT, "the agent reached its limit of turns: Reached 2 turns"),
        ({**RESULT, "is_error": True, "result": "API Error:\n401"}, "the agent reported an error: API Error: 401"),
        ({**RESULT, "subtype": "error_during_execution"}, "the agent failed during its work"),
        ({**RESULT, "subtype": "error_new"}, "the agent ended with error_new"),
        ({**RESULT, "is_error": "no"}, "the agent reported an error"),
        ({**RESULT, "subtype": ["x"], "errors": 7}, "the agent ended with ['x']"),
    ],
)
def test_a_failed_result_has_a_reason(result: Message, reason: str) -> None:
    machine = running()

    assert hear(machine, result) == [SessionEnded(False, reason)]
    assert (machine.state, machine.failure) == (State.DONE, reason)


def test_an_interrupt_waits_for_the_result_and_keeps_its_reason() -> None:
    machine = running(now=0)
    hear(machine, INIT, tool_use("t1"))

    [sending] = machine.interrupt("the deadline passed", 10)

    assert isinstance(sending, Send)
    assert sending.message["request"] == {"subtype": "interrupt"}
    assert machine.deadline == 12
    assert hear(machine, tool_result("t1"), FAILED_RESULT, now=10.1) == [SessionEnded(False, "the deadline passed")]


def test_the_reasons_of_failure() -> None:
    machines = [waiting(), running(), running(), initializing(), interrupted()]
    machines[0].tick(60)
    machines[1].tick(300)
    machines[2].disconnected(1)
    machines[3].disconnected(1)
    machines[4].tick(2)

    assert [machine.failure for machine in machines] == [
        "no agent connected within 60 s",
        "the agent sent no message for 300 s",
        "the agent disconnected without a result",
        "the agent disconnected before it got its task",
        "the budget is spent",
    ]


def test_warnings_about_malformed_messages_are_bounded() -> None:
    machine = running()

    warned = [action for _ in range(500) for action in machine.malformed("x" * 9999, 1)]

    assert len(warned) == 20
    assert all(isinstance(action, Warn) and len(action.text) < 400 for action in warned)


def test_the_defaults() -> None:
    assert ControlProtocol("x", now=5).deadline == 65
    assert Timeouts().silence_s == 300


FLAT_INITIALIZE: Message = {"type": "control_request", "subtype": "initialize", "supportedApiVersions": ["1"]}
FLAT_QUESTION: Message = {
    "type": "control_request",
    "subtype": "can_use_tool",
    "toolName": "Bash",
    "input": {"command": "ls"},
}
FLAT_RESULT: Message = {"type": "result", "result": "Done.", "usage": {"input_tokens": 12, "output_tokens": 4}}


def machine(*, approves: bool = True) -> ControlProtocol:
    made = ControlProtocol(PROMPT, now=0, timeouts=PATIENCE, approves=approves)
    made.connected(0)
    return made


def test_a_flat_session() -> None:
    flat = machine()
    session = Recorded(flat)

    welcome, prompt = sent(hear(session, FLAT_INITIALIZE))
    [answer] = sent(hear(session, FLAT_QUESTION))
    hear(session, FLAT_RESULT)

    assert welcome == {
        "type": "control_response",
        "subtype": "initialize",
        "apiVersion": "1",
        "permissionMode": "default",
    }
    assert prompt["content"] == prompt["message"]["content"] == [{"type": "text", "text": PROMPT}]
    assert prompt["message"]["role"] == "user"
    assert answer == {"type": "control_response", "subtype": "can_use_tool", "allowed": True}
    assert (flat.state, flat.failure) == (State.DONE, None)
    assert (session.sidecar["input_tokens"], session.sidecar["output_tokens"]) == (12, 4)
    assert session.sidecar["tools_used"] == ["Bash"]


def test_a_flat_question_gets_a_flat_denial() -> None:
    flat = machine(approves=False)

    [answer] = sent(hear(flat, {**FLAT_QUESTION, "request_id": "q7"}))

    assert answer == {
        "type": "control_response",
        "subtype": "can_use_tool",
        "request_id": "q7",
        "allowed": False,
        "reason": "Bash needs approval, and nobody can approve it",
    }


def test_an_unknown_flat_request() -> None:
    [answer] = sent(hear(machine(), {"type": "control_request", "subtype": "dance"}))

    assert answer == {"type": "control_response", "subtype": "dance", "error": "not supported: dance"}


def test_a_client_that_starts_the_handshake_in_the_real_shape() -> None:
    asked = {"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}}

    welcome, prompt = sent(hear(machine(), asked))

    assert welcome["response"]["request_id"] == "r1"
    assert welcome["response"]["subtype"] == "success"
    assert "content" not in prompt


def test_the_prompt_is_sent_once() -> None:
    once = machine()

    found = sent([*hear(once, INITIALIZED, FLAT_INITIALIZE, INITIALIZED), *once.tick(50)])

    assert [message["type"] for message in found].count("user") == 1


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        (INITIALIZED, True),
        ({"type": "control_response", "response": {"subtype": "error", "request_id": "youbencha-initialize"}}, True),
        ({"type": "control_response", "subtype": "initialize"}, True),
        ({"type": "control_response", "response": {"subtype": "success", "request_id": "another"}}, False),
        ({"type": "control_response", "response": "success"}, False),
        ({"type": "control_response", "response": None, "subtype": "initialize"}, False),
        ({"type": "control_response"}, False),
    ],
)
def test_which_answer_is_to_our_initialize(message: Message, is_one: bool) -> None:
    assert answers_initialize(message) is is_one


@pytest.mark.parametrize("identity", [None, True, 1.5, [], {}])
def test_a_request_without_a_usable_id_is_not_answered(identity: object) -> None:
    assert sent(hear(machine(), may_i(identity))) == []


def test_requests_are_recognised() -> None:
    real, flat, broken = may_i("r1"), FLAT_QUESTION, {"type": "control_request", "request_id": "r2", "request": 7}

    assert [read_request(message)[:2] for message in (real, flat, broken)] == [
        ("r1", "can_use_tool"),
        (None, "can_use_tool"),
        ("r2", ""),
    ]
    assert [read_request(message).flat for message in (real, flat, broken)] == [False, True, False]
