"""An agent that is stopped early: at once, completely, and with one error."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from command_bench import CommandBench
from recorded_cli import Played, RecordedCli, lines

from youbencha.adapters.codex import CodexAdapter
from youbencha.adapters.command import CommandAdapter
from youbencha.adapters.opencode import OpenCodeAdapter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the recorded CLI is a shell script")

BEGUN = ({"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"})
TEXT = {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "SPOKEN"}}
USAGE = {"input_tokens": 40, "cached_input_tokens": 10, "output_tokens": 5}
COMPLETED = {"type": "turn.completed", "usage": USAGE}
FAILED = {"type": "turn.failed", "error": {"message": "unexpected status 402 Payment Required: no more"}}
RUNS_ON = "sleep 600 & wait"


async def stopped_when(cli: RecordedCli, word: str, stdout: str, **more: Any) -> Played:
    """The stop comes as soon as the word is in the log."""
    stop = asyncio.Event()
    playing = asyncio.create_task(cli.play(stdout, context={"stop": stop}, **more))
    while not playing.done():
        if any(word in log.read_text() for log in cli.artifacts.rglob("terminal-output-*.log")):
            stop.set()
        await asyncio.sleep(0.01)
    return await playing


@pytest.fixture
def codex(tmp_path: Path) -> RecordedCli:
    return RecordedCli(tmp_path, CodexAdapter)


async def test_stopped_while_working(codex: RecordedCli) -> None:
    done = await stopped_when(codex, "SPOKEN", lines(*BEGUN, TEXT), ending=RUNS_ON)
    assert (done.result.status, done.codes()) == ("failed", ["CODEX_STOPPED"])
    (error,) = done.result.errors
    assert "was stopped early by youBencha" in error.message
    assert "errors and warnings" in (error.hint or "")
    assert (error.context or {})["kind"] == "stopped"
    assert [message.content for message in done.log.messages][1:] == ["SPOKEN"]
    assert done.log.execution.status == "failed"


async def test_stopped_after_success(codex: RecordedCli) -> None:
    """What it left running does not take its success away."""
    done = await stopped_when(codex, "turn.completed", lines(*BEGUN, TEXT, COMPLETED), ending=RUNS_ON)
    assert (done.result.status, done.codes()) == ("success", [])
    assert done.log.usage is not None
    assert not done.log.usage.partial


async def test_stopped_after_failure(codex: RecordedCli) -> None:
    done = await stopped_when(codex, "turn.failed", lines(*BEGUN, FAILED), ending=RUNS_ON)
    assert (done.result.status, done.codes()) == ("failed", ["CODEX_STOPPED"])


async def test_a_result_caused_by_the_stop_is_ignored(codex: RecordedCli) -> None:
    """Copilot says a result when it is asked to end."""
    last = lines(COMPLETED).strip()
    trap = f"trap 'echo '\"'\"'{last}'\"'\"'; exit 0' TERM"
    spoken = f"echo '{lines(TEXT).strip()}'"  # after the trap is set: the stop comes with it
    done = await stopped_when(codex, "SPOKEN", lines(*BEGUN), ending=f"{trap}; {spoken}; {RUNS_ON}")
    assert (done.result.status, done.codes()) == ("failed", ["CODEX_STOPPED"])
    assert done.log.usage is not None
    assert (done.log.usage.input_tokens, done.log.usage.partial) == (30, True)


async def test_tokens_so_far_are_partial(tmp_path: Path) -> None:
    step = {"type": "step_finish", "sessionID": "s", "part": {"reason": "tool-calls", "tokens": {"input": 7}}}
    done = await stopped_when(RecordedCli(tmp_path, OpenCodeAdapter), "step_finish", lines(step), ending=RUNS_ON)
    assert done.codes() == ["OPENCODE_STOPPED"]
    assert done.log.usage is not None
    assert (done.log.usage.input_tokens, done.log.usage.partial) == (7, True)


async def test_a_program_that_writes_plain_text(tmp_path: Path) -> None:
    cli = RecordedCli(tmp_path, CommandAdapter)
    done = await stopped_when(cli, "SPOKEN", "SPOKEN\n", ending=RUNS_ON, command=["program"])
    assert (done.result.status, done.codes()) == ("failed", ["COMMAND_STOPPED"])
    assert done.result.output == "SPOKEN\n"


async def test_a_stop_set_before_the_start(tmp_path: Path) -> None:
    bench = CommandBench(tmp_path)
    stop = asyncio.Event()
    stop.set()
    done = await bench.run(command=["sleep", "600"], context={"stop": stop})
    assert (done.status, [error.code for error in done.errors]) == ("failed", ["COMMAND_STOPPED"])


async def test_an_unused_stop_event_changes_nothing(codex: RecordedCli) -> None:
    done = await codex.play(lines(*BEGUN, TEXT, COMPLETED), context={"stop": asyncio.Event()})
    assert (done.result.status, done.codes()) == ("success", [])
