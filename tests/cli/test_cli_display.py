"""The display while a run is in progress."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from youbencha.cli.display import Display, LiveDisplay, PlainDisplay, choose_display
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    EvaluatorFinished,
    Event,
    PhaseStarted,
    ProgressNote,
    RequestRetried,
    SessionStarted,
    ToolCalled,
    ToolReturned,
    UsageReported,
    WarningRaised,
    WorkspaceReady,
)
from youbencha.transcript.lines import Progress, event_line, main_argument


def shown(event: Event, inside: Path | None = None) -> str | None:
    line = event_line(event, inside)
    return None if line is None else line.plain()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (SessionStarted(session_id="s", model="m", agent_version="2.1"), "  session started: version 2.1, model m"),
        (SessionStarted(session_id="s", model="m", agent_version=None), "  session started: model m"),
        (SessionStarted(session_id=None, model=None, agent_version=None), "  session started"),
        (AssistantText(text="  Hello\n\tthere "), "● Hello there"),
        (ToolCalled(call_id="1", name="Bash", arguments={"command": "ls"}), "⚙ Bash ls"),
        (ToolReturned(call_id="1", content="fine", is_error=False), "  ↳ ✓ fine"),
        (ToolReturned(call_id="1", content="bad", is_error=True), "  ↳ ✗ bad"),
        (RequestRetried(attempt=2, status=529, reason=None, delay_ms=1), "! model request failed (529), attempt 2"),
        (
            RequestRetried(attempt=1, status=None, reason=None, delay_ms=1),
            "! model request failed (no answer), attempt 1",
        ),
        (RequestRetried(attempt=None, status=529, reason=None, delay_ms=1), "! model request failed (529)"),
        (WarningRaised(code="X", message="look"), "! warning: look"),
        (PhaseStarted(phase="checkout", detail="repo"), "▸ checking out repo"),
        (EvaluatorFinished(evaluator="git-diff", status="failed", message="too much"), "✗ git-diff too much"),
        (ProgressNote(text="fetching"), "  fetching"),
    ],
)
def test_one_line_for_each_event(event: Event, line: str) -> None:
    assert shown(event) == line


def test_text_deltas_are_not_shown() -> None:
    assert shown(AssistantTextDelta(text="He")) is None


def test_an_agents_escape_sequences_do_not_reach_the_terminal() -> None:
    assert shown(AssistantText(text="a\x1b]0;title\x07b\x9b2Jc")) == "● a␛]0;title␇b⟨U+009B⟩2Jc"


def test_a_long_text_is_cut() -> None:
    line = shown(AssistantText(text="word " * 100_000))
    assert line is not None
    assert len(line) == 102
    assert line.endswith("…")


def test_paths_are_relative_to_the_workspace() -> None:
    call = ToolCalled(call_id="1", name="Read", arguments={"file_path": "/runs/1/src-modified/a.py"})
    assert shown(call, Path("/runs/1/src-modified")) == "⚙ Read a.py"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ""),
        ({"description": "d", "command": "c"}, "c"),
        ({"file_path": "/a", "old_string": "x"}, "/a"),
        ({"command": 5, "other": "é"}, '{"command": 5, "other": "é"}'),
    ],
)
def test_main_argument_of_a_tool_call(arguments: dict[str, Any], words: str) -> None:
    assert main_argument(arguments) == words


RUN = (
    PhaseStarted(phase="checkout", detail="repo", at=100.0),
    WorkspaceReady(directory="/runs/1", tree="/runs/1/src-modified", at=100.5),
    PhaseStarted(phase="agent", at=101.0),
    SessionStarted(session_id="s", model="opus[1m]", agent_version="2.1", at=101.5),
    ToolCalled(call_id="1", name="Read", arguments={"file_path": "/runs/1/src-modified/a.py"}, at=102.0),
    UsageReported(input_tokens=1200, output_tokens=80, at=103.0),
    UsageReported(output_tokens=160, cost_usd=0.0125, at=104.0),
    AssistantText(text="[red]not markup[/nonsense]", at=105.0),
)


def test_progress_is_folded_from_events() -> None:
    progress = Progress()
    for event in RUN:
        progress.take(event)
    assert [(phase.name, phase.ended_at) for phase in progress.phases] == [("checkout", 101.0), ("agent", None)]
    assert progress.directory == Path("/runs/1")
    assert (progress.model, progress.tool_calls) == ("opus[1m]", 1)
    assert (progress.input_tokens, progress.output_tokens, progress.cost_usd) == (1200, 160, 0.0125)


def test_the_live_display_shows_phases_activity_tokens_and_cost() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=100, no_color=True)
    display = LiveDisplay("case · agent", stream, console=console)
    for event in RUN:
        display(event)
    console.print(display.render())
    text = stream.getvalue()
    assert "case · agent" in text
    assert "✓ checkout 1.0s" in text
    assert "agent" in text
    assert "▸ checking out repo\n" in text
    assert "⚙ Read a.py\n" in text
    assert "● [red]not markup[/nonsense]\n" in text
    assert "model opus[1m] · 1 tool call · 1,200 in · 160 out · $0.0125" in text


def test_events_remain_after_the_live_display_ends() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=60, force_terminal=True, color_system=None)
    with LiveDisplay("case · agent", stream, console=console) as display:
        for event in RUN:
            display(event)
        display(AssistantText(text="word " * 20))
    assert on_screen(stream.getvalue())[:6] == [
        "▸ checking out repo",
        "▸ running the agent",
        "  session started: version 2.1, model opus[1m]",
        "⚙ Read a.py",
        "● [red]not markup[/nonsense]",
        ("● " + "word " * 20)[:59] + "…",
    ]
    assert not any("case · agent" in line for line in on_screen(stream.getvalue()))


def on_screen(written: str) -> list[str]:
    """What a terminal shows in the end: rich goes up a line, and clears it."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[\d?;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", written):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[1A":
            row -= 1
        elif part == "\x1b[2K":
            lines[row] = ""
        elif not part.startswith(("\x1b", "\r")):
            lines[row] += part
    return [line.rstrip() for line in lines]


def test_unknown_values_are_not_shown() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=100, no_color=True)
    console.print(LiveDisplay("case", stream, console=console).render())
    assert "in /" not in stream.getvalue()
    assert "$" not in stream.getvalue()


def test_plain_lines_in_a_pipe() -> None:
    stream = io.StringIO()
    display = choose_display("case", quiet=False, stream=stream)
    assert isinstance(display, PlainDisplay)
    with display:
        for event in RUN:
            display(event)
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("s ▸ checking out repo")
    assert "\x1b" not in stream.getvalue()


def test_quiet_prints_nothing() -> None:
    stream = io.StringIO()
    display = choose_display("case", quiet=True, stream=stream)
    assert type(display) is Display
    with display:
        display(RUN[1])
    assert stream.getvalue() == ""
    assert display.progress.directory == Path("/runs/1")
