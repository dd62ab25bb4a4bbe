"""The name of the terminal log."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from youbencha.adapters.cli_agent import adapter as invocation

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
