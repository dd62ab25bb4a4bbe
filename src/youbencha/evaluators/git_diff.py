"""Measure what the agent changed, and check it against limits and paths."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, Field, field_validator

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import (
    EvaluationContext,
    EvaluatorBase,
    artifact,
    evaluation_result,
    limit_results,
    printable,
)
from youbencha.evaluators.globs import Glob, GlobList, PathFilter
from youbencha.spec import StrictModel
from youbencha.store.bundle import AssertionResult, EvaluationResult
from youbencha.text import first_few, plural
from youbencha.workspace import Changes, FileChange

__all__ = ["GitDiff"]


Lines = Annotated[int, Field(ge=0)]
Bits = Annotated[float, Field(ge=0, allow_inf_nan=False)]
MEASURES = ("files_changed", "lines_added", "lines_removed", "total_changes", "change_entropy")
LIMITS = tuple(f"{end}_{measure}" for measure in MEASURES for end in ("min", "max"))


MAX_LISTED = 1_000
"""The number of files in the result: an agent that installs packages may change 100,000. The patch has them all."""

_MAX_PATHS = 20


class DiffLimits(StrictModel):
    """The limits of each measure."""

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

    def set_limits(self) -> dict[str, float]:
        values = {name: getattr(self, name) for name in LIMITS}
        return {name: value for name, value in values.items() if value is not None}


class GitDiffConfig(DiffLimits):
    """The limits may also be next to `assertions`, as in older files."""

    assertions: DiffLimits = DiffLimits.model_construct()
    required_paths: GlobList = ()
    """For each pattern, a matching file must have been changed, added or deleted."""
    forbidden_paths: GlobList = ()
    """No matching file may have been changed, added or deleted."""
    include_paths: GlobList = ()
    """Count only changes to these. `required_paths` and `forbidden_paths` still apply to all changes."""
    exclude_paths: GlobList = ()
    base_commit: str | None = None
    """For older files: changes are always counted from the commit that the agent started from."""
    include_entropy: bool = True
    """For older files: the entropy is always reported."""

    @field_validator("base_commit")
    @classmethod
    def _the_start(cls, commit: str | None) -> str | None:
        is_id = commit is not None and 4 <= len(commit) <= 64 and not set(commit.lower()) - set("0123456789abcdef")
        if commit in (None, "", "HEAD") or is_id:
            return commit or None
        raise ValueError(
            "must be HEAD or the id of the commit that the agent started from, from which changes are always counted; "
            "it can be removed"
        )

    def limits(self) -> dict[str, float]:
        merged = {**self.set_limits(), **self.assertions.set_limits()}
        return {name: merged[name] for name in LIMITS if name in merged}


class GitDiff(EvaluatorBase[GitDiffConfig]):
    name = "git-diff"
    description = "Counts what the agent changed (files, lines, entropy), with limits, required and forbidden paths."

    config_model = GitDiffConfig

    def contradictions(self, config: GitDiffConfig) -> Iterator[Problem]:
        top_level, nested = config.set_limits(), config.assertions.set_limits()
        for name in top_level:
            if name in nested:
                yield Problem(name, f"is set twice: here, and as `assertions.{name}`")
        limits = config.limits()
        for measure in MEASURES:
            least, most = f"min_{measure}", f"max_{measure}"
            if least in limits and most in limits and limits[least] > limits[most]:
                path = (least,) if least in top_level else ("assertions", least)
                yield Problem(path, f"must not be more than {most}: nothing could pass")

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        config = self.read_config(context)
        changes = context.changes
        if changes is None:
            message = "There is nothing to compare with: the directory is not in a git repository."
            return evaluation_result(context, started, "skipped", message)
        _check_base(config, changes)
        counted_paths = PathFilter.of(config.include_paths, config.exclude_paths)
        counted = [file for file in changes.files if counted_paths.matches(file.path)]
        metrics = change_metrics(counted)
        every_path = [file.path for file in changes.files]
        results = [
            *(_with_file_names(result, counted) for result in limit_results(config.limits(), metrics)),
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


def _with_file_names(result: AssertionResult, counted: Sequence[FileChange]) -> AssertionResult:
    """Add the names of the changed files to the message of a failed `max_files_changed`."""
    if result.passed or result.name != "max_files_changed":
        return result
    names = first_few([printable(file.path) for file in counted])
    return result.model_copy(update={"message": f"{result.message} ({names})"})


def _check_base(config: GitDiffConfig, changes: Changes) -> None:
    """Raise YouBenchaError if the numbers would not be those that the configured base commit implies."""
    configured = config.base_commit
    if configured in (None, "HEAD") or (changes.base_commit or "").startswith(configured.lower()):
        return
    raise YouBenchaError(
        "GIT_DIFF_OTHER_BASE",
        f"The configured base_commit is {configured}, but the agent started from {changes.base_commit or 'no commit'}.",
        hint="Remove base_commit, or set the test case's `commit` to the same commit.",
    )


def _message(metrics: Mapping[str, Any], violations: Sequence[str]) -> str:
    files = metrics["files_changed"]
    if not files:
        summary = "There are no changes"
    else:
        binary = f", {metrics['binary_files']:,} of them binary" if metrics["binary_files"] else ""
        lines = f"{plural(metrics['lines_added'], 'line')} added, {metrics['lines_removed']:,} removed"
        summary = f"{plural(files, 'file')} changed{binary}: {lines}"
    return f"{summary}, but {'; '.join(violations)}." if violations else f"{summary}."


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
    """Measure how evenly the changed lines are spread over the files, in bits: 0 for one file, log2 N for N equal
    ones."""
    counts = [count for count in changes if count > 0]
    if len(counts) < 2:
        return 0.0
    total = sum(counts)
    return -math.fsum(count / total * math.log2(count / total) for count in counts)


def _largest(files: Sequence[FileChange]) -> Sequence[FileChange]:
    """Return the files with the most changes if there are too many to list, in their original order."""
    if len(files) <= MAX_LISTED:
        return files
    by_size = sorted(range(len(files)), key=lambda index: -files[index].changes)
    return [files[index] for index in sorted(by_size[:MAX_LISTED])]


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
    for pattern, matches in _matches(patterns, paths):
        message = "" if matches else f"no file that matches {pattern} was changed"
        yield _path_result("required_paths", pattern, matches, message)


def forbidden_results(patterns: Iterable[str], paths: Sequence[str]) -> Iterator[AssertionResult]:
    for pattern, matches in _matches(patterns, paths):
        others = f" and {plural(len(matches) - 1, 'other')}" if len(matches) > 1 else ""
        message = f"{matches[0]}{others} must not be changed ({pattern})" if matches else ""
        yield _path_result("forbidden_paths", pattern, matches, message)


def _matches(patterns: Iterable[str], paths: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for pattern in patterns:
        glob = Glob(pattern)
        yield pattern, [printable(path) for path in paths if glob.matches(path)]


def _path_result(name: str, pattern: str, matches: Sequence[str], message: str) -> AssertionResult:
    return AssertionResult(
        name=name, passed=not message, expected=pattern, actual=list(matches[:_MAX_PATHS]), message=message
    )
