"""The lines that show what an agent is doing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from youbencha.cli.live import LineDisplay, telling
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    RequestRetried,
    SessionStarted,
    ToolCalled,
    ToolReturned,
    Warned,
)


def shown(*events: Event, inside: Path | None = None) -> str:
    stream = io.StringIO()
    display = LineDisplay(Console(file=stream, width=200, no_color=True, soft_wrap=True), inside=inside)
    for event in events:
        display(event)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (SessionStarted(session_id="s", model="m", agent_version="2.1"), "session started: version 2.1, model m"),
        (SessionStarted(session_id=None, model=None, agent_version=None), "session started: version ?, model ?"),
        (AssistantText(text="  Hello\n\tthere "), "● Hello there"),
        (ToolCalled(call_id="1", name="Bash", arguments={"command": "ls"}), "⚙ Bash ls"),
        (ToolReturned(call_id="1", content="fine", is_error=False), "  ↳ ✓ fine"),
        (ToolReturned(call_id="1", content="bad", is_error=True), "  ↳ ✗ bad"),
        (RequestRetried(attempt=2, status=529, reason=None, delay_ms=1), "model request failed (529), attempt 2"),
        (
            RequestRetried(attempt=1, status=None, reason=None, delay_ms=1),
            "model request failed (no answer), attempt 1",
        ),
        (Warned(code="X", message="look"), "warning: look"),
    ],
)
def test_one_line_for_each_event(event: Event, line: str) -> None:
    assert shown(event) == line + "\n"


def test_what_nobody_wants_to_see_line_by_line() -> None:
    assert shown(AssistantTextDelta(text="He")) == ""


def test_what_an_agent_says_is_never_markup() -> None:
    assert shown(AssistantText(text="[red]a[/nonsense] [1m]")) == "● [red]a[/nonsense] [1m]\n"


def test_a_long_text_is_cut() -> None:
    (line,) = shown(AssistantText(text="word " * 100)).splitlines()
    assert len(line) == 102
    assert line.endswith("…")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ""),
        ({"description": "d", "command": "c"}, "c"),
        ({"file_path": "/a", "old_string": "x"}, "/a"),
        ({"command": 5, "other": "é"}, '{"command": 5, "other": "é"}'),
    ],
)
def test_a_tool_call_in_a_few_words(arguments: dict[str, Any], words: str) -> None:
    assert telling(arguments) == words


def test_paths_inside_the_workspace_are_shown_from_there(tmp_path: Path) -> None:
    read = ToolCalled(call_id="1", name="Read", arguments={"file_path": str(tmp_path / "a.py")})
    assert shown(read, inside=tmp_path) == "⚙ Read a.py\n"
