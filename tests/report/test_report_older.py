"""Results of the original youBencha still load, and missing values stay unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sample

from youbencha.report.html import read_attachments, render_html
from youbencha.report.junit import render_junit
from youbencha.store.read import load_results


def original(**changes: Any) -> dict[str, Any]:
    return {
        "version": "1.0.0",
        "test_case": {
            "name": "Add a README",
            "description": "It needs one",
            "config_file": "testcase.yaml",
            "config_hash": "abc",
            "repo": "https://github.com/octocat/Hello-World.git",
            "branch": "master",
            "commit": "7fd1a60",
        },
        "execution": {
            "started_at": "2025-11-20T10:00:00.000Z",
            "completed_at": "2025-11-20T10:01:30.000Z",
            "duration_ms": 90000.4,
            "youbencha_version": "0.1.2-beta",
            "environment": {"os": "linux x64", "node_version": "v20.10.0", "workspace_dir": "/ws"},
        },
        "agent": {"type": "copilot-cli", "youbencha_log_path": "log.json", "status": "success", "exit_code": 0},
        "evaluators": [
            {
                "evaluator": "git-diff",
                "status": "passed",
                "metrics": {"files_changed": 1, "changed_files": [{"path": "README.md", "additions": 3}]},
                "message": "1 file",
                "duration_ms": 20,
                "timestamp": "2025-11-20T10:01:30.000Z",
                "assertions": {"max_files_changed": 5},
                "artifacts": [{"type": "patch", "path": "git-diff.patch", "description": "The diff"}],
            },
            {
                "evaluator": "agentic-judge",
                "status": "skipped",
                "metrics": {},
                "message": "no answer",
                "duration_ms": 5,
                "error": {"message": "no answer", "stack_trace": "at x"},
            },
        ],
        "summary": {"total_evaluators": 2, "passed": 1, "failed": 0, "skipped": 1, "overall_status": "partial"},
        "artifacts": {"agent_log": "log.json", "reports": [], "evaluator_artifacts": ["git-diff.patch"]},
        **changes,
    }


def loaded(directory: Path, document: dict[str, Any]) -> Any:
    artifacts = directory / "run-2025-11-20-1" / "artifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    (artifacts / "results.json").write_text(json.dumps(document))
    return load_results(directory / "run-2025-11-20-1")


def test_existing_values_are_kept(tmp_path: Path) -> None:
    bundle = loaded(tmp_path, original())
    assert bundle.test_case.commit == "7fd1a60"
    assert bundle.execution.duration_ms == 90000
    assert bundle.identity.run_id == "run-2025-11-20-1"
    assert bundle.summary.overall_status == "partial"
    assert bundle.evaluators[0].artifacts[0].path == "git-diff.patch"
    assert bundle.evaluators[1].error.stack_trace == "at x"
    assert bundle.evaluators[1].timestamp == "2025-11-20T10:01:30.000Z"


def test_missing_values_are_unknown(tmp_path: Path) -> None:
    bundle = loaded(tmp_path, original())
    assert (bundle.outcome, bundle.agent.usage, bundle.agent.model, bundle.agent.turns) == (None,) * 4
    assert "$" not in sample.markdown(bundle)


def test_configured_assertions_are_not_results(tmp_path: Path) -> None:
    result = loaded(tmp_path, original()).evaluators[0]
    assert result.assertions == ()
    assert result.metrics["assertions"] == {"max_files_changed": 5}


def test_assertions_with_results(tmp_path: Path) -> None:
    evaluators = original()["evaluators"]
    evaluators[0]["assertions"] = {"one": True, "two": {"passed": False, "actual": 0.2, "extra": 1}}
    result = loaded(tmp_path, original(evaluators=evaluators)).evaluators[0]
    assert [(assertion.name, assertion.passed, assertion.actual) for assertion in result.assertions] == [
        ("one", True, None),
        ("two", False, 0.2),
    ]
    evaluators[0]["assertions"] = [{"name": "three", "passed": True, "message": "yes"}]
    assert loaded(tmp_path, original(evaluators=evaluators)).evaluators[0].assertions[0].message == "yes"


def test_the_oldest_format_has_a_suite(tmp_path: Path) -> None:
    old = original(suite={"config_hash": "x", "repo": "https://example.org/r", "branch": "b", "commit": "c"})
    del old["test_case"], old["artifacts"], old["execution"]["environment"]
    old["agent"]["status"] = "completed"
    bundle = loaded(tmp_path, old)
    assert bundle.test_case.name == "run-2025-11-20-1"
    assert bundle.agent.status is None
    assert "Python" not in sample.markdown(bundle)


def test_every_report_format_can_be_rendered(tmp_path: Path) -> None:
    bundle = loaded(tmp_path, original())
    for render in (sample.markdown, render_html, render_junit):
        assert "Add a README" in render(bundle)


def test_its_log_is_read_without_its_estimates(tmp_path: Path) -> None:
    bundle = loaded(tmp_path, original())
    directory = tmp_path / "run-2025-11-20-1" / "artifacts"
    when = "2025-11-20T10:00:00.000Z"
    old_log = {
        "version": "1.0.0",
        "agent": {"name": "copilot-cli", "version": "1", "adapter_version": "1"},
        "model": {"name": "gpt-4", "provider": "GitHub", "parameters": {}},
        "execution": {
            "started_at": when,
            "completed_at": when,
            "duration_ms": 1.5,
            "exit_code": 0,
            "status": "success",
        },
        "messages": [
            {"role": "user", "content": "do it", "timestamp": when},
            {
                "role": "assistant",
                "content": "ok",
                "timestamp": when,
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
            },
            {"role": "tool", "content": "a.txt", "timestamp": when, "tool_call_id": "t1"},
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110, "estimated_cost_usd": 3},
        "errors": [],
        "environment": {"os": "linux"},
    }
    (directory / "log.json").write_text(json.dumps(old_log))
    log = read_attachments(directory, bundle).log
    assert log is not None
    assert [message.content for message in log.messages] == ["do it", "ok"]
    assert [(call.name, call.result) for call in log.tool_calls] == [("ls", "a.txt")]
    assert log.usage is None
