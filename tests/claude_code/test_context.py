from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from youbencha.adapters import AgentExecutionContext
from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.cli_agent.adapter import check_context
from youbencha.errors import ConfigError


def context(tmp_path: Path, **changes: Any) -> AgentExecutionContext:
    base: dict[str, Any] = {"workspace_dir": tmp_path, "repo_dir": tmp_path, "artifacts_dir": tmp_path, "config": {}}
    return AgentExecutionContext(**{**base, **changes})


@pytest.mark.parametrize(("timeout", "seconds"), [(0, None), (1, 0.001), (300_000, 300.0)])
def test_timeouts(tmp_path: Path, timeout: int, seconds: float | None) -> None:
    given = context(tmp_path, timeout=timeout, env={"A": "", "b c": "ö"})
    check_context(ClaudeCode, given)
    assert given.timeout_s == seconds


@pytest.mark.parametrize("timeout", [-1, "5000", 1.5, True, None])
def test_invalid_timeouts(tmp_path: Path, timeout: Any) -> None:
    with pytest.raises(ConfigError, match="timeout: must be"):
        check_context(ClaudeCode, context(tmp_path, timeout=timeout))


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    env = {"A=B": "x", "": "x", "N": 5, "Z": "a\0b", "fine": "x"}
    with pytest.raises(ConfigError) as caught:
        check_context(ClaudeCode, context(tmp_path / "nowhere", timeout=-1, env=env))
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["timeout", "env.A=B", "env.", "env.N", "env.Z", "workspace_dir"]
