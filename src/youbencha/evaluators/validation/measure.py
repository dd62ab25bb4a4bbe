"""Take a tree through the steps of a validation: an agent's work, the untouched task, or the reference solution."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, SandboxOptions, in_thread
from youbencha.evaluators.validation.problems import why_not_runnable
from youbencha.evaluators.validation.steps import RunReports, StepResult, StepRunner
from youbencha.evaluators.validation.task import ValidationTask
from youbencha.evaluators.validation.work import write_work
from youbencha.files import read_untrusted
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST, LocalSandbox, open_local_sandbox
from youbencha.scoring.code_metrics import SourceFile, is_source_file, is_test_file
from youbencha.scoring.lint import count_issues
from youbencha.scoring.test_output import TestCounts
from youbencha.workspace import FileChange
from youbencha.workspace.trees import remove_tree

_LARGEST_SOURCE = 8 * 1024 * 1024


class ValidatedTree(NamedTuple):
    """A tree to validate."""

    path: Path
    changes: tuple[FileChange, ...]
    """What differs from the task's start."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    changes: tuple[FileChange, ...]
    steps: Mapping[str, StepResult]
    tests: RunReports
    """Of the run that counts: given and hidden tests. Without hidden tests, a greenfield task has only the agent's."""
    agent_tests: RunReports | None
    """Of the agent's own tests, for a greenfield task."""
    coverage: float | None
    lint_issues: int | None
    sources: tuple[SourceFile, ...]
    """The code that the agent wrote, for a greenfield task."""
    reconfigured: tuple[str, ...] = ()
    """Files of the project that configured the tests in another way."""

    @property
    def counting_step(self) -> str:
        return "hidden" if "hidden" in self.steps else "test"

    @property
    def built(self) -> bool | None:
        """None: there is nothing to build."""
        return self.steps["build"].succeeded if "build" in self.steps else None


class Baseline(NamedTuple):
    """What is known of a task without an agent."""

    expected: int | None
    """How many tests must run. None: unknown."""
    most: int | None
    """How many there are, by the reference solution. More are not believed: another program printed them."""
    sources: frozenset[str]
    """Where the number of tests was found. Others are not believed, if this is known."""
    lint_issues: int | None
    problem: str | None
    """Why nothing can be validated."""

    def believed(self, reports: RunReports) -> TestCounts | None:
        """The number of tests, if it can be true."""
        counts = reports.counts(self.sources)
        return None if counts is None or self.has_too_many(counts) else counts

    def has_too_many(self, counts: TestCounts) -> bool:
        return self.most is not None and counts.ran > self.most


async def measure_work(context: EvaluationContext, task: ValidationTask) -> Measurement:
    """Validate the agent's work, in the configured mode."""
    async with _place(context) as place:
        tree = place / "tree"
        changes = await write_work(context, task, tree)
        async with _sandbox(context, task, tree, agent_state=task.config.mode == "shared") as sandbox:
            return await _measure(context, task, ValidatedTree(tree, changes), sandbox, "")


async def measure_patch(
    context: EvaluationContext, task: ValidationTask, patch: Path | None, *, label: str = ""
) -> Measurement:
    """Validate a clean checkout with a patch, in a fresh sandbox."""
    async with _place(context) as place:
        tree = place / "tree"
        changes = await task.repository.write_patched(patch, tree)
        async with _sandbox(context, task, tree) as sandbox:
            return await _measure(context, task, ValidatedTree(tree, changes), sandbox, label)


async def measure_baseline(context: EvaluationContext, task: ValidationTask) -> Baseline:
    """Validate the untouched task, and the reference solution if there is one."""
    start = await measure_patch(context, task, None, label="baseline-")
    known = [start]
    if task.reference is not None:
        patch = context.scratch_dir / "reference.patch"
        await task.repository.difference(task.reference, patch)
        known.append(await measure_patch(context, task, patch, label="reference-"))
    counted = [counts for each in known if (counts := each.tests.counts())]
    expected = max((counts.ran for counts in counted), default=None) if task.has_given_tests else None
    return Baseline(
        expected=expected,
        most=expected if len(counted) > 1 else None,
        sources=frozenset().union(*(each.tests.sources for each in known)),
        lint_issues=next((each.lint_issues for each in known if each.lint_issues is not None), None),
        problem=_problem(task, known[-1], is_reference=len(known) > 1),
    )


def _problem(task: ValidationTask, measured: Measurement, *, is_reference: bool) -> str | None:
    """Why the task itself cannot be validated. An empty greenfield project need not even install."""
    if task.config.greenfield and not is_reference:
        return None
    tree = "the reference solution" if is_reference else "the untouched task"
    return why_not_runnable(task.config, measured.steps.get("install"), measured.steps[measured.counting_step], tree)


@asynccontextmanager
async def _place(context: EvaluationContext) -> AsyncIterator[Path]:
    place = Path(mkdtemp(prefix="tree-", dir=context.scratch_dir))
    try:
        yield place
    finally:
        with suppress(YouBenchaError):  # what cannot be removed does not affect the verdict
            await in_thread(lambda _: remove_tree(place))


@asynccontextmanager
async def _sandbox(
    context: EvaluationContext, task: ValidationTask, tree: Path, *, agent_state: bool = False
) -> AsyncIterator[Sandbox]:
    if context.open_sandbox is not None:
        image = None if agent_state else task.config.image
        options = SandboxOptions(image, task.config.network, agent_state)
        async with context.open_sandbox(tree, options=options) as opened:
            yield opened.sandbox
    elif agent_state:
        yield LocalSandbox(context.agent_sandbox.home) if context.agent_sandbox.home else HOST
    else:
        yield open_local_sandbox(scratch=tree.parent)


async def _measure(
    context: EvaluationContext, task: ValidationTask, tree: ValidatedTree, sandbox: Sandbox, label: str
) -> Measurement:
    config = task.config
    runner = StepRunner(context, config, tree.path, sandbox, label)
    for name, line in (("install", config.install_cmd), ("build", config.build_cmd)):
        if line is not None:
            await runner.run(name, line)
    agent_tests, coverage, lint_issues = None, None, None
    sources: tuple[SourceFile, ...] = ()
    reconfigured: tuple[str, ...] = ()
    if config.greenfield:
        sources = await in_thread(lambda _: tuple(_sources(tree)))
        agent_tests, coverage = await runner.run_tests_with_coverage("test")
    if config.lint_cmd is not None:
        lint = await runner.run("lint", config.lint_cmd)
        lint_issues = None if lint.timed_out else count_issues(lint.printed, lint.exit_code)
    if agent_tests is None or task.validation is not None:
        reconfigured = await task.prepare_counting(tree.path, tree.changes)
        tests = await runner.run_tests("hidden" if config.greenfield else "test")
    else:
        tests = agent_tests
    return Measurement(
        changes=tree.changes,
        steps=runner.steps,
        tests=tests,
        agent_tests=agent_tests,
        coverage=coverage,
        lint_issues=lint_issues,
        sources=sources,
        reconfigured=reconfigured,
    )


def _sources(tree: ValidatedTree) -> Iterator[SourceFile]:
    """The source files and tests that the agent wrote, with their lengths."""
    for change in tree.changes:
        if change.kind != "deleted" and (is_source_file(change.path) or is_test_file(change.path)):
            with suppress(OSError):  # a link, or too large to be source code
                text = read_untrusted(tree.path, change.path, _LARGEST_SOURCE)
                yield SourceFile(change.path, len(text.splitlines()))
