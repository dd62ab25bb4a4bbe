"""The metrics sidecar of a trial, the same for every agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from youbencha.log.model import AgentInfo, ErrorRecord, Execution, ModelInfo, Status, ToolCall, YouBenchaLog
from youbencha.process import Redactor
from youbencha.store.bundle import AgentRun, TestCaseInfo
from youbencha.store.layout import SIDECAR
from youbencha.trial.results import TrialRecord
from youbencha.workspace import RunDirectory

AT = "2026-01-01T00:00:00.000Z"


class Written:
    """Writes the sidecar of a trial that ended in some way, and reads it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self, status: Status = "success", **more: Any) -> dict[str, Any]:
        log = YouBenchaLog(
            agent_info=AgentInfo(name="x", version="1", adapter_version="1.0.0"),
            model_info=ModelInfo(name="m", provider="p"),
            execution=Execution(started_at=AT, completed_at=AT, duration_ms=5, exit_code=0, status=status),
            **more,
        )
        return self.read(log)

    def read(self, log: YouBenchaLog | None) -> dict[str, Any]:
        case = TestCaseInfo(name="c", config_file="c.yaml", config_hash="0")
        with RunDirectory.create(self._root, cache_dir=self._root / "cache") as run:
            agent = AgentRun(type="x")
            record = TrialRecord(case, run, Redactor({}), expected_evaluators=0, started_at=0.0, agent=agent)
            if log is not None:
                record.save_log(log)
            record.save_metrics()
            document: dict[str, Any] = json.loads((run.artifacts / SIDECAR).read_bytes())
        return document


@pytest.fixture
def sidecar(tmp_path: Path) -> Written:
    return Written(tmp_path)


def calls(*names: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name=name, arguments="{}") for name in names)


def denied(code: str = "CLAUDE_TOOL_DENIED", **tools: int) -> ErrorRecord:
    return ErrorRecord(message="m", timestamp=AT, code=code, context={"tools": tools})


@pytest.mark.parametrize(("status", "ended"), [("success", "completed"), ("failed", "failed"), ("timeout", "timeout")])
def test_status_becomes_ended(sidecar: Written, status: Status, ended: str) -> None:
    assert sidecar(status)["ended"] == ended


def test_session_id_is_reported(sidecar: Written) -> None:
    assert sidecar(session_id="s-1")["session_id"] == "s-1"


def test_an_interrupted_trial(sidecar: Written) -> None:
    found = sidecar.read(None)
    assert (found["ended"], found["session_id"], found["tools_used"], found["partial"]) == (
        "interrupted", None, None, True,
    )  # fmt: skip


@pytest.mark.parametrize(("known", "tools_used"), [(False, None), (True, [])])
def test_unknown_is_not_none_used(sidecar: Written, known: bool, tools_used: list[str] | None) -> None:
    assert sidecar(tool_calls_known=known)["tools_used"] == tools_used


def test_a_tool_that_was_always_denied_was_not_used(sidecar: Written) -> None:
    """Denied by the policy and by the agent itself, in separate warnings."""
    warnings = (denied(Read=1, Bash=1), denied(Edit=1), denied("CLAUDE_MCP_FAILED", Grep=1))
    made = calls("Read", "Bash", "Bash", "Edit", "Grep")
    assert sidecar(tool_calls=made, warnings=warnings)["tools_used"] == ["Bash", "Grep"]
