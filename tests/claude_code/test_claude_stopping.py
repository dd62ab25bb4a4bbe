"""Claude Code ended early by the caller, and by its own errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from small_clis import small_cli

from systems import posix_only
from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.errors import YouBenchaError

pytestmark = [posix_only("the small CLI is a shell script"), pytest.mark.repeat(5)]

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-x"}
TOKENS = {"input_tokens": 30, "output_tokens": 5}
TOTAL = {"inputTokens": 30, "outputTokens": 5}
MESSAGE = {"id": "m", "model": "claude-x", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}
TEXT = {"type": "assistant", "message": {**MESSAGE, "usage": TOKENS}}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "hi", "modelUsage": {"m": TOTAL}}
REJECTED = {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 401, "error": "e"}


async def stopped_at(
    directory: Path, last: dict[str, Any], *records: dict[str, Any], ending: str = "sleep 600 & wait"
) -> tuple[AgentExecutionResult, Any]:
    """Prints the records, and goes on; the stop comes with the last of them."""
    stop = asyncio.Event()
    out = directory / "out"
    out.write_text("".join(json.dumps(record) + "\n" for record in (*records, last)))
    cli = small_cli(directory / "claude", "2.1.325", rest=f'cat "{out}"\n{ending}')
    adapter = ClaudeCodeAdapter(env={"PATH": "/usr/bin:/bin", "HOME": str(directory)})
    context = AgentExecutionContext(
        workspace_dir=directory,
        repo_dir=directory,
        artifacts_dir=directory / "artifacts",
        config={"prompt": "x", "executable": str(cli)},
        env={"IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-ant-0123456789"},
        timeout=30_000,
        stop=stop,
    )
    running = asyncio.create_task(adapter.execute(context))
    while not running.done():
        logs = context.artifacts_dir.rglob("terminal-output-*.log")
        if any(json.dumps(last) in log.read_text() for log in logs):
            stop.set()
        await asyncio.sleep(0.01)
    result = await running
    return result, adapter.normalize_log(result, context)


def codes(result: AgentExecutionResult) -> list[str | None]:
    return [error.code for error in result.errors]


async def test_stopped_while_working(tmp_path: Path) -> None:
    result, log = await stopped_at(tmp_path, TEXT, INIT)
    assert (result.status, codes(result)) == ("failed", ["CLAUDE_STOPPED"])
    assert "stopped early by youBencha" in result.errors[0].message
    assert (log.usage.input_tokens, log.usage.partial) == (30, True)


async def test_stopped_after_success(tmp_path: Path) -> None:
    """A command that it left in the background keeps it alive (2.1.325): its success stays."""
    result, log = await stopped_at(tmp_path, RESULT, INIT, TEXT)
    assert (result.status, codes(result)) == ("success", [])
    assert not log.usage.partial


async def test_a_result_caused_by_the_stop_is_ignored(tmp_path: Path) -> None:
    ending = f"trap 'echo '\"'\"'{json.dumps(RESULT)}'\"'\"'; exit 0' TERM; sleep 600 & wait"
    result, log = await stopped_at(tmp_path, TEXT, INIT, ending=ending)
    assert (result.status, codes(result)) == ("failed", ["CLAUDE_STOPPED"])
    assert log.usage.partial


async def test_a_rejected_key_is_still_reported(tmp_path: Path) -> None:
    """Both end the run: the key did so first."""
    result, _ = await stopped_at(tmp_path, REJECTED, INIT)
    assert (result.status, codes(result)) == ("failed", ["CLAUDE_AUTH_FAILED"])


async def test_an_unused_stop_event_changes_nothing(tmp_path: Path) -> None:
    result, log = await stopped_at(tmp_path, RESULT, INIT, TEXT, ending="exit 0")
    assert (result.status, codes(result)) == ("success", [])
    assert log.usage is not None


def task(kind: str) -> dict[str, Any]:
    return {"type": "system", "subtype": "task_started", "task_id": "b1", "task_type": kind}


@pytest.mark.parametrize(
    ("records", "status"),
    [
        ([INIT, TEXT, RESULT], "success"),
        ([INIT, task("local_bash"), TEXT, RESULT], "success"),
        pytest.param([INIT, task("local_agent"), TEXT, RESULT], "timeout", marks=pytest.mark.full),
        pytest.param([INIT, TEXT, RESULT, INIT], "timeout", marks=pytest.mark.full),
        pytest.param([INIT, TEXT], "timeout", marks=pytest.mark.full),
    ],
    ids=["nothing known", "a command", "a subagent", "another turn", "no result"],
)
async def test_a_cli_that_stays_after_its_result(tmp_path: Path, records: list[dict[str, Any]], status: str) -> None:
    timeout = 5_000 if status == "timeout" else 120_000
    result = await staying(tmp_path, records, timeout=timeout, exit_grace_s=0.1)
    assert result.status == status, result.errors
    assert result.exit_code == (0 if status == "success" else -1)


async def test_a_session_that_is_over_at_its_deadline(tmp_path: Path) -> None:
    result = await staying(tmp_path, [INIT, task("local_bash"), TEXT, RESULT], timeout=3_000)
    assert (result.status, result.exit_code) == ("success", 0), result.errors
    (warning,) = result.warnings
    assert warning.code == "CLAUDE_LEFT_PROCESSES"
    assert "did not exit after its result" in warning.message
    assert "count" not in (warning.context or {}), "how many processes there were is not known"


async def staying(
    directory: Path, records: list[dict[str, Any]], *, timeout: int, **config: Any
) -> AgentExecutionResult:
    """The CLI prints the records and stays."""
    out = directory / "out"
    out.write_text("".join(json.dumps(record) + "\n" for record in records))
    cli = small_cli(directory / "claude", "2.1.325", rest=f'cat "{out}"\nsleep 600 & wait')
    context = AgentExecutionContext(
        workspace_dir=directory,
        repo_dir=directory,
        artifacts_dir=directory / "artifacts",
        config={"prompt": "x", "executable": str(cli), **config},
        env={"IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-ant-0123456789"},
        timeout=timeout,
    )
    return await ClaudeCodeAdapter(env={"PATH": "/usr/bin:/bin", "HOME": str(directory)}).execute(context)


async def test_the_deadline_covers_the_question_for_the_version(tmp_path: Path) -> None:
    cli = tmp_path / "claude"
    cli.write_text("#!/bin/sh\nsleep 600 & wait\n")
    cli.chmod(0o755)
    context = AgentExecutionContext(
        workspace_dir=tmp_path,
        repo_dir=tmp_path,
        artifacts_dir=tmp_path / "artifacts",
        config={"prompt": "x", "executable": str(cli)},
        timeout=500,
    )
    adapter = ClaudeCodeAdapter(env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    with pytest.raises(YouBenchaError, match=r"within the timeout of 0\.5 s") as caught:
        await asyncio.wait_for(adapter.execute(context), 60)  # without the deadline, two minutes
    assert caught.value.code == "CLAUDE_VERSION_UNKNOWN"
