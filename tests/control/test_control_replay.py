"""Captured sessions of the real CLI, replayed: our messages against the recorded ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from control_talk import PATIENCE, Message, Recorded, over, sent

from youbencha.adapters.claude_code.control import Action, ControlProtocol, Decided, SessionEnded, State

TRANSCRIPTS = Path(__file__).parent.parent / "data" / "transcripts"
VERSIONS = ("1.0.128", "2.1.30", "2.1.197", "2.1.325")
TO_CLI, TO_HOST = "host->cli", "cli->host"
INIT_ID = "init-1"
"""What the recorded host called its `initialize`."""


class Line(NamedTuple):
    at: float
    direction: str
    message: Message


class Replay(NamedTuple):
    session: Recorded
    actions: list[Action]
    recorded: list[Message]
    """What the host of that day sent."""


def conversation(name: str) -> Iterator[Line]:
    for text in (TRANSCRIPTS / f"{name}.bidi.ndjson").read_text(encoding="utf-8").splitlines():
        record = json.loads(text)
        yield Line(record["t"], record["dir"], record["msg"])


def renamed(message: Message) -> Message:
    """The answer to their `initialize` as if it were to ours."""
    text = json.dumps(message).replace(f'"{INIT_ID}"', '"youbencha-initialize"')
    found: Message = json.loads(text)
    return found


def replay(name: str, *, approves: bool = True, prompt: str = "write hello") -> Replay:
    machine = ControlProtocol(prompt, now=0.0, approves=approves)
    session = Recorded(machine)
    actions, recorded = machine.connected(0.0), []
    for line in conversation(name):
        if line.direction == TO_CLI:
            recorded.append(line.message)
            if line.message.get("request", {}).get("subtype") == "interrupt":
                actions += machine.interrupt("the budget is spent", line.at)
        else:
            actions += session.received(renamed(line.message), line.at)
    return Replay(session, actions, recorded)


def shape(value: Any) -> Any:
    """Keys and constants; what is particular to one session is left out."""
    if not isinstance(value, dict):
        return type(value).__name__ if isinstance(value, str) else value
    fixed = ("type", "subtype", "role", "behavior", "updatedInput")
    return {key: inner if key in fixed else shape(inner) for key, inner in value.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_allowed(version: str) -> None:
    played = replay(f"control_allow-{version}")

    assert [shape(message) for message in sent(played.actions)] == [shape(message) for message in played.recorded]
    assert over(played.actions) == [SessionEnded(True, "completed")]
    assert [(action.tool, action.allowed) for action in played.actions if isinstance(action, Decided)] == [
        ("Bash", True)
    ]
    assert played.session.machine.state is State.DONE


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_to_the_question(version: str) -> None:
    played = replay(f"control_allow-{version}")
    asked = [line.message for line in conversation(f"control_allow-{version}") if "request" in line.message]

    answer = sent(played.actions)[-1]["response"]

    assert answer["request_id"] == asked[-1]["request_id"]
    assert answer["response"]["updatedInput"] == asked[-1]["request"]["input"]


@pytest.mark.parametrize("version", VERSIONS)
def test_denied(version: str) -> None:
    played = replay(f"control_deny-{version}", approves=False)

    assert [shape(message) for message in sent(played.actions)] == [shape(message) for message in played.recorded]
    assert played.session.sidecar["tools_used"] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_interrupted(version: str) -> None:
    """That host sent no `initialize`: ours is not answered, and the prompt is sent after the timeout."""
    name = f"control_interrupt-{version}"
    machine = ControlProtocol("go", now=-10.0, timeouts=PATIENCE)
    session = Recorded(machine)
    actions = [*machine.connected(-10.0), *machine.tick(-5.0)]
    for line in conversation(name):
        if line.direction == TO_HOST:
            actions += session.received(line.message, line.at)
        elif line.message["type"] == "control_request":
            assert machine.deadline is None, "a command is running"
            actions += machine.interrupt("the budget is spent", line.at)

    asked = [line.message for line in conversation(name) if line.direction == TO_CLI]
    assert [shape(message) for message in sent(actions)[1:]] == [shape(message) for message in asked]
    assert over(actions) == [SessionEnded(False, "the budget is spent")]
    assert (machine.state, machine.failure) == (State.DONE, "the budget is spent")
    assert session.sidecar["partial"] is False


def printed(name: str) -> list[Message]:
    """What the CLI wrote in print mode: the same messages, without the control protocol."""
    lines = (TRANSCRIPTS / f"{name}.ndjson").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def is_result(message: Message) -> bool:
    return message.get("type") == "result"


PRINTED = sorted(
    path.name.removesuffix(".ndjson")
    for path in TRANSCRIPTS.glob("*.ndjson")
    if not path.name.endswith(".bidi.ndjson") and not path.name.startswith("noauth_text")
)
WITH_RESULT = [name for name in PRINTED if any(map(is_result, printed(name)))]


def fed(name: str) -> tuple[Recorded, list[Action]]:
    session = Recorded(ControlProtocol("go", now=0.0))
    actions = session.machine.connected(0.0)
    for message in printed(name):
        actions += session.received(message, 1.0)
    return session, [*actions, *session.machine.disconnected(2.0)]


@pytest.mark.parametrize("name", WITH_RESULT)
def test_the_last_result_of_a_session_counts(name: str) -> None:
    last = [message for message in printed(name) if is_result(message)][-1]
    good = last["subtype"] == "success" and not last["is_error"]

    session, actions = fed(name)

    machine = session.machine
    assert machine.result == last
    assert [end.ok for end in over(actions)] == [good]
    assert machine.state is State.DONE
    assert (machine.failure is None) == good


@pytest.mark.parametrize("name", WITH_RESULT)
def test_the_sidecar_matches_the_result(name: str) -> None:
    last = [message for message in printed(name) if is_result(message)][-1]
    keys = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    said = [sum(usage[key] for usage in last["modelUsage"].values()) for key in keys]

    session, _ = fed(name)

    found = session.sidecar
    counted = [found[f"{kind}_tokens"] for kind in ("input", "output", "cache_read", "cache_creation")]
    if found["partial"] or not any(said):  # a call was repeated and forgotten (2.1.30, 1.0.128); none got through
        assert all((mine or 0) >= total for mine, total in zip(counted, said, strict=True))
        return
    assert counted == said
    assert found["total_cost_usd"] == last["total_cost_usd"]
    assert found["session_id"] == last["session_id"]


@pytest.mark.parametrize("name", sorted(set(PRINTED) - set(WITH_RESULT)))
def test_a_session_without_a_result_has_failed(name: str) -> None:
    session, actions = fed(name)

    assert over(actions) == [SessionEnded(False, "the agent disconnected before it got its task")]
    assert session.machine.state is State.FAILED
    assert session.sidecar["partial"] is True


@pytest.mark.parametrize("name", ["bg20-2.1.325", "subagent-2.1.325"])
def test_the_session_is_over_with_its_second_result(name: str) -> None:
    """Without a message that the agent has exited."""
    machine = ControlProtocol("go", now=0.0)
    ends = []
    for message in printed(name):
        ends += over(machine.received(message, 1.0))
        assert bool(ends) == (message == machine.result and message.get("result_index") == 1)

    assert ends == [SessionEnded(True, "completed")]
