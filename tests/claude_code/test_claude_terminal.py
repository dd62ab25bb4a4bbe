"""Claude Code in a terminal: the same events as without one, whatever is printed and however it is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_clis import NEWEST, OLD, OLDEST, SPREAD
from claude_bench import ClaudeBench, bash, full, says, script, uses, versions
from systems import PLAIN_PYTHON, posix_only
from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    AssistantThinking,
    ContextUsed,
    Event,
    SessionResult,
    ToolCalled,
    ToolReturned,
    ToolStarted,
    WarningRaised,
)

pytestmark = posix_only("a console of Windows changes what a program prints")
TERMINAL = {"pty": "always", "include_partial_messages": "auto", "exit_grace_s": 5}


def kinds(events: list[Event], *of: type[Event]) -> list[str]:
    return [type(event).__name__ for event in events if isinstance(event, of)]


@versions(NEWEST, OLD, OLDEST)
async def test_a_session_in_a_terminal(claude: ClaudeBench) -> None:
    turns = [{**bash("test -t 1 || echo no terminal for tools"), "thinking": "hm", "text": "I look."}, says("Done. 🦊")]
    session = await claude.run(script(*turns), config=TERMINAL)
    assert session.result.status == "success", session.result.errors
    assert session.result.warnings == ()
    shown = (AssistantText, AssistantThinking, ToolStarted, ToolCalled, ToolReturned, SessionResult, WarningRaised)
    assert kinds(session.events, *shown) == [
        *["AssistantThinking", "AssistantText", "ToolStarted", "ToolCalled", "ToolReturned", "AssistantText"],
        "SessionResult",
    ]
    started, called = (
        next(event for event in session.events if isinstance(event, kind)) for kind in (ToolStarted, ToolCalled)
    )
    assert (started.call_id, started.name) == (called.call_id, "Bash")
    *_, used = [event for event in session.events if isinstance(event, ContextUsed)]
    assert used.tokens > 0
    assert used.window in (200_000, 1_000_000)
    pieces = "".join(event.text for event in session.events if isinstance(event, AssistantTextDelta))
    assert pieces == "I look.Done. 🦊"


@versions(NEWEST, full(OLD), OLDEST, *SPREAD)
async def test_a_long_prompt_comes_by_a_file_that_is_gone_afterwards(claude: ClaudeBench, tmp_path: Path) -> None:
    prompt, scratch = "Line with ümläuts.\n" * 400, tmp_path / "scratch"
    scratch.mkdir()
    turns = [bash(f"cp '{scratch}'/*/prompt.md copy.md; test -t 0 && echo input"), says("Done.")]
    session = await claude.run(script(*turns), config={**TERMINAL, "prompt": prompt}, scratch_dir=scratch)
    assert session.result.status == "success", session.result.errors
    assert (claude.workspace / "copy.md").read_text() == prompt
    assert "prompt.md completely" in session.prompt
    assert not any(scratch.iterdir())


@versions(NEWEST)
async def test_a_server_in_the_background_does_not_keep_the_session(claude: ClaudeBench) -> None:
    server = uses("Bash", command="sleep 600", description="a server", run_in_background=True)
    session = await claude.run(script(server, says("Done.")), config={**TERMINAL, "exit_grace_s": 0.5})
    assert (session.result.status, session.result.exit_code) == ("success", 0), session.result.errors
    assert session.result.duration_ms < 20_000
    assert "CLAUDE_LEFT_PROCESSES" in session.warning_codes()


@versions(full(NEWEST), OLDEST)
async def test_sixteen_megabytes_in_one_line(claude: ClaudeBench) -> None:
    text = "0123456789abcde\n" * 1_000_000
    session = await claude.run(script(says(text)), config={**TERMINAL, "include_partial_messages": False})
    assert session.result.status == "success", session.result.errors
    (answer,) = [event for event in session.events if isinstance(event, AssistantText)]
    assert answer.text == text


INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-x"}
MESSAGE = {
    "id": "m",
    "model": "claude-x",
    "role": "assistant",
    "content": [{"type": "text", "text": "grün 🦊 \u2028 e\u0301"}],
}
TEXT = {"type": "assistant", "message": MESSAGE}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
PRINTER = """#!{python}
import sys, time
if sys.argv[1:] == ["--version"]:
    print("2.1.325 (Claude Code)")
    sys.exit()
data, size = open({data!r}, "rb").read(), {size}
for at in range(0, len(data), size):
    sys.stdout.buffer.write(data[at : at + size])
    sys.stdout.buffer.flush()
    {pause}
"""


async def printed(
    directory: Path, data: bytes, *, size: int, pause_s: float = 0.0
) -> tuple[AgentExecutionResult, list[Event]]:
    """Run a CLI that prints these bytes into its terminal, in pieces of this size."""
    (directory / "data").write_bytes(data)
    cli = directory / "claude"
    pause = f"time.sleep({pause_s})" if pause_s else ""
    cli.write_text(PRINTER.format(python=PLAIN_PYTHON, data=str(directory / "data"), size=size, pause=pause))
    cli.chmod(0o755)
    events: list[Event] = []
    context = AgentExecutionContext(
        workspace_dir=directory,
        repo_dir=directory,
        artifacts_dir=directory / "artifacts",
        config={"prompt": "x", "executable": str(cli), **TERMINAL},
        env={"IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-ant-0123456789"},
        on_event=events.append,
    )
    adapter = ClaudeCodeAdapter(env={"PATH": "/usr/bin:/bin", "HOME": str(directory)})
    return await adapter.execute(context), events


def lines(*records: dict[str, Any], end: str = "\n") -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + end for record in records).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("size", [1, 3, 7])
async def test_characters_cut_anywhere(tmp_path: Path, size: int, end: str) -> None:
    result, events = await printed(tmp_path, lines(INIT, TEXT, RESULT, end=end), size=size, pause_s=0.0005)
    assert result.status == "success", result.errors
    assert [event.text for event in events if isinstance(event, AssistantText)] == ["grün 🦊 \u2028 e\u0301"]
    assert kinds(events, WarningRaised) == []


async def test_a_line_of_fifteen_megabytes_between_others(tmp_path: Path) -> None:
    long = {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "é" * 7_500_000}]},
    }
    result, events = await printed(tmp_path, lines(INIT, long, TEXT, RESULT), size=1_000_003)
    assert result.status == "success", result.errors
    (returned,) = [event for event in events if isinstance(event, ToolReturned)]
    assert returned.content == "é" * 7_500_000


async def test_lines_that_are_no_events(tmp_path: Path) -> None:
    data = lines(INIT) + b'\x1b[?25h\x1b[2K\r\nnot json\r\n{"type":\n' + lines(TEXT) + b"\xff\xfe\n" + lines(RESULT)
    result, events = await printed(tmp_path, data, size=64)
    assert result.status == "success", result.errors
    assert kinds(events, WarningRaised) == ["WarningRaised"] * 3
    assert [warning.code for warning in result.warnings] == ["CLAUDE_MALFORMED_LINE"]
