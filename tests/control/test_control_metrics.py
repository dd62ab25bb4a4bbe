"""The sidecar: it is written at every end, and unknown values stay unknown."""

from __future__ import annotations

import json
from typing import Any

from control_talk import INIT, RESULT, Message, Recorded, hear, may_i, running, says, tool_use

from youbencha.adapters.claude_code.control import ControlProtocol

USAGE = {
    "input_tokens": 1000,
    "output_tokens": 1,
    "cache_read_input_tokens": 700,
    "cache_creation_input_tokens": 50,
}


def answered(
    key: str, usage: Message, *, stop: str | None = None, model: str = "m", parent: str | None = None
) -> Message:
    message: Message = {"id": key, "model": model, "content": [], "usage": usage, "stop_reason": stop}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent}


def of(*heard: Message, approves: bool = True) -> dict[str, Any]:
    session = Recorded(running(now=10, approves=approves))
    hear(session, *heard, now=12.5)
    session.machine.disconnected(13)
    return session.sidecar


def tokens(found: dict[str, Any]) -> list[int | None]:
    return [found[f"{name}_tokens"] for name in ("input", "output", "cache_read", "cache_creation")]


def test_a_completed_session() -> None:
    by_model = {
        "big": {"inputTokens": 100, "outputTokens": 20, "cacheReadInputTokens": 7, "cacheCreationInputTokens": 0},
        "small": {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 3, "cacheCreationInputTokens": 4},
    }
    result = {**RESULT, "modelUsage": by_model, "session_id": "s1"}

    found = of(INIT, tool_use("t1", "Write"), tool_use("t2", "Bash"), tool_use("t3", "Bash"), result)

    assert found == {
        "input_tokens": 101,
        "output_tokens": 22,
        "cache_read_tokens": 10,
        "cache_creation_tokens": 4,
        "turns": 2,
        "tools_used": ["Bash", "Write"],
        "duration_ms": 2500,
        "total_cost_usd": 0.5,
        "session_id": "s1",
        "model": "a-model",
        "ended": "completed",
        "partial": False,
    }
    assert json.loads(json.dumps(found)) == found


def test_without_usage_by_model_the_results_usage_counts() -> None:
    assert tokens(of(INIT, RESULT)) == [10, 3, None, None]


def test_without_a_result_the_answers_count_once_each() -> None:
    """And what 2.1.x says of their output is not believed."""
    found = of(INIT, answered("a", USAGE), answered("a", USAGE), answered("b", USAGE))

    assert tokens(found) == [2000, None, 1400, 100]
    assert (found["partial"], found["total_cost_usd"], found["turns"]) == (True, None, 2)
    assert found["ended"] == "the agent disconnected without a result"


def test_final_answers_report_their_output() -> None:
    final = {**USAGE, "output_tokens": 25}

    assert tokens(of(answered("a", USAGE), answered("a", final, stop="end_turn"))) == [1000, 25, 700, 50]


def test_partial_messages_report_the_output_too() -> None:
    start: Message = {
        "type": "stream_event",
        "event": {"type": "message_start", "message": {"id": "a", "usage": USAGE}},
    }
    end: Message = {"type": "stream_event", "event": {"type": "message_delta", "usage": {"output_tokens": 25}}}

    assert tokens(of(start, answered("a", USAGE), end)) == [1000, 25, 700, 50]


def test_a_result_of_zeros_after_real_answers() -> None:
    zeros = {**RESULT, "usage": dict.fromkeys(USAGE, 0), "total_cost_usd": 0, "modelUsage": {}}

    found = of(answered("a", USAGE, stop="end_turn"), zeros)

    assert tokens(found) == [1000, 1, 700, 50]
    assert (found["partial"], found["total_cost_usd"]) == (True, None)


def test_no_messages_means_unknown() -> None:
    found = of()

    assert tokens(found) == [None] * 4
    assert (found["turns"], found["tools_used"], found["session_id"], found["model"]) == (None, [], None, None)


def test_no_agent_connected() -> None:
    machine = ControlProtocol("x", now=0)
    machine.tick(60)

    found = Recorded(machine).sidecar

    assert (found["duration_ms"], found["ended"]) == (None, "no agent connected within 60 s")


def test_the_synthetic_model_is_ignored() -> None:
    found = of(answered("x", dict.fromkeys(USAGE, 0), model="<synthetic>"), answered("y", USAGE, model="real"))

    assert found["model"] == "real"
    assert found["turns"] == 1


def test_turns_of_all_results_and_the_cost_of_the_last() -> None:
    session = Recorded(running())
    hear(session, INIT, INIT, RESULT, {**RESULT, "num_turns": 1, "total_cost_usd": 0.75})

    found = session.sidecar

    assert (found["turns"], found["total_cost_usd"]) == (3, 0.75)


def test_a_tool_that_was_denied_was_not_used() -> None:
    denied = {**RESULT, "permission_denials": [{"tool_name": "Write", "tool_use_id": "t2"}]}

    found = of(
        tool_use("t1", "Bash"),
        may_i("r1", "Bash", tool_use_id="t1"),
        tool_use("t2", "Write"),
        tool_use("t3", "Read"),
        denied,
        approves=False,
    )

    assert found["tools_used"] == ["Read"]


def test_invalid_numbers_are_ignored() -> None:
    odd = {**RESULT, "usage": {"input_tokens": True, "output_tokens": -1}, "total_cost_usd": "1", "num_turns": 2.5}

    found = of(says("hello", answer="a"), odd)

    assert tokens(found) == [None] * 4
    assert (found["total_cost_usd"], found["turns"]) == (None, 1)


def test_the_cost_of_the_first_version() -> None:
    assert of({"type": "result", "subtype": "success", "cost_usd": 0.1, "total_cost": 0.3})["total_cost_usd"] == 0.3
