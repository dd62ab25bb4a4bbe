"""A finished run, for the tests of hooks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from youbencha.hooks import HookContext, post_evaluation_variables, pre_execution_variables
from youbencha.log.model import Usage
from youbencha.process import Redactor
from youbencha.store.bundle import (
    AgentRun,
    ArtifactManifest,
    Environment,
    EvaluationResult,
    Identity,
    Outcome,
    ResultsBundle,
    RunExecution,
    Summary,
    TestCaseInfo,
)

NOW = "2026-01-02T03:04:05.678Z"


def bundle(run_id: str = "run-1", **changes: Any) -> ResultsBundle:
    whole: dict[str, Any] = {
        "test_case": TestCaseInfo(name="Fix it", config_file="testcase.yaml", config_hash="ab", commit="c0ffee"),
        "execution": RunExecution(
            started_at=NOW,
            completed_at=NOW,
            duration_ms=1234,
            youbencha_version="1.2.3",
            environment=Environment(os="Linux", python_version="3.11", workspace_dir="w"),
        ),
        "agent": AgentRun(
            type="claude-code", model="opus", usage=Usage(input_tokens=10, output_tokens=20, cost_usd=0.25)
        ),
        "evaluators": (
            EvaluationResult(
                evaluator="git-diff", status="passed", message="ok", timestamp=NOW, metrics={"files": ["ä", "b\udcff"]}
            ),
        ),
        "summary": Summary(total_evaluators=1, passed=1, failed=0, skipped=0, overall_status="passed"),
        "outcome": Outcome(name="solved", valid=True, reason="passed"),
        "identity": Identity(run_id=run_id, youbencha_version="1.2.3", config_hash="ab"),
        "artifacts": ArtifactManifest(agent_log="youbencha-log.json", diff="git-diff.patch", reports=("report.md",)),
    }
    return ResultsBundle(**{**whole, **changes})


@dataclass(frozen=True)
class HookBench:
    """The directories of a run below one."""

    root: Path

    def __post_init__(self) -> None:
        for directory in (self.workspace, self.artifacts, self.config):
            directory.mkdir()
        (self.artifacts / "results.json").write_text("{}")

    @property
    def workspace(self) -> Path:
        return self.root / "src-modified"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def config(self) -> Path:
        return self.root / "config dir"

    def before(self, env: Mapping[str, str] = os.environ, **more: Any) -> HookContext:
        test_case = TestCaseInfo(
            name="Fix it", config_file="x", config_hash="ab", repo="https://example.com/r.git", branch="main"
        )
        return HookContext(
            working_dir=self.workspace,
            artifacts_dir=self.artifacts,
            config_dir=self.config,
            variables=pre_execution_variables(test_case, workspace_dir=self.workspace, artifacts_dir=self.artifacts),
            env=env,
            redactor=Redactor.for_env(env),
            **more,
        )

    def after(self, results: ResultsBundle, env: Mapping[str, str] = os.environ, **more: Any) -> HookContext:
        return HookContext(
            working_dir=self.config,
            artifacts_dir=self.artifacts,
            config_dir=self.config,
            variables=post_evaluation_variables(
                results,
                workspace_dir=self.root,
                repo_dir=self.workspace,
                artifacts_dir=self.artifacts,
                results_path=self.artifacts / "results.json",
            ),
            env=env,
            redactor=Redactor.for_env(env),
            **more,
        )
