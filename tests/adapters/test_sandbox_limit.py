"""A sandbox limit that ended an agent is reported as the reason for its failure."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from docker_engine import Engine, engine, image
from systems import posix_only
from youbencha.adapters import AgentAdapter, AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.adapters.codex import CodexAdapter
from youbencha.adapters.command import CommandAdapter
from youbencha.process import LimitHit, ProcessResult
from youbencha.sandbox.docker.sandbox import open_docker_sandbox
from youbencha.sandbox.local import HostSandbox
from youbencha.spec.sandbox import SandboxSpec
from youbencha.trial.outcome import determine_outcome

__all__ = ["engine", "image"]

pytestmark = posix_only("the small CLIs are shell scripts")

DISK = LimitHit("disk", "200 MiB")
MEMORY = LimitHit("memory", "4 GiB")
BY_SIGNAL = "kill -TERM $$"


class Narrow(HostSandbox):
    """A sandbox that says which limit was broken. What runs in it ends as it would have been ended."""

    def __init__(self, limit_hit: LimitHit | None) -> None:
        self._limit_hit = limit_hit

    async def run(self, *arguments: Any, **named: Any) -> ProcessResult:
        done = await super().run(*arguments, **named)
        return done._replace(exit=done.exit._replace(limit_hit=self._limit_hit))


async def ended(
    directory: Path, adapter: type[AgentAdapter], rest: str, *, limit_hit: LimitHit | None = DISK, printed: str = ""
) -> AgentExecutionResult:
    program = directory / "program"
    (directory / "printed").write_text(printed)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo 2.1.325 && exit 0\ncat "{directory}/printed"\n{rest}\n'
    )
    program.chmod(0o755)
    config = {"command": [str(program)]} if adapter is CommandAdapter else {"executable": str(program)}
    context = AgentExecutionContext(
        workspace_dir=directory,
        repo_dir=directory,
        artifacts_dir=directory / "artifacts",
        config={"prompt": "x", **config},
        env={"IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-ant-0123456789", "OPENAI_API_KEY": "k"},
        timeout=60_000,
        sandbox=Narrow(limit_hit),
    )
    given = {"PATH": "/usr/bin:/bin", "HOME": str(directory)}
    return await adapter(env=given).execute(context)  # type: ignore[call-arg]


AGENTS = [(CommandAdapter, "COMMAND"), (CodexAdapter, "CODEX"), (ClaudeCodeAdapter, "CLAUDE")]


@pytest.mark.parametrize(("adapter", "prefix"), AGENTS)
@pytest.mark.parametrize(
    ("limit_hit", "rest", "how", "option"),
    [
        (DISK, BY_SIGNAL, "was ended because it exceeded a limit of the sandbox: disk (200 MiB).", "sandbox.disk"),
        (DISK, "exit 0", "exceeded a limit of the sandbox: disk (200 MiB).", "sandbox.disk"),
        (MEMORY, "kill -KILL $$", "was ended because it ran out of memory (4 GiB).", "sandbox.memory"),
        (MEMORY, "exit 2", "failed because something that it ran ran out of memory (4 GiB).", "sandbox.memory"),
        (LimitHit("processes", "32"), "exit 1", "exceeded a limit of the sandbox: processes (32).", "sandbox.pids"),
    ],
)
async def test_a_sandbox_limit_is_the_reason(
    adapter: type[AgentAdapter], prefix: str, limit_hit: LimitHit, rest: str, how: str, option: str, tmp_path: Path
) -> None:
    result = await ended(tmp_path, adapter, rest, limit_hit=limit_hit)
    assert result.status == "failed"
    cause = "OUT_OF_MEMORY" if limit_hit == MEMORY else "SANDBOX_LIMIT"
    assert [(error.code, error.cause) for error in result.errors] == [(f"{prefix}_{cause}", cause)]
    assert how in result.errors[0].message
    assert f"`{option}`" in (result.errors[0].hint or "")
    assert result.warnings == ()  # reported once
    outcome = determine_outcome(result.status, result.errors, ())
    assert (outcome.name, outcome.valid, outcome.retry) == ("limit", True, False)


@pytest.mark.parametrize(("adapter", "prefix"), AGENTS)
async def test_without_a_limit_a_signal_is_a_signal(adapter: type[AgentAdapter], prefix: str, tmp_path: Path) -> None:
    result = await ended(tmp_path, adapter, BY_SIGNAL, limit_hit=None)
    assert [error.code for error in result.errors] == [f"{prefix}_CRASHED"]


FAILED_CALL = {
    CodexAdapter: (
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.failed", "error": {"message": "exceeded retry limit, last status: 429 Too Many Requests"}},
    ),
    ClaudeCodeAdapter: (
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m"},
        {
            "type": "assistant",
            "error": "rate_limit",
            "message": {
                "id": "m",
                "model": "<synthetic>",
                "role": "assistant",
                "content": [{"type": "text", "text": "API Error: 429 rate_limit_error"}],
            },
        },
        {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 429 rate_limit_error"},
    ),
}


@pytest.mark.parametrize(("adapter", "prefix"), AGENTS[1:])
@pytest.mark.parametrize(("rest", "code"), [("exit 1", "RATE_LIMIT"), (BY_SIGNAL, "OUT_OF_MEMORY")])
async def test_a_tool_that_was_killed_long_before_is_not_to_blame(
    adapter: type[AgentAdapter], prefix: str, rest: str, code: str, tmp_path: Path
) -> None:
    """The provider failed, and the agent ended by itself: then the limit is a warning."""
    printed = "".join(json.dumps(record) + "\n" for record in FAILED_CALL[adapter])
    result = await ended(tmp_path, adapter, rest, limit_hit=MEMORY, printed=printed)
    assert [error.code for error in result.errors] == [f"{prefix}_{code}"]
    codes = [warning.code for warning in result.warnings]
    assert (f"{prefix}_OUT_OF_MEMORY" in codes) is (code == "RATE_LIMIT")


@pytest.mark.parametrize(
    ("sandbox", "program", "code", "how"),
    [
        (
            {"disk": 48 * 1024**2},
            "i=0; while head -c 8000000 /dev/zero > f$i; do i=$((i+1)); done",
            "COMMAND_SANDBOX_LIMIT",
            "was ended because it exceeded a limit of the sandbox: disk (48 MiB).",
        ),
        (
            {"memory": 64 * 1024**2},
            "exec python3 -c 'x = bytearray(500_000_000)'",
            "COMMAND_OUT_OF_MEMORY",
            "was ended because it ran out of memory (64 MiB).",
        ),
        (
            {"memory": 64 * 1024**2},
            "python3 -c 'x = bytearray(500_000_000)' || exit 3",
            "COMMAND_OUT_OF_MEMORY",
            "failed because something that it ran ran out of memory (64 MiB).",
        ),
        (
            {"pids": 16},
            "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do sleep 1000 & done; exit 1",
            "COMMAND_SANDBOX_LIMIT",
            "exceeded a limit of the sandbox: processes (16).",
        ),
    ],
    ids=["disk", "memory", "memory of a tool", "processes"],
)
async def test_real_limits(
    tmp_path: Path, engine: Engine, image: str, sandbox: dict[str, Any], program: str, code: str, how: str
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    spec = SandboxSpec(type="docker", image=image, **sandbox)
    run_id = f"test-{os.urandom(6).hex()}"
    async with open_docker_sandbox(
        spec, workspace=tree, scratch=tmp_path / "scratch", run_id=run_id, on_event=lambda event: None
    ) as opened:
        context = AgentExecutionContext(
            workspace_dir=tree,
            repo_dir=tree,
            artifacts_dir=tmp_path / "artifacts",
            config={"command": ["sh", "-c", program]},
            timeout=120_000,
            sandbox=opened,
        )
        result = await CommandAdapter(env={"PATH": os.environ["PATH"]}).execute(context)
    assert [error.code for error in result.errors] == [code]
    assert how in result.errors[0].message
    assert determine_outcome(result.status, result.errors, ()).name == "limit"
