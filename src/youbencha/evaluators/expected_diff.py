"""The `expected-diff` evaluator: how close the agent came to a reference."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import (
    CheckCancelled,
    EvaluationContext,
    artifact,
    artifacts_root,
    config_problems,
    counted,
    evaluation_result,
    in_thread,
    printable,
    read_config,
)
from youbencha.evaluators.globs import GlobList, PathFilter
from youbencha.evaluators.similarity import Method, Similarity, text_similarity
from youbencha.log import AssertionResult, EvaluationResult
from youbencha.spec import StrictModel
from youbencha.workspace.trees import TreeFile, files_below

__all__ = ["ExpectedDiff"]


REPORT = "expected-diff-report.json"

MOST_LISTED = 200
"""The least similar files, that a person looks at first. The report has them all."""

_NO_REFERENCE = (
    "There is no reference to compare with: give the test case `expected_source: branch` and `expected: NAME`, "
    "or `yb eval` an `expected_directory`."
)

FileStatus = Literal["matched", "changed", "added", "removed"]

_LEAST_EXACT_FIRST: tuple[Method, ...] = ("by_lines", "by_bytes")

LARGEST_MEASURED = 16 * 1024 * 1024
"""Larger files are identical or not: to measure them would take ten seconds each, and hundreds of megabytes."""

_CHUNK = 1024 * 1024


class ExpectedDiffConfig(StrictModel):
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
            return evaluation_result(context, started, "skipped", _NO_REFERENCE)
        if not expected.is_dir():
            raise YouBenchaError("EXPECTED_NOT_FOUND", f"There is no reference at {expected}.", hint=_NO_REFERENCE)
        paths = PathFilter.of(config.include_paths, config.exclude_paths)
        skip = context.left_out
        comparison = await in_thread(lambda wanted: compare_trees(context.directory, expected, paths, wanted, skip))
        if config.include_paths and not comparison.files:
            raise _nothing_included(config.include_paths)
        metrics = _metrics(comparison, config.threshold)
        report = _write_report(context, comparison, metrics)
        passed = comparison.aggregate >= config.threshold
        return evaluation_result(
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


def _nothing_included(patterns: Sequence[str]) -> YouBenchaError:
    """Two empty sets are equal, but that is a mistake in the patterns."""
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
    """Write the report where older versions of youBencha did; several evaluators must not share a place."""
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


@dataclass(frozen=True, slots=True)
class ComparedFile:
    path: str
    status: FileStatus
    """`added`: not in the reference. `removed`: only there."""
    similarity: float
    method: Method = "exact"

    def as_data(self) -> dict[str, Any]:
        return {
            "path": printable(self.path),
            "similarity": rounded_down(self.similarity),
            "status": self.status,
            "method": self.method,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    files: tuple[ComparedFile, ...]
    """The least similar first, then by path."""

    def count(self, status: FileStatus) -> int:
        return sum(file.status == status for file in self.files)

    @property
    def method(self) -> Method:
        """The least exact of all that were used."""
        used = {file.method for file in self.files}
        return next((method for method in _LEAST_EXACT_FIRST if method in used), "exact")

    @property
    def aggregate(self) -> float:
        """The mean over files in both trees, less the share of those in only one. Two empty trees are alike."""
        if not self.files:
            return 1.0
        shared = [file.similarity for file in self.files if file.status in ("matched", "changed")]
        mean = math.fsum(shared) / len(shared) if shared else 0.0
        return min(1.0, max(0.0, mean - (len(self.files) - len(shared)) / len(self.files)))


def compare_trees(
    ours: Path,
    expected: Path,
    counted: PathFilter,
    check_cancelled: CheckCancelled = lambda: None,
    skip: Iterable[Path] = (),
) -> Comparison:
    here, there = (_by_path(files_below(tree, skip), counted) for tree in (ours, expected))
    found = []
    for path in here.keys() | there.keys():
        check_cancelled()
        found.append(_compared(path, here.get(path), there.get(path)))
    return Comparison(tuple(sorted(found, key=lambda file: (file.similarity, file.path))))


def rounded_down(similarity: float) -> float:
    """Six digits, and never up: what is not identical must not read 1.0, nor what failed like its threshold."""
    return math.floor(similarity * 1e6) / 1e6


def _by_path(files: Iterable[TreeFile], counted: PathFilter) -> dict[str, TreeFile]:
    return {file.path: file for file in files if counted.matches(file.path)}


def _compared(path: str, ours: TreeFile | None, expected: TreeFile | None) -> ComparedFile:
    if ours is None:
        return ComparedFile(path, "removed", 0.0)
    if expected is None:
        return ComparedFile(path, "added", 0.0)
    like = file_likeness(ours, expected)
    return ComparedFile(path, "matched" if like.similarity == 1.0 else "changed", like.similarity, like.method)


def file_likeness(ours: TreeFile, expected: TreeFile) -> Similarity:
    """Compare two files, or two links by their targets. No link is followed, and no large file is read whole."""
    if ours.is_link != expected.is_link:
        return Similarity(0.0, "exact")
    try:
        if ours.is_link:
            return text_similarity(str(Path(ours.place).readlink()), str(Path(expected.place).readlink()))
        return _of_files(Path(ours.place), Path(expected.place))
    except OSError:
        return Similarity(0.0, "by_bytes")  # what cannot be read is not what was expected


def _of_files(ours: Path, expected: Path) -> Similarity:
    sizes = ours.stat().st_size, expected.stat().st_size
    if max(sizes) > LARGEST_MEASURED:
        identical = sizes[0] == sizes[1] and _same_bytes(ours, expected)
        return Similarity(1.0 if identical else 0.0, "by_bytes")
    one, other = ours.read_bytes(), expected.read_bytes()
    return Similarity(1.0, "exact") if one == other else text_similarity(*_as_texts(one, other))


def _as_texts(one: bytes, other: bytes) -> tuple[str, str]:
    """Compare characters or, if either is binary, bytes: one edit is then one byte."""
    if b"\0" not in one and b"\0" not in other:
        try:
            return one.decode(), other.decode()
        except UnicodeDecodeError:
            pass
    return one.decode("latin-1"), other.decode("latin-1")


def _same_bytes(ours: Path, expected: Path) -> bool:
    with ours.open("rb") as one, expected.open("rb") as other:
        while chunk := one.read(_CHUNK):
            if chunk != other.read(_CHUNK):
                return False
    return True
