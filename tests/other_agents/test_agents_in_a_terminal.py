"""The real CLIs in a terminal: the same events and the same answer as without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from codex_bench import codex_agent
from copilot_bench import copilot_agent
from gemini_bench import gemini_agent
from opencode_bench import opencode_agent

from systems import posix_only
from youbencha.adapters import AgentExecutionContext
from youbencha.testing import Agent, Situation
from youbencha.testing.agent import MARKER

pytestmark = [pytest.mark.real_cli, pytest.mark.full, posix_only("a console of Windows changes what a program prints")]


@pytest.mark.parametrize("make", [codex_agent, copilot_agent, gemini_agent, opencode_agent])
async def test_an_answer_in_a_terminal(make: Callable[[Path], Agent], tmp_path: Path) -> None:
    agent = make(tmp_path)
    workspace = tmp_path / "its-workspace"
    workspace.mkdir()
    async with agent.in_situation(Situation.ANSWERS, workspace) as prepared:
        context = AgentExecutionContext(
            workspace_dir=workspace,
            repo_dir=workspace,
            artifacts_dir=tmp_path / "its-artifacts",
            config={"prompt": "Answer.", **prepared.config, "pty": "always"},
            env=prepared.env,
            timeout=120_000,
        )
        adapter = agent.adapter()
        result = await adapter.execute(context)
    assert result.status == "success", result.errors
    log = adapter.normalize_log(result, context)
    assert any(MARKER in message.content for message in log.messages if message.role == "assistant")
