"""What a hook is told: where things are, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from youbencha.log import ResultsBundle


@dataclass(frozen=True, kw_only=True)
class PreHookPlaces:
    workspace_dir: Path
    """Where the agent will work (`src-modified`): what a hook puts there, the agent finds."""
    artifacts_dir: Path
    config_dir: Path
    """Where the test case's file lies: relative programs are looked for there."""
    test_case: str
    repo_url: str
    """Without credentials."""
    branch: str | None = None

    @property
    def working_dir(self) -> Path:
        """Where a script runs; its own `working_dir` is relative to it."""
        return self.workspace_dir

    def variables(self) -> dict[str, str]:
        return {
            "WORKSPACE_DIR": str(self.workspace_dir),
            "REPO_DIR": str(self.workspace_dir),
            "ARTIFACTS_DIR": str(self.artifacts_dir),
            "TEST_CASE_NAME": self.test_case,
            "REPO_URL": self.repo_url,
            "BRANCH": self.branch or "",  # there, though empty: a script under `set -u` must be able to ask
        }


@dataclass(frozen=True, kw_only=True)
class PostHookPlaces:
    workspace_dir: Path
    """What was judged: `src-modified`, or the directory that `yb eval` looked at."""
    artifacts_dir: Path
    config_dir: Path
    """Where the test case's file lies: scripts run there, and relative paths start there."""
    results_path: Path
    """`results.json`, already written."""

    @property
    def working_dir(self) -> Path:
        return self.config_dir

    def variables(self, bundle: ResultsBundle) -> dict[str, str]:
        return {
            "RESULTS_PATH": str(self.results_path),
            "ARTIFACTS_DIR": str(self.artifacts_dir),
            "WORKSPACE_DIR": str(self.workspace_dir),
            "REPO_DIR": str(self.workspace_dir),
            "TEST_CASE_NAME": bundle.test_case.name,
            "OVERALL_STATUS": bundle.summary.overall_status,
        }
