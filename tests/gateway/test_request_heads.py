"""Which requests ask for the same, whatever differs in every trial; and which do not."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from youbencha.gateway.cassette.matching import Places
from youbencha.gateway.heads import RequestHeads
from youbencha.gateway.wires import WireName

HERE, THERE = Places((("workspace", Path("/runs/a/tree")),)), Places((("workspace", Path("/runs/b/tree")),))
SYSTEM = f"You are an agent.\n<env>\nWorking directory: /runs/a/tree\nToday's date: {date.today()}\n</env>\n"
REMINDER = "<system-reminder># claudeMd\nSpeak of the moon.</system-reminder>"
TOOL = {"name": "Bash", "description": "Runs a command in /runs/a/tree.", "input_schema": {"type": "object"}}
ANTHROPIC: dict[str, Any] = {
    "model": "claude-opus-4-5",
    "max_tokens": 32000,
    "system": [{"type": "text", "text": SYSTEM}],
    "tools": [TOOL],
    "messages": [{"role": "user", "content": [{"type": "text", "text": REMINDER}, {"type": "text", "text": "Do it."}]}],
    "metadata": {"user_id": "user_1_session_2"},
    "stream": True,
}
CHAT: dict[str, Any] = {
    "model": "gpt-5",
    "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Do it."}],
}
RESPONSES: dict[str, Any] = {"model": "gpt-5", "instructions": SYSTEM, "input": "Do it."}
GEMINI: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": SYSTEM}]},
    "contents": [{"role": "user", "parts": [{"text": "Do it."}]}],
}
BODIES: dict[WireName, dict[str, Any]] = {
    "anthropic-messages": ANTHROPIC,
    "openai-chat": CHAT,
    "openai-responses": RESPONSES,
    "gemini": GEMINI,
}


def asked(
    *bodies: object, places: Places = HERE, wire: WireName = "anthropic-messages", beta: str = ""
) -> tuple[str, ...] | None:
    heads = RequestHeads(places)
    for body in bodies:
        heads.add(wire, "/v1/messages", {"anthropic-beta": beta} if beta else {}, body)
    return heads.fingerprints()


def elsewhere(value: Any) -> Any:
    """The same in another workspace."""
    if isinstance(value, dict):
        return {key: elsewhere(each) for key, each in value.items()}
    if isinstance(value, list):
        return [elsewhere(each) for each in value]
    return value.replace("/runs/a/tree", "/runs/b/tree") if isinstance(value, str) else value


@pytest.mark.parametrize("wire", BODIES)
def test_the_same_in_another_workspace(wire: WireName) -> None:
    body = BODIES[wire]
    first = asked(body, wire=wire)
    assert first is not None
    assert asked(elsewhere(body), places=THERE, wire=wire) == first
    assert asked(elsewhere(body), places=HERE, wire=wire) != first


ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "I will."}]}
SAME: dict[str, list[dict[str, Any]]] = {
    "another user and session": [{**ANTHROPIC, "metadata": {"user_id": "user_9_session_8"}}],
    "not streamed": [{key: value for key, value in ANTHROPIC.items() if key != "stream"}],
    "a later turn": [ANTHROPIC, {**ANTHROPIC, "messages": [*ANTHROPIC["messages"], ANSWER]}],
    "asked twice": [ANTHROPIC, ANTHROPIC],
    "cached elsewhere": [
        {**ANTHROPIC, "system": [{**ANTHROPIC["system"][0], "cache_control": {"type": "ephemeral"}}]},
    ],
}


@pytest.mark.parametrize("name", SAME)
def test_what_always_differs_does_not_count(name: str) -> None:
    assert asked(*SAME[name]) == asked(ANTHROPIC)


DIFFERENT: dict[str, dict[str, Any]] = {
    "model": {"model": "claude-haiku-4-5"},
    "effort": {"output_config": {"effort": "low"}},
    "thinking": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "most tokens": {"max_tokens": 1000},
    "system prompt": {"system": [{"type": "text", "text": SYSTEM + "Be brief."}]},
    "a tool more": {"tools": [TOOL, {**TOOL, "name": "Edit"}]},
    "no tools": {"tools": []},
    "instructions": {"messages": [{"role": "user", "content": "Do it."}]},
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_the_model_is_told_counts(name: str) -> None:
    assert asked({**ANTHROPIC, **DIFFERENT[name]}) != asked(ANTHROPIC)


def test_features_that_a_header_switches_on_count_in_any_order() -> None:
    assert asked(ANTHROPIC, beta="effort-1") != asked(ANTHROPIC)
    assert asked(ANTHROPIC, beta="effort-1, tools-2") == asked(ANTHROPIC, beta="tools-2,effort-1")


def test_the_system_prompt_among_messages_counts_in_every_request() -> None:
    side = {"model": "gpt-5", "messages": [{"role": "system", "content": "Name this."}]}
    other = {"model": "gpt-5", "messages": [{"role": "system", "content": "Name that."}]}
    assert asked(CHAT, side, wire="openai-chat") != asked(CHAT, other, wire="openai-chat")


def test_what_subagents_and_side_requests_are_asked_does_not_count_but_how() -> None:
    """The model chooses their prompts."""
    side = {"model": "claude-haiku-4-5", "system": "Give it a title.", "messages": [{"role": "user", "content": "A"}]}
    found = asked(side, ANTHROPIC)
    assert found is not None
    assert len(found) == 2
    assert found == asked(ANTHROPIC, {**side, "messages": [{"role": "user", "content": "B"}]})
    assert found != asked(ANTHROPIC, {**side, "model": "claude-sonnet-4-5"})


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


UNKNOWN: dict[str, list[object]] = {
    "no request": [],
    "too many": [{**ANTHROPIC, "max_tokens": number} for number in range(100)],
    "too large": [{**ANTHROPIC, "system": "many words " * 200_000}],
    "too deep": [{**ANTHROPIC, "tools": nested(900)}],
    "far too deep": [{**ANTHROPIC, "tools": nested(100_000)}],
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_not_claimed(name: str) -> None:
    assert asked(*UNKNOWN[name]) is None


@pytest.mark.parametrize("body", [None, [], "text", {"messages": 7}, {"model": "\ud83d", "messages": [None, 3]}])
def test_any_body_is_taken(body: object) -> None:
    assert asked(body) is not None
