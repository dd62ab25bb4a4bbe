""""""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from youbencha.adapters import AgentExecutionContext
from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.cli_agent import adapter as invocation
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


LOGS = "claude-code-logs"


def new_log_file(directory: Path) -> Path:
    return invocation.new_log_file(directory, LOGS)


def test_path_of_the_log_file(tmp_path: Path) -> None:
    path = new_log_file(tmp_path)
    assert path.parent == tmp_path / "claude-code-logs"
    assert re.fullmatch(r"terminal-output-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z\.log", path.name)
    stamp = datetime.strptime(path.name[16:-5], "%Y-%m-%dT%H-%M-%S-%f").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - stamp).total_seconds()) < 60


def test_log_names_are_valid_on_windows(tmp_path: Path) -> None:
    assert not re.search(r'[<>:"/\\|?*]', new_log_file(tmp_path).name)


def test_names_within_one_millisecond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation.time, "time", lambda: 1_800_000_000.123)
    names = []
    for _ in range(12):
        path = new_log_file(tmp_path)
        path.parent.mkdir(exist_ok=True)
        path.touch(exist_ok=False)
        names.append(path.name)
    assert names[:3] == [
        "terminal-output-2027-01-15T08-00-00-123Z.log",
        "terminal-output-2027-01-15T08-00-00-123Z-2.log",
        "terminal-output-2027-01-15T08-00-00-123Z-3.log",
    ]
    assert len(set(names)) == 12
