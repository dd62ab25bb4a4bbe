"""The expected-diff evaluator: the agent's tree beside a reference."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import EvaluationContext
from youbencha.evaluators.config import config_problems, read_config
from youbencha.evaluators.expected_diff.comparison import Comparison, compare_trees, rounded_down
from youbencha.evaluators.globs import GlobList, PathFilter
from youbencha.evaluators.leaving_out import LeavingOut
from youbencha.evaluators.result import artifact, artifacts_root, counted, finished
from youbencha.evaluators.threads import in_thread
from youbencha.log import AssertionResult, EvaluationResult
from youbencha.spec import Written

REPORT = "expected-diff-report.json"
MOST_LISTED = 200
"""The least similar files, that a person looks at first. The report has them all."""


class ExpectedDiffConfig(Written):
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.8
    """The aggregate similarity from which on it passes. 0 passes always."""
    include_paths: GlobList = ()
    """Compare only these, in both trees."""
    exclude_paths: GlobList = ()


class ExpectedDiff:
    name = "expected-diff"
    description = "Compares the tree with a reference: similarity of each file and of all together, with a threshold."

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, *, agent_type: str | None = None
    ) -> Sequence[Problem]:
        return config_problems(ExpectedDiffConfig, config)

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        config = read_config(ExpectedDiffConfig, context.config, context.name)
        expected = context.expected_dir
        if expected is None:
            return finished(context, started, "skipped", _NO_REFERENCE)
        if not expected.is_dir():
            raise YouBenchaError("EXPECTED_NOT_FOUND", f"There is no reference at {expected}.", hint=_NO_REFERENCE)
        paths = PathFilter.of(config.include_paths, config.exclude_paths)
        left_out = LeavingOut(context.left_out)
        comparison = await in_thread(lambda wanted: compare_trees(context.directory, expected, paths, wanted, left_out))
        if config.include_paths and not comparison.files:
            raise _nothing_included(config.include_paths)
        metrics = _metrics(comparison, config.threshold)
        report = _write_report(context, comparison, metrics)
        passed = comparison.aggregate >= config.threshold
        return finished(
            context,
            started,
            "passed" if passed else "failed",
            _message(comparison, config.threshold, passed=passed),
            metrics=metrics,
            assertions=[
                AssertionResult(
                    name="threshold",
                    passed=passed,
                    expected=config.threshold,
                    actual=metrics["aggregate_similarity"],
                    message="" if passed else "the aggregate similarity is below the threshold",
                )
            ],
            artifacts=[artifact(context, "expected-diff-report", report, "The similarity of every file")],
        )


_NO_REFERENCE = (
    "There is no reference to compare with: give the test case `expected_source: branch` and `expected: NAME`, "
    "or `yb eval` an `expected_directory`."
)


def _nothing_included(patterns: Sequence[str]) -> YouBenchaError:
    """Two empty sets are alike, but nobody means that: there is a mistake in the patterns."""
    return YouBenchaError(
        "EXPECTED_DIFF_NOTHING_TO_COMPARE",
        f"No file in either tree matches include_paths ({', '.join(patterns)}).",
        hint="A pattern is held against the whole path: `**/*.py` matches at any depth, `*.py` only at the top.",
    )


def _metrics(comparison: Comparison, threshold: float) -> dict[str, Any]:
    listed = comparison.files[:MOST_LISTED]
    return {
        "aggregate_similarity": rounded_down(comparison.aggregate),
        "threshold": threshold,
        "method": comparison.method,
        "files_matched": comparison.count("matched"),
        "files_changed": comparison.count("changed"),
        "files_added": comparison.count("added"),
        "files_removed": comparison.count("removed"),
        "file_similarities": [file.as_data() for file in listed],
        "file_similarities_omitted": len(comparison.files) - len(listed),
    }


def _write_report(context: EvaluationContext, comparison: Comparison, metrics: Mapping[str, Any]) -> Path:
    """Where older versions of youBencha wrote it, if there is one; several of them must not share a place."""
    directory = artifacts_root(context) if context.name == ExpectedDiff.name else context.artifacts_dir
    shortened = ("file_similarities", "file_similarities_omitted")
    report = {name: value for name, value in metrics.items() if name not in shortened}
    report["file_similarities"] = [file.as_data() for file in comparison.files]
    path = directory / REPORT
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _message(comparison: Comparison, threshold: float, *, passed: bool) -> str:
    counts = (
        f"{counted(comparison.count('matched'), 'file')} identical, {comparison.count('changed'):,} changed, "
        f"{comparison.count('added'):,} added, {comparison.count('removed'):,} missing"
    )
    verdict = "reaches" if passed else "is below"
    return f"Similarity {rounded_down(comparison.aggregate):g} {verdict} the threshold of {threshold:g}: {counts}."
