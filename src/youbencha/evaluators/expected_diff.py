"""Compare the agent's tree with a reference: the similarity of each file, and of all together."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

from pydantic import Field
from rapidfuzz.distance import Levenshtein

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import (
    CheckCancelled,
    EvaluationContext,
    EvaluatorBase,
    artifact,
    artifacts_root,
    evaluation_result,
    in_thread,
    printable,
)
from youbencha.evaluators.globs import GlobList, PathFilter
from youbencha.spec import StrictModel
from youbencha.store.bundle import AssertionResult, EvaluationResult
from youbencha.text import plural
from youbencha.workspace.listing import in_tool_cache
from youbencha.workspace.trees import TreeFile, files_below

__all__ = ["ExpectedDiff"]


REPORT = "expected-diff-report.json"

MAX_LISTED = 200
"""The number of files in the result, the least similar first. The report lists all files."""

_NO_REFERENCE = (
    "Set a reference to compare with: `expected_source: branch` and `expected: NAME` in the test case, "
    "or `expected_directory` for `yb eval`."
)

FileStatus = Literal["matched", "changed", "added", "removed"]
Method = Literal["exact", "by_lines", "by_bytes"]
_LEAST_EXACT_FIRST: tuple[Method, ...] = ("by_lines", "by_bytes")

MAX_MEASURED_BYTES = 16 * 1024 * 1024
"""Larger files are only compared for equality: measuring them takes ten seconds each, and hundreds of megabytes."""

MAX_CELLS = 100_000_000
"""Length times length up to which the edit distance is computed in full: 5 ms (10,000 characters each)."""

MAX_NEAR_DISTANCE = 1_000
"""The distance up to which long texts are compared in full: 3 ms for 30 KB, 80 ms for 1 MB."""

_CUTS: tuple[Callable[[str], list[str]], ...] = (
    partial(str.splitlines, keepends=True),
    re.compile(r"\w+\W*|\W+").findall,
)
"""Ways to cut long texts: into lines, otherwise into words with what follows them."""

MAX_PIECE_CELLS = 20_000_000_000
"""The number of pieces of one text times that of the other: aligning 150,000 lines with 150,000 takes 5 s."""

_CHUNK_BYTES = 1024 * 1024


class ExpectedDiffConfig(StrictModel):
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Minimum aggregate similarity that passes. 0 always passes."""
    include_paths: GlobList = ()
    """Compare only these, in both trees."""
    exclude_paths: GlobList = ()


class ExpectedDiff(EvaluatorBase[ExpectedDiffConfig]):
    name = "expected-diff"
    description = "Compares the tree with a reference: similarity of each file and of all together, with a threshold."

    config_model = ExpectedDiffConfig
    needs_expected = True

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        config = self.read_config(context)
        expected = context.expected_dir
        if expected is None:
            return evaluation_result(context, started, "skipped", _NO_REFERENCE)
        if not expected.is_dir():
            raise YouBenchaError("EXPECTED_NOT_FOUND", f"The reference {expected} does not exist.", hint=_NO_REFERENCE)
        paths = PathFilter.of(config.include_paths, config.exclude_paths)
        skip = context.left_out
        comparison = await in_thread(
            lambda check_cancelled: compare_trees(context.directory, expected, paths, check_cancelled, skip)
        )
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
    """Make an error: two empty sets of files would be identical."""
    return YouBenchaError(
        "EXPECTED_DIFF_NOTHING_TO_COMPARE",
        f"No file in either tree matches include_paths ({', '.join(patterns)}).",
        hint="A pattern must match the whole path: `**/*.py` matches at any depth, `*.py` only at the top.",
    )


def _metrics(comparison: Comparison, threshold: float) -> dict[str, Any]:
    listed = comparison.files[:MAX_LISTED]
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
    """Write the report: where older versions of youBencha did, or for a labelled evaluator in its own directory."""
    directory = artifacts_root(context) if context.name == ExpectedDiff.name else context.artifacts_dir
    shortened = ("file_similarities", "file_similarities_omitted")
    report = {name: value for name, value in metrics.items() if name not in shortened}
    report["file_similarities"] = [file.as_data() for file in comparison.files]
    path = directory / REPORT
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _message(comparison: Comparison, threshold: float, *, passed: bool) -> str:
    counts = (
        f"{plural(comparison.count('matched'), 'file')} identical, {comparison.count('changed'):,} changed, "
        f"{comparison.count('added'):,} added, {comparison.count('removed'):,} missing"
    )
    verdict = "reaches" if passed else "is below"
    return f"Similarity {rounded_down(comparison.aggregate):g} {verdict} the threshold of {threshold:g}: {counts}."


@dataclass(frozen=True, slots=True)
class ComparedFile:
    path: str
    status: FileStatus
    """`added`: not in the reference. `removed`: only in the reference."""
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
        """The least exact method that was used."""
        used = {file.method for file in self.files}
        return next((method for method in _LEAST_EXACT_FIRST if method in used), "exact")

    @property
    def aggregate(self) -> float:
        """The mean similarity of files in both trees, minus the share of those in only one. Empty trees are
        identical."""
        if not self.files:
            return 1.0
        shared = [file.similarity for file in self.files if file.status in ("matched", "changed")]
        mean = math.fsum(shared) / len(shared) if shared else 0.0
        return min(1.0, max(0.0, mean - (len(self.files) - len(shared)) / len(self.files)))


def compare_trees(
    actual: Path,
    expected: Path,
    paths: PathFilter,
    check_cancelled: CheckCancelled = lambda: None,
    skip: Iterable[Path] = (),
) -> Comparison:
    """Compare the files of both trees, except those in caches of tools that only one tree has."""
    actual_files, expected_files = (
        {file.path: file for file in files_below(tree, skip) if paths.matches(file.path)} for tree in (actual, expected)
    )
    compared = []
    in_one = actual_files.keys() ^ expected_files.keys()
    caches = {path for path in in_one if in_tool_cache(os.fsencode(path))}
    for path in (actual_files.keys() | expected_files.keys()) - caches:
        check_cancelled()
        compared.append(_compared(path, actual_files.get(path), expected_files.get(path)))
    return Comparison(tuple(sorted(compared, key=lambda file: (file.similarity, file.path))))


def rounded_down(similarity: float) -> float:
    """Six digits, never rounded up: only identical trees may show 1.0, and only a pass may show the threshold."""
    return math.floor(similarity * 1e6) / 1e6


def _compared(path: str, actual: TreeFile | None, expected: TreeFile | None) -> ComparedFile:
    if actual is None:
        return ComparedFile(path, "removed", 0.0)
    if expected is None:
        return ComparedFile(path, "added", 0.0)
    similarity, method = file_similarity(actual, expected)
    return ComparedFile(path, "matched" if similarity == 1.0 else "changed", similarity, method)


def file_similarity(actual: TreeFile, expected: TreeFile) -> Similarity:
    """Links are not followed: two links are compared by their targets, and a link and a file are different."""
    if actual.is_link != expected.is_link:
        return Similarity(0.0, "exact")
    try:
        if actual.is_link:
            return text_similarity(str(actual.full_path.readlink()), str(expected.full_path.readlink()))
        with actual.open() as one, expected.open() as other:
            return _content_similarity(one, other)
    except OSError:
        return Similarity(0.0, "by_bytes")  # an unreadable file is not the expected one


def _content_similarity(actual: BinaryIO, expected: BinaryIO) -> Similarity:
    sizes = [os.fstat(file.fileno()).st_size for file in (actual, expected)]
    if max(sizes) > MAX_MEASURED_BYTES:
        identical = sizes[0] == sizes[1] and _same_bytes(actual, expected)
        return Similarity(1.0 if identical else 0.0, "by_bytes")
    one, other = actual.read(sizes[0]), expected.read(sizes[1])
    return Similarity(1.0, "exact") if one == other else text_similarity(*_as_texts(one, other))


def _as_texts(one: bytes, other: bytes) -> tuple[str, str]:
    """Decode both, or, if either is not text, make each byte one character."""
    if b"\0" not in one and b"\0" not in other:
        try:
            return one.decode(), other.decode()
        except UnicodeDecodeError:
            pass
    return one.decode("latin-1"), other.decode("latin-1")


class Similarity(NamedTuple):
    similarity: float
    """From 0 to 1; 1 only for identical texts."""
    method: Method


def text_similarity(one: str, other: str) -> Similarity:
    """Return 1 - edit distance / longer length.

    The edit distance takes quadratic time: 32 ms for two texts of 30 KB, half a minute for 1 MB. So it is computed in
    full only for short texts, and for long ones that are nearly the same. Other texts are aligned by lines, and the
    distances between the lines that differ are summed: the similarity is then a lower bound of the exact one.
    """
    if one == other:
        return Similarity(1.0, "exact")
    longer = max(len(one), len(other))
    if len(one) * len(other) > MAX_CELLS:
        near = Levenshtein.distance(one, other, score_cutoff=MAX_NEAR_DISTANCE, score_hint=32)
        if near > MAX_NEAR_DISTANCE:
            first, second = sorted((one, other))  # so that the result is symmetric
            return Similarity(1 - _distance_by_pieces(first, second, _CUTS) / longer, "by_lines")
        return Similarity(1 - near / longer, "exact")
    return Similarity(1 - Levenshtein.distance(one, other) / longer, "exact")


def _distance_by_pieces(one: str, other: str, cuts: Sequence[Callable[[str], list[str]]]) -> int:
    """Return an upper bound of the edit distance."""
    longer = max(len(one), len(other))
    if len(one) * len(other) <= MAX_CELLS:
        return Levenshtein.distance(one, other)
    if not cuts:
        return longer
    left, right = cuts[0](one), cuts[0](other)
    if len(left) * len(right) > MAX_PIECE_CELLS:
        return longer
    differing = (
        ("".join(left[block.src_start : block.src_end]), "".join(right[block.dest_start : block.dest_end]))
        for block in Levenshtein.opcodes(left, right)
        if block.tag != "equal"
    )
    return min(longer, sum(_distance_by_pieces(*pieces, cuts[1:]) for pieces in differing))


def _same_bytes(actual: BinaryIO, expected: BinaryIO) -> bool:
    while chunk := actual.read(_CHUNK_BYTES):
        if chunk != expected.read(_CHUNK_BYTES):
            return False
    return True
