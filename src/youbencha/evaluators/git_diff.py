"""The `git-diff` evaluator: how much the agent changed, and where, held against limits and paths."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, Field, field_validator

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import (
    EvaluationContext,
    artifact,
    config_problems,
    counted,
    evaluation_result,
    limit_results,
    printable,
    read_config,
)
from youbencha.evaluators.globs import Glob, GlobList, PathFilter
from youbencha.spec import StrictModel
from youbencha.workspace import Changes, FileChange

if TYPE_CHECKING:
    from youbencha.log import AssertionResult, EvaluationResult

__all__ = ["GitDiff"]


Lines = Annotated[int, Field(ge=0)]

Bits = Annotated[float, Field(ge=0, allow_inf_nan=False)]

MEASURES = ("files_changed", "lines_added", "lines_removed", "total_changes", "change_entropy")

LIMITS = tuple(f"{end}_{measure}" for measure in MEASURES for end in ("min", "max"))

_NO_BEGINNING = "Nothing to compare with: the directory is not in a git repository."

MOST_LISTED = 1_000
"""An agent that installs packages changes a hundred thousand files; the patch has them all."""

_MOST_NAMED = 20


class DiffLimits(StrictModel):
    """The least and the most of each measure. Zero is a limit like any other."""

    min_files_changed: Lines | None = None
    max_files_changed: Lines | None = None
    min_lines_added: Lines | None = None
    max_lines_added: Lines | None = None
    min_lines_removed: Lines | None = None
    max_lines_removed: Lines | None = None
    min_total_changes: Lines | None = None
    max_total_changes: Annotated[
        Lines | None, Field(validation_alias=AliasChoices("max_total_changes", "max_lines_changed"))
    ] = None
    min_change_entropy: Bits | None = None
    max_change_entropy: Bits | None = None

    def given(self) -> dict[str, float]:
        values = {name: getattr(self, name) for name in LIMITS}
        return {name: value for name, value in values.items() if value is not None}


class GitDiffConfig(DiffLimits):
    """The limits may also stand beside `assertions`, as older files have them."""

    assertions: DiffLimits = DiffLimits.model_construct()
    required_paths: GlobList = ()
    """Of each pattern, something must have been changed, added or deleted."""
    forbidden_paths: GlobList = ()
    """Nothing that matches may have been changed, added or deleted."""
    include_paths: GlobList = ()
    """Count only changes to these. `required_paths` and `forbidden_paths` look at all changes all the same."""
    exclude_paths: GlobList = ()
    base_commit: str | None = None
    """Older files name it. Changes are always counted from where the agent started, so it can only be that."""
    include_entropy: bool = True
    """Older files have it. The entropy is always there."""

    @field_validator("base_commit")
    @classmethod
    def _the_start(cls, commit: str | None) -> str | None:
        is_id = commit is not None and 4 <= len(commit) <= 64 and not set(commit.lower()) - set("0123456789abcdef")
        if commit in (None, "", "HEAD") or is_id:
            return commit or None
        raise ValueError(
            "can only be HEAD or the id of the commit that the agent started from: "
            "changes are counted from there, whatever the agent commits; best leave it out"
        )

    def limits(self) -> dict[str, float]:
        together = {**self.given(), **self.assertions.given()}
        return {name: together[name] for name in LIMITS if name in together}


def contradictions(config: GitDiffConfig) -> Iterator[Problem]:
    here, below = config.given(), config.assertions.given()
    for name in here:
        if name in below:
            yield Problem(name, f"is given twice: here, and as `assertions.{name}`")
    limits = config.limits()
    for measure in MEASURES:
        least, most = f"min_{measure}", f"max_{measure}"
        if least in limits and most in limits and limits[least] > limits[most]:
            where = least if least in here else f"assertions.{least}"
            yield Problem(where, f"must not be more than {most}: nothing could pass")


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
            return evaluation_result(context, started, "skipped", _NO_BEGINNING)
        _check_base(config, changes)
        counted_paths = PathFilter.of(config.include_paths, config.exclude_paths)
        metrics = change_metrics([file for file in changes.files if counted_paths.matches(file.path)])
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
        return evaluation_result(
            context,
            started,
            "failed" if violations else "passed",
            _message(metrics, violations),
            metrics=metrics,
            assertions=results,
            artifacts=[patch] if changes.patch_file.is_file() else [],
        )


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


def change_metrics(files: Sequence[FileChange]) -> dict[str, Any]:
    added = sum(file.additions or 0 for file in files)
    removed = sum(file.deletions or 0 for file in files)
    listed = _largest(files)
    return {
        "files_changed": len(files),
        "lines_added": added,
        "lines_removed": removed,
        "total_changes": added + removed,
        "change_entropy": change_entropy(file.changes for file in files),
        "binary_files": sum(file.is_binary for file in files),
        "changed_files": [_as_data(file) for file in listed],
        "changed_files_omitted": len(files) - len(listed),
    }


def change_entropy(changes: Iterable[int]) -> float:
    """Return how evenly changed lines are spread over the files, in bits: 0 for one file, log2 N for N alike."""
    counts = [count for count in changes if count > 0]
    if len(counts) < 2:
        return 0.0
    total = sum(counts)
    return -math.fsum(count / total * math.log2(count / total) for count in counts)


def _largest(files: Sequence[FileChange]) -> Sequence[FileChange]:
    """Return the files with the most changes if there are too many to list, in their original order."""
    if len(files) <= MOST_LISTED:
        return files
    by_size = sorted(range(len(files)), key=lambda index: -files[index].changes)
    return [files[index] for index in sorted(by_size[:MOST_LISTED])]


def _as_data(file: FileChange) -> dict[str, Any]:
    return {
        "path": printable(file.path),
        "additions": file.additions,
        "deletions": file.deletions,
        "changes": file.changes,
        "kind": file.kind,
        "binary": file.is_binary,
    }


def required_results(patterns: Iterable[str], paths: Sequence[str]) -> Iterator[AssertionResult]:
    for pattern, found in _found(patterns, paths):
        message = "" if found else f"nothing that matches {pattern} was changed"
        yield _about_paths("required_paths", pattern, found, message)


def forbidden_results(patterns: Iterable[str], paths: Sequence[str]) -> Iterator[AssertionResult]:
    for pattern, found in _found(patterns, paths):
        others = f" and {counted(len(found) - 1, 'other')}" if len(found) > 1 else ""
        message = f"{found[0]}{others} must not be changed ({pattern})" if found else ""
        yield _about_paths("forbidden_paths", pattern, found, message)


def _found(patterns: Iterable[str], paths: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for pattern in patterns:
        glob = Glob(pattern)
        yield pattern, [printable(path) for path in paths if glob.matches(path)]


def _about_paths(name: str, pattern: str, found: Sequence[str], message: str) -> AssertionResult:
    from youbencha.log import AssertionResult

    return AssertionResult(
        name=name, passed=not message, expected=pattern, actual=list(found[:_MOST_NAMED]), message=message
    )
