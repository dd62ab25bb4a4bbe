"""The formats of messages: Claude Code's, and the flat ones of the first description."""

from __future__ import annotations

import pytest
from control_talk import INITIALIZED, PATIENCE, PROMPT, Message, Recorded, hear, may_i, sent

from youbencha.adapters.claude_code.control import ControlProtocol, State, answers_initialize, read_request

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
        "reason": "Bash needs approval, and there is nobody to ask",
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
