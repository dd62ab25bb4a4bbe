"""Files that an adapter puts beside the agent's tree are in the caller's directory, also after a kill."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from systems import posix_only
from youbencha.adapters import AgentAdapter, AgentExecutionContext
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.adapters.codex import CodexAdapter
from youbencha.adapters.command import CommandAdapter
from youbencha.gateway.access import GatewayAccess

pytestmark = posix_only("the small CLIs are shell scripts")


async def seen_by(
    adapter: type[AgentAdapter], directory: Path, monkeypatch: pytest.MonkeyPatch, scratch: Path | None
) -> tuple[list[str], list[str]]:
    """What there was in both places while it ran: where the caller said, and where temporary files go."""
    for name in ("said", "temporary", "tree"):
        (directory / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory / "temporary"))
    program = directory / "program"
    look = "".join(f"ls '{directory}'/{name} > '{directory}'/{name}.txt\n" for name in ("said", "temporary"))
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 2.1.325 && exit 0\n{look}')
    program.chmod(0o755)
    config = {"command": [str(program)]} if adapter is CommandAdapter else {"executable": str(program)}
    given = {"PATH": "/usr/bin:/bin", "HOME": str(directory)}
    await adapter(env=given).execute(  # type: ignore[call-arg]
        AgentExecutionContext(
            workspace_dir=directory / "tree",
            repo_dir=directory / "tree",
            artifacts_dir=directory / "artifacts",
            config={"prompt": "x", **config},
            env={"IS_SANDBOX": "1"},
            timeout=60_000,
            gateway=GatewayAccess(url="http://127.0.0.1:9", key="k-123456789012"),
            scratch_dir=scratch,
        )
    )
    assert [*(directory / "said").iterdir()] == []  # gone with the run
    found = [(directory / f"{name}.txt").read_text().split() for name in ("said", "temporary")]
    return found[0], [name for name in found[1] if name.startswith("youbencha-")]


@pytest.mark.parametrize("adapter", [CommandAdapter, CodexAdapter, ClaudeCodeAdapter])
async def test_scratch_directory_given(
    adapter: type[AgentAdapter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, temporary = await seen_by(adapter, tmp_path, monkeypatch, tmp_path / "said")
    assert len(said) == (2 if adapter is ClaudeCodeAdapter else 1)
    assert temporary == []


@pytest.mark.parametrize("adapter", [CommandAdapter, ClaudeCodeAdapter])
async def test_temporary_directory_by_default(
    adapter: type[AgentAdapter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, temporary = await seen_by(adapter, tmp_path, monkeypatch, None)
    assert said == []
    assert temporary
