"""What is the same for every agent: changing the agent changes only `agent.type` (SC-009), and codes end alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from youbencha.adapters import codes, get_adapter
from youbencha.adapters.cli_agent.environment import inherited

AGENTS = ["aider", "claude-code", "codex", "command", "copilot-cli", "gemini-cli", "opencode"]
COMMON: dict[str, Any] = {
    "agent_name": "reviewer",
    "model": "claude-sonnet-4-5",
    "version": "1.0.0",
    "executable": "/somewhere/agent",
    "extra_args": ["--unknown-to-all"],
    "tools": ["read", "write"],
}
PAGE = Path(__file__).parents[2] / "docs" / "design" / "other-agents.md"


def problems(agent: str, config: dict[str, Any], where: Path | None = None) -> list[str]:
    adapter = get_adapter(agent)
    needed = {"command": "a"} if agent == "command" else {}
    return [problem.path for problem in adapter.check_config({**needed, **config}, where)]


@pytest.mark.parametrize("agent", AGENTS)
def test_common_options_are_valid_for_every_agent(agent: str, tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("Do it.")
    assert problems(agent, {"prompt": "Do it.", **COMMON}) == []
    assert problems(agent, {"prompt_file": "task.md", **COMMON}, tmp_path) == []
    assert problems(agent, {"prompt_file": "comes-with-the-repository.md"}, tmp_path) == []


@pytest.mark.parametrize("agent", AGENTS)
def test_invalid_common_options(agent: str, tmp_path: Path) -> None:
    (tmp_path / "empty.md").touch()
    assert problems(agent, {"prompt": "x", "prompt_file": "y"}) == ["prompt_file"]
    assert problems(agent, {"prompt": " \n"}) == ["prompt"]
    assert problems(agent, {"prompt_file": "empty.md"}, tmp_path) == ["prompt_file"]
    assert problems(agent, {"prompt": "x", "agent_name": "a b", "unheard_of": 1}) == ["agent_name", "unheard_of"]


OF_CLAUDE_CODE = {"ROOT_REFUSED", "MCP_FAILED", "MODEL_FALLBACK", "UNRESPONSIVE"}
"""Explained in docs/claude-code.md."""
CODES = {value for name, value in vars(codes).items() if name.isupper()}


@pytest.mark.parametrize("suffix", sorted(CODES - OF_CLAUDE_CODE))
def test_every_code_is_documented(suffix: str) -> None:
    assert re.search(f"`_{suffix}`", PAGE.read_text(encoding="utf-8")), suffix


def test_inherited_variables() -> None:
    harness = {"PATH": "/bin", "LC_ALL": "C", "AWS_SECRET": "no", "MY_KEY": "own", "Path": "w", "https_proxy": "p"}
    assert inherited(harness, {"MY_KEY"}) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "MY_KEY": "own",
        "Path": "w",
        "https_proxy": "p",
    }
