"""The format of scripts, and the messages about invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from youbencha.errors import ConfigError
from youbencha.scripted_model import Script, Turn, load_script, parse_script
from youbencha.scripted_model.format import parse_duration


def problems(text: str, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_script(text, **options)
    assert caught.value.code == "SCRIPT_INVALID"
    return [str(problem) for problem in caught.value.problems]


def test_the_smallest_script() -> None:
    script = parse_script("turns: [{text: hello}]")
    assert script == Script(turns=[Turn(text="hello")])
    assert (script.after, script.tools_optional, script.side.text) == ("error", False, "ok")


def test_a_script_file(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("turns:\n  - txt: hello\n")
    with pytest.raises(ConfigError) as caught:
        load_script(path)
    assert str(caught.value) == (
        f"The model script has 1 problem:\n  - {path}:2:5: turns.0.txt: unknown key (did you mean 'text'?)"
    )


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ("{}", "1:9: turns.0: is empty: it needs text, thinking, tools, error, drop, hang or garbage"),
        (
            "{times: 2}",
            "1:9: turns.0: is empty: it needs text, thinking, tools, error, drop, hang or garbage",
        ),
        (
            "{hang: false}",
            "1:9: turns.0: is empty: it needs text, thinking, tools, error, drop, hang or garbage",
        ),
        (
            "{error: {status: 500}, text: hi}",
            "1:32: turns.0.text: cannot be combined with 'error', which replaces the whole answer",
        ),
        (
            "{garbage: x, chunk_bytes: 3}",
            "1:22: turns.0.chunk_bytes: cannot be combined with 'garbage', which replaces the whole answer",
        ),
        ("{garbage: x, error: {status: 500}}", "1:10: turns.0.garbage: cannot be combined with 'error'"),
        (
            "{text: a, hang: true, drop: {}}",
            "1:19: turns.0.hang: cannot be combined with 'drop': an answer can only end once",
        ),
        ("{error: {status: 200}}", "1:26: turns.0.error.status: must be at least 400"),
        ("{error: {}}", "1:17: turns.0.error.status: is required"),
        (
            '{error: {status: 500, headers: {a: "b\\r\\nc"}}}',
            "1:40: turns.0.error.headers: a header must have a name and be a single line",
        ),
        (
            "{text: a, delay: soon}",
            "1:26: turns.0.delay: must be a duration such as 250ms, 2s or 1m, or a number of seconds",
        ),
        ("{text: a, chunk_bytes: 0}", "1:32: turns.0.chunk_bytes: must be at least 1"),
        ("{text: a, times: 0}", "1:26: turns.0.times: must be at least 1"),
        ("{text: a, times: often}", "1:26: turns.0.times: must be a whole number or 'forever'"),
        ("{text: 5}", "1:16: turns.0.text: must be text or a list, not a number (put it in quotes)"),
        ("{tools: [{input: {}}]}", "1:18: turns.0.tools.0.name: is required"),
        ("{tools: [{name: Bash, input: [ls]}]}", "1:38: turns.0.tools.0.input: must be a mapping, not a list"),
        (
            "{text: a, stop_reason: end}",
            "1:32: turns.0.stop_reason: must be one of 'end_turn', 'max_tokens', 'stop_sequence', 'tool_use', "
            "'pause_turn', 'refusal' or 'model_context_window_exceeded' (did you mean 'end_turn'?)",
        ),
        ("{text: a, usage: {input: 5}}", "1:27: turns.0.usage.input: unknown key (did you mean 'input_tokens'?)"),
        ("{text: a, usage: {input_tokens: -5}}", "1:41: turns.0.usage.input_tokens: must be at least 0"),
    ],
)
def test_invalid_turns(turn: str, problem: str) -> None:
    assert problems(f"turns: [{turn}]") == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model: m", "1:1: turns: is required: a script needs at least one turn"),
        ("turns: []\nmodel: m", "1:1: turns: is required: a script needs at least one turn"),
        ("turns: [{text: a}]\nafter: stop", "2:8: after: must be 'error' or 'repeat-last'"),
        (
            "turns: [{text: a}]\nconversations:\n- when: {}\n  turns: [{text: b}]",
            "3:9: conversations.0.when: needs system_contains, prompt_contains, user_contains or model",
        ),
        (
            "turns: [{text: a}]\nconversations:\n- when: {model: m}\n  turns: []",
            "4:10: conversations.0.turns: must have at least 1, has 0",
        ),
        (
            "turns:\n- {text: a, times: forever}\n- {text: b}",
            "2:1: turns: turn 1 is repeated forever, so the turns after it are never reached",
        ),
        ("turns: [{text: a}]\nside: {text: b, times: 2}", "2:17: side.times: unknown key"),
    ],
)
def test_invalid_scripts(text: str, problem: str) -> None:
    assert problems(text) == [problem]


def test_unknown_variables_are_found_while_loading_if_the_variables_are_known() -> None:
    text = """\
turns:
- text: ["in ${workspce}", "in ${cwd}"]
- tools: [{name: Bash, input: {commands: ["echo $${HOME} ${home}"]}}]
"""
    assert parse_script(text)
    assert problems(text, variables={"workspace": "/w"}) == [
        "2:10: turns.0.text.0: unknown variable 'workspce' (known: cwd, workspace)",
        "3:31: turns.1.tools.0.input: unknown variable 'home' (known: cwd, workspace)",
    ]


@pytest.mark.parametrize(
    ("written", "seconds"), [("250ms", 0.25), ("2s", 2), ("1.5m", 90), ("3", 3), (0.5, 0.5), (0, 0), (" 1 s ", 1)]
)
def test_durations(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["", "s", "-1s", "1h", -1, float("inf"), float("nan"), True, None, []])
def test_invalid_durations(written: object) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        parse_duration(written)


def test_every_key_is_described_for_editors() -> None:
    schema = Script.model_json_schema()
    parts = {"Script": schema, **schema["$defs"]}
    bare = [
        f"{name}.{key}"
        for name, part in parts.items()
        for key, value in part.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    ]
    assert bare == []
    assert all("description" in part for part in parts.values() if part.get("type") == "object")


def test_a_script_cannot_be_changed_while_it_is_served() -> None:
    script: BaseModel = parse_script("turns: [{text: a}]")
    with pytest.raises(ValidationError):
        script.model = "other"  # type: ignore[attr-defined]
