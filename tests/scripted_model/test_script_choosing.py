"""Which answer a request gets."""

from __future__ import annotations

from typing import Any

import pytest

from talking import request
from youbencha.gateway.wires import Action
from youbencha.scripted_model import parse_script
from youbencha.scripted_model.answering import ScriptedProgress
from youbencha.scripted_model.anthropic import ScriptedAnthropic
from youbencha.scripted_model.wire import HttpRequest

WIRE = ScriptedAnthropic()


def came(headers: dict[str, str], body: Any) -> HttpRequest:
    return HttpRequest("/v1/messages", {}, headers, body)


def chosen(script: str, *bodies: dict[str, Any], headers: dict[str, str] | None = None) -> list[Any]:
    """(conversation, turn) of each answer; a text for one on the side or for none."""
    progress = ScriptedProgress(parse_script(script))
    result: list[Any] = []
    for body in bodies:
        choice = progress.choose(WIRE.read(came(headers or {}, body)))
        if choice.answer is None:
            result.append(f"exhausted after {choice.given}")
        else:
            result.append("side" if choice.turn is None else (choice.conversation, choice.turn))
    return result


MAIN = request()
SIDE = request(tools=None, max_tokens=1)


def test_each_request_takes_the_next_turn_until_they_run_out() -> None:
    script = "turns: [{text: a}, {text: b, times: 2}, {text: c}]"
    assert chosen(script, *[MAIN] * 6) == [
        (None, 0), (None, 1), (None, 1), (None, 2), "exhausted after 4", "exhausted after 4",
    ]  # fmt: skip


def test_the_last_turn_can_be_repeated() -> None:
    script = "after: repeat-last\nturns: [{text: a}, {text: b}]"
    assert chosen(script, *[MAIN] * 4) == [(None, 0), (None, 1), (None, 1), (None, 1)]


def test_a_turn_repeated_forever() -> None:
    script = "turns: [{text: a}, {text: b, times: forever}]"
    assert chosen(script, *[MAIN] * 30)[1:] == [(None, 1)] * 29


@pytest.mark.parametrize("tools", [None, []])
def test_requests_without_tools_take_no_turn(tools: Any) -> None:
    side = request(tools=tools)
    assert chosen("turns: [{text: a}, {text: b}]", side, MAIN, side, side, MAIN) == [
        "side", (None, 0), "side", "side", (None, 1),
    ]  # fmt: skip


def test_tools_can_be_optional() -> None:
    script = "tools_optional: true\nturns: [{text: a}, {text: b}]"
    assert chosen(script, SIDE, MAIN) == [(None, 0), (None, 1)]


@pytest.mark.parametrize(("option", "expected"), [("", [0, 0]), ("across_sessions: true\n", [0, 1])])
def test_turns_of_all_sessions(option: str, expected: list[int]) -> None:
    script = f"{option}turns: [{{text: a}}, {{text: b}}]"
    one, another = (request(metadata={"user_id": f"user_x_session_{number}"}) for number in (1, 2))
    assert chosen(script, one, another) == [(None, turn) for turn in expected]


CONVERSATIONS = """
turns: [{text: main}]
conversations:
- when: {system_contains: You review}
  turns: [{text: r1}, {text: r2}]
- when: {prompt_contains: SUB, model: "*haiku*"}
  turns: [{text: s1}]
"""


def test_conversations_are_matched_in_order_and_counted_separately() -> None:
    review = request(system=[{"type": "text", "text": "Hello. You review code."}])
    sub = request(
        model="claude-haiku-9",
        messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "a SUB"}]}],
    )
    only_half = request(messages=sub["messages"])
    assert chosen(CONVERSATIONS, review, sub, only_half, review, review) == [
        (0, 0), (1, 0), (None, 0), (0, 1), "exhausted after 2",
    ]  # fmt: skip


def test_only_the_first_user_message_is_the_prompt() -> None:
    later = request(
        model="haiku",
        messages=[
            {"role": "user", "content": "start"},
            {"role": "assistant", "content": "SUB"},
            {"role": "user", "content": "SUB"},
        ],
    )
    assert chosen(CONVERSATIONS, later) == [(None, 0)]


def test_any_message_of_the_user() -> None:
    script = "turns: [{text: main}]\nconversations: [{when: {user_contains: SUB}, turns: [{text: s1}]}]"
    said = [{"role": "user", "content": "start"}, {"role": "assistant", "content": "SUB"}]
    later = [*said, {"role": "user", "content": [{"type": "text", "text": "a SUB"}]}]
    assert chosen(script, request(messages=said), request(messages=later)) == [(None, 0), (0, 0)]


def test_session_of_a_request() -> None:
    def session_of(headers: dict[str, str], more: dict[str, Any]) -> str:
        return WIRE.read(came(headers, request(**more))).session

    body = {"metadata": {"user_id": "user_1_session_2"}}
    keyed = {"x-api-key": "k1"}
    assert session_of({"x-claude-code-session-id": "s", **keyed}, body) == "s"
    assert session_of(keyed, body) == "user_1_session_2"
    assert session_of(keyed, {}) == "k1"
    assert session_of({"authorization": "Bearer k2"}, {"metadata": {"user_id": 5}}) == "k2"
    assert session_of({}, {"metadata": None}) == ""


@pytest.mark.parametrize(
    ("system", "prompt", "cwd"),
    [
        ("<env>\nWorking directory: /a/b c\nPlatform: linux", "", "/a/b c"),
        ("environment: \n - Primary working directory: /x\n - Is a git repository: false", "", "/x"),
        ("Keep your working directory: do not cd.", "<system-reminder>\nWorking directory: /r\n", "/r"),
        ("Working directory: /system\n", "Working directory: /prompt\n", "/system"),
        ("- Primary working directory: C:\\w\r\n", "", "C:\\w"),
        ("nothing", "nothing", None),
    ],
)
def test_working_directory_of_a_request(system: str, prompt: str, cwd: str | None) -> None:
    body = request(system=system, messages=[{"role": "user", "content": prompt}])
    assert WIRE.read(came({}, body)).cwd == cwd


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (None, "the request body must be a JSON object"),
        ([], "the request body must be a JSON object"),
        (request(model=None), "model: Field required"),
        (request(max_tokens=True), "max_tokens: must be a whole number"),
        (request(messages="hi"), "messages: must be a list"),
        (request(messages=[]), "messages: at least one message is required"),
        (request(), None),
    ],
)
def test_a_body_that_the_api_would_refuse(body: Any, wrong: str | None) -> None:
    assert WIRE.problem_with(came({}, body), Action.GENERATE) == wrong
