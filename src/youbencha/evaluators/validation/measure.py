"""Take a tree through the steps of a validation: an agent's work, the untouched task, or the reference solution."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, SandboxOptions, in_thread
from youbencha.evaluators.validation.canary import (
    MAX_CANDIDATES,
    MAX_FILES,
    Canary,
    CanaryFile,
    candidates,
    confirm,
    forgery,
    random_name,
)
from youbencha.evaluators.validation.config import ValidationConfig
from youbencha.evaluators.validation.counting import NOBODY, Authorship, ExpectedTests, TestTally, expect_tests, tally
from youbencha.evaluators.validation.problems import why_not_runnable
from youbencha.evaluators.validation.reports import EXIT_CODE, RunReports
from youbencha.evaluators.validation.steps import StepResult, StepRunner
from youbencha.evaluators.validation.task import PreparedTree, ValidationTask
from youbencha.evaluators.validation.work import write_work
from youbencha.files import read_untrusted
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST, LocalSandbox, open_local_sandbox
from youbencha.scoring.code_metrics import SourceFile, is_source_file, is_test_file
from youbencha.scoring.lint import count_issues
from youbencha.scoring.test_output import TestResults
from youbencha.spec.arena import CanarySpec
from youbencha.workspace import FileChange
from youbencha.workspace.trees import copy_tree, remove_tree

_LARGEST_SOURCE = 8 * 1024 * 1024
REFERENCE_LABEL = "reference-"


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
    """What the run that counts reported: given and hidden tests. Without hidden tests, a greenfield task has only the
    agent's."""
    agent_tests: RunReports | None = None
    """What the agent's own tests reported, for a greenfield task."""
    coverage: float | None = None
    lint_issues: int | None = None
    sources: tuple[SourceFile, ...] = ()
    """The code that the agent wrote, for a greenfield task."""
    reconfigured: tuple[str, ...] = ()
    """Files of the project that configured the tests in another way."""
    author: Authorship = NOBODY
    """Which of the tests are the agent's own."""
    canary: Canary | None = None
    """How a canary can be added to this task, if that was tried and works."""
    forgery: str | None = None
    """Why the report of the tests cannot be believed."""

    @property
    def counting_step(self) -> str:
        return "hidden" if "hidden" in self.steps else "test"

    @property
    def built(self) -> bool | None:
        """None: there is nothing to build."""
        return self.steps["build"].succeeded if "build" in self.steps else None

    def tally(self, expected: ExpectedTests) -> TestTally | None:
        return tally(self.tests.report(expected.sources), expected, self.author)


class Baseline(NamedTuple):
    """What is known of a task without an agent."""

    expected: ExpectedTests
    canary: Canary | None
    lint_issues: int | None
    problem: str | None
    """Why nothing can be validated."""


async def measure_work(context: EvaluationContext, task: ValidationTask, baseline: Baseline) -> Measurement:
    """Validate the agent's work, in the configured mode."""
    async with _place(context) as place:
        tree = place / "tree"
        changes = await write_work(context, task, tree)
        async with _sandbox(context, task, tree, agent_state=task.config.mode == "shared") as sandbox:
            return await _measure(context, task, ValidatedTree(tree, changes), sandbox, baseline=baseline)


async def measure_patch(
    context: EvaluationContext,
    task: ValidationTask,
    patch: Path | None,
    *,
    label: str = "",
    baseline: Baseline | None = None,
) -> Measurement:
    """Validate a clean checkout with a patch, in a fresh sandbox."""
    async with _place(context) as place:
        tree = place / "tree"
        changes = await task.repository.write_patched(patch, tree)
        async with _sandbox(context, task, tree) as sandbox:
            return await _measure(context, task, ValidatedTree(tree, changes), sandbox, label, baseline)


async def measure_baseline(context: EvaluationContext, task: ValidationTask) -> Baseline:
    """Validate the untouched task, and the reference solution if there is one."""
    start = await measure_patch(context, task, None, label="baseline-")
    reference = None
    if task.reference is not None:
        patch = context.scratch_dir / "reference.patch"
        await task.repository.difference(task.reference, patch)
        reference = await measure_patch(context, task, patch, label=REFERENCE_LABEL)
    best, is_reference = reference or start, reference is not None
    expected = _expected(task, start, reference)
    lint = next((measured.lint_issues for measured in (start, best) if measured.lint_issues is not None), None)
    return Baseline(
        expected=expected,
        canary=best.canary,
        lint_issues=lint,
        problem=_problem(task, best, is_reference=is_reference)
        or (_problem_of_tests(task.config, best, expected) if is_reference else None),
    )


def _problem_of_tests(config: ValidationConfig, reference: Measurement, expected: ExpectedTests) -> str | None:
    """Why the tests of a reference solution say nothing."""
    if config.reward is not None:
        missing = f"`{config.test_cmd}` writes no reward to {config.reward} for the reference solution"
        return (
            None if reference.tests.reward else f"{missing}: a number from 0 to 1, or a flat JSON object with `reward`"
        )
    if expected.number == 0:
        return f"`{config.test_cmd}` runs no test for the reference solution but its own"
    if isinstance(config.canary, CanarySpec) and reference.canary is None:
        return f"the canary in {config.canary.file} does not fail for the reference solution"
    return None


def _expected(task: ValidationTask, start: Measurement, reference: Measurement | None) -> ExpectedTests:
    if not task.has_given_tests:
        return ExpectedTests()
    sources = start.tests.sources if reference is None else start.tests.sources | reference.tests.sources
    if reference is not None and not reference.tests.sources:
        sources = frozenset({EXIT_CODE})
    return expect_tests(
        start.tests.report(sources) if start.tests.sources else None,
        reference.tests.report(sources) if reference else None,
        (reference or start).author,
        has_reference=reference is not None,
        sources=sources,
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
    context: EvaluationContext,
    task: ValidationTask,
    tree: ValidatedTree,
    sandbox: Sandbox,
    label: str = "",
    baseline: Baseline | None = None,
) -> Measurement:
    """Take a tree through all steps. `baseline` is None for the runs that make it."""
    config = task.config
    runner = StepRunner(context, config, tree.path, sandbox, label)
    for name, line in (("install", config.install_cmd), ("build", config.build_cmd)):
        if line is not None:
            await runner.run(name, line)
    agent_tests, coverage, lint_issues = None, None, None
    sources: tuple[SourceFile, ...] = ()
    if config.greenfield:
        sources = await in_thread(lambda _: tuple(_sources(tree)))
        agent_tests, coverage = await runner.run_tests_with_coverage("test")
    if config.lint_cmd is not None:
        lint = await runner.run("lint", config.lint_cmd)
        lint_issues = None if lint.timed_out else count_issues(lint.printed, lint.exit_code)
    measured = Measurement(
        changes=tree.changes,
        steps=runner.steps,
        tests=agent_tests or RunReports(exit_code=None),
        agent_tests=agent_tests,
        coverage=coverage,
        lint_issues=lint_issues,
        sources=sources,
    )
    if agent_tests is not None and task.validation is None:
        return measured
    prepared = await task.prepare_counting(tree.path, tree.changes)
    measured = replace(measured, reconfigured=prepared.reconfigured, author=prepared.author)
    step = "hidden" if config.greenfield else "test"
    runner.leave_out(prepared.apart)
    if baseline is not None:
        return await _count_with_canary(runner, tree.path, step, measured, baseline)
    tests = await runner.run_tests(step)
    is_best = task.reference is None or label == REFERENCE_LABEL
    canary = await _find_canary(runner, task, tree.path, tests, prepared) if is_best else None
    return replace(measured, tests=tests, canary=canary)


async def _count_with_canary(
    runner: StepRunner, tree: Path, step: str, measured: Measurement, baseline: Baseline
) -> Measurement:
    """Run the tests that count, and a canary: in the same run, or in one of its own if a test has passed."""
    canary, expected, name = baseline.canary, baseline.expected, random_name()
    if canary is None:
        return replace(measured, tests=await runner.run_tests(step))
    lost = await in_thread(lambda _: canary.lost_files(tree))
    if canary.in_same_run and not lost:
        with canary.written(tree, name):
            run = await runner.run_tests(step)
        measured = replace(measured, tests=run.without_test(name))
    else:
        copy = await in_thread(lambda check: _copy_in_place(tree, check))
        measured = replace(measured, tests=await runner.run_tests(step))
        counted = measured.tally(expected)
        if measured.tests.reward is None and (counted is None or counted.counts.passed == 0):
            return measured
        if lost:
            return replace(measured, forgery=f"tests passed, although {lost[0]}, which has them, cannot be read")
        # What the tests left must not tell the agent's code that this is another run, in which not to lie.
        await in_thread(lambda _: remove_tree(tree))
        copy.rename(tree)
        with canary.written(tree, name):
            run = await runner.run_tests("canary")
    counted = replace(measured, tests=run.without_test(name)).tally(expected)
    all_passed = counted is not None and counted.score == 1
    return replace(measured, forgery=forgery(canary, run, expected.sources, name, all_passed=all_passed))


def _copy_in_place(tree: Path, check_cancelled: Callable[[], None]) -> Path:
    """Copy a tree beside it, with absolute links that are right once the copy has taken its place."""
    original, copy = tree.with_name("original"), tree.with_name("copy")
    tree.rename(original)
    copy_tree(original, tree, check_cancelled, unreadable_ok=True)
    tree.rename(copy)
    original.rename(tree)
    return copy


async def _find_canary(
    runner: StepRunner, task: ValidationTask, tree: Path, tests: RunReports, prepared: PreparedTree
) -> Canary | None:
    """Find a way to add a canary to a task. It must fail in a tree that no agent has touched."""
    report = tests.report(frozenset())
    results = report.results if report and report.results else {}
    reported = sorted({test.file for test in results if test.file in set(prepared.test_files)}, reverse=True)
    files = dict.fromkeys((*reported, *prepared.test_files))  # the last first, so that the canary runs late
    fitting = await in_thread(lambda _: list(islice(candidates(tree, files, task.config.canary), MAX_FILES)))
    sources = tests.sources or frozenset({EXIT_CODE})

    async def confirmed(step: str, chosen: Iterable[CanaryFile]) -> Canary | None:
        canary, name = Canary(files=tuple(chosen)), random_name()
        with canary.written(tree, name):
            run = await runner.run_tests(step)
        return confirm(canary, tests, run, sources, name)

    for number, file in enumerate(fitting[:MAX_CANDIDATES], 1):
        if one := await confirmed(f"canary-{number}", [file]):
            alike = [other for other in fitting if other.template == file.template and _has_tests(other.path, results)]
            several = await confirmed("canaries", alike) if one.in_same_run and len(alike) > 1 else None
            return several if several and several.by_name and several.in_same_run else one
    return None


def _has_tests(path: str, results: TestResults) -> bool:
    """Whether tests of a file ran, as far as the test runner says which they are in."""
    return all(test.file is None for test in results) or any(test.file == path for test in results)


def _sources(tree: ValidatedTree) -> Iterator[SourceFile]:
    """The source files and tests that the agent wrote, with their lengths."""
    for change in tree.changes:
        if change.kind != "deleted" and (is_source_file(change.path) or is_test_file(change.path)):
            with suppress(OSError):  # a link, or too large to be source code
                text = read_untrusted(tree.path, change.path, _LARGEST_SOURCE)
                yield SourceFile(change.path, len(text.splitlines()))
