"""With a tool policy, every fault in asking ends in a denial or in the end of the agent."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from control_talk import (
    INITIALIZED,
    PATIENCE,
    PROMPT,
    RESULT,
    Message,
    hear,
    may_i,
    over,
    running,
    says,
    sent,
    tool_result,
    tool_use,
)

from youbencha.control.machine import Machine, State, Warn
from youbencha.control.policy import PolicyDecision, ToolPolicy

NO_RM = ToolPolicy(deny=("Bash(rm *)",))
REFUSED: Message = {
    "type": "control_response",
    "response": {"subtype": "error", "request_id": INITIALIZED["response"]["request_id"], "error": "no"},
}


def begun(policy: ToolPolicy = NO_RM) -> Machine:
    machine = Machine(PROMPT, now=0.0, timeouts=PATIENCE, policy=policy)
    machine.connected(0.0)
    return machine


def failed(call: str) -> Message:
    block = {"type": "tool_result", "tool_use_id": call, "is_error": True, "content": "no such tool"}
    return {"type": "user", "message": {"content": [block]}}


def test_an_agent_that_does_not_answer_gets_no_task() -> None:
    machine = begun()
    actions = machine.tick(PATIENCE.handshake_s)
    assert (machine.state, sent(actions)) == (State.FAILED, [])
    assert "initialize was not answered within" in (machine.failure or "")


def test_an_agent_that_refuses_gets_no_task() -> None:
    machine = begun()
    assert sent(machine.received(REFUSED, 1.0)) == []
    assert machine.state is State.FAILED
    assert "initialize was refused" in (machine.failure or "")


def test_without_a_policy_both_get_the_task() -> None:
    for machine in (begun(ToolPolicy(root="/work")), begun(ToolPolicy())):
        assert [message["type"] for message in sent(machine.received(REFUSED, 1.0))] == ["user"]
    machine = begun(ToolPolicy(root="/work"))
    actions = machine.tick(PATIENCE.handshake_s)
    assert [message["type"] for message in sent(actions)] == ["user"]
    assert isinstance(actions[0], Warn)


def test_a_denied_tool_that_ran_without_a_request_ends_the_session() -> None:
    machine = running(policy=NO_RM)
    hear(machine, tool_use("t1", command="rm -r src"))
    (ended,) = over(machine.received(tool_result("t1"), 1.0))
    assert not ended.ok
    assert "without asking, though Bash is denied by the rule Bash(rm *)" in ended.reason


RM = tool_use("t1", command="rm x")
MAY_I_RM = may_i("r1", "Bash", {"command": "rm x"}, tool_use_id="t1")


@pytest.mark.parametrize(
    "heard",
    [
        [tool_use("t1", command="ls"), tool_result("t1")],  # would have been allowed
        [RM, failed("t1")],  # was not done
        [RM, MAY_I_RM, tool_result("t1")],  # asked, and denied
        [MAY_I_RM, RM, tool_result("t1")],
        [may_i("r1"), RM, tool_result("t1")],  # does not name its calls
        [tool_result("t7"), says("hm")],
    ],
)
def test_other_tool_uses_do_not_end_the_session(heard: list[Message]) -> None:
    machine = running(policy=NO_RM)
    hear(machine, *heard)
    assert machine.state is State.RUNNING
    hear(machine, RESULT)
    assert (machine.state, machine.failure) == (State.DONE, None)


class Broken(ToolPolicy):
    def decide(self, tool: str, given: Mapping[str, object]) -> PolicyDecision:
        raise RecursionError(tool)


def test_a_policy_that_fails_denies() -> None:
    machine = running(policy=Broken(deny=("Bash",)))
    (answer,) = sent(machine.received(may_i("r1"), 1.0))
    assert answer["response"]["response"] == {
        "behavior": "deny",
        "message": "it could not be decided: RecursionError",
    }


def test_a_slow_model_is_not_silence() -> None:
    asked = True
    machine = Machine(PROMPT, now=0.0, timeouts=PATIENCE, awaits_model=lambda: asked)
    machine.connected(0.0)
    machine.received(INITIALIZED, 0.0)
    for now in (300.0, 600.0, 900.0):
        assert machine.deadline == now
        assert machine.tick(now) == []
    asked = False
    assert over(machine.tick(1200.0)) == [(False, "the agent sent no message for 300 s")]
