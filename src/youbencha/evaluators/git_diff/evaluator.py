"""The git-diff evaluator: changes since the agent's start, held against limits and paths."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import EvaluationContext
from youbencha.evaluators.config import config_problems, read_config
from youbencha.evaluators.git_diff.config import GitDiffConfig, contradictions
from youbencha.evaluators.git_diff.measure import change_metrics
from youbencha.evaluators.git_diff.paths import forbidden_results, required_results
from youbencha.evaluators.globs import PathFilter
from youbencha.evaluators.limits import limit_results
from youbencha.evaluators.result import artifact, counted, finished
from youbencha.workspace import Changes

if TYPE_CHECKING:
    from youbencha.log import EvaluationResult


class GitDiff:
    name = "git-diff"
    description = "Counts what the agent changed (files, lines, entropy), with limits, required and forbidden paths."

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, *, agent_type: str | None = None
    ) -> Sequence[Problem]:
        return config_problems(GitDiffConfig, config, contradictions)

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        config = read_config(GitDiffConfig, context.config, context.name, contradictions)
        changes = context.changes
        if changes is None:
            return finished(context, started, "skipped", _NO_BEGINNING)
        _check_base(config, changes)
        counted_paths = PathFilter.of(config.include_paths, config.exclude_paths)
        metrics = change_metrics([file for file in changes.files if counted_paths.lets_through(file.path)])
        every_path = [file.path for file in changes.files]
        results = [
            *limit_results(config.limits(), metrics),
            *required_results(config.required_paths, every_path),
            *forbidden_results(config.forbidden_paths, every_path),
        ]
        violations = [result.message for result in results if not result.passed]
        metrics |= {
            "base_commit": changes.base_commit,
            "current_commit": changes.current_commit,
            "violations": violations,
        }
        patch = artifact(context, "patch", changes.patch_file, "Everything that changed, for `git apply`")
        return finished(
            context,
            started,
            "failed" if violations else "passed",
            _message(metrics, violations),
            metrics=metrics,
            assertions=results,
            artifacts=[patch] if changes.patch_file.is_file() else [],
        )


_NO_BEGINNING = "There is no beginning to compare with: the directory is not in a git repository."


def _check_base(config: GitDiffConfig, changes: Changes) -> None:
    """A commit that is not the start would give other numbers than the person expects: better none."""
    wanted = config.base_commit
    if wanted in (None, "HEAD") or (changes.base_commit or "").startswith(wanted.lower()):
        return
    raise YouBenchaError(
        "GIT_DIFF_OTHER_BASE",
        f"base_commit is {wanted}, but the agent started from {changes.base_commit or 'no commit'}.",
        hint="Leave base_commit out, or name the same commit as `commit` of the test case.",
    )


def _message(metrics: Mapping[str, Any], violations: Sequence[str]) -> str:
    files = metrics["files_changed"]
    if not files:
        summary = "There are no changes"
    else:
        binary = f", {metrics['binary_files']:,} of them binary" if metrics["binary_files"] else ""
        lines = f"{counted(metrics['lines_added'], 'line')} added, {metrics['lines_removed']:,} removed"
        summary = f"{counted(files, 'file')} changed{binary}: {lines}"
    return f"{summary}; but {'; '.join(violations)}." if violations else f"{summary}."
