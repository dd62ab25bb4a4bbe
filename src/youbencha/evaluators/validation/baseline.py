"""Validate a task without an agent: whether that works, which tests count, and how a canary can be added."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from youbencha.evaluators.base import EvaluationContext, in_thread
from youbencha.evaluators.validation.canary import (
    MAX_CANDIDATES,
    MAX_FILES,
    Canary,
    CanaryFile,
    candidates,
    confirm,
    random_name,
)
from youbencha.evaluators.validation.config import ValidationConfig
from youbencha.evaluators.validation.counting import ExpectedTests, expect_tests
from youbencha.evaluators.validation.measure import (
    Baseline,
    Measurement,
    OpenTree,
    counting_step,
    open_tree,
    run_steps,
)
from youbencha.evaluators.validation.problems import quote_command, why_not_runnable
from youbencha.evaluators.validation.reports import EXIT_CODE, RunReports
from youbencha.evaluators.validation.runners import SELECT_BY_NAME, TestSelection
from youbencha.evaluators.validation.task import ValidationTask
from youbencha.scoring.test_output import TestResults
from youbencha.spec.arena import CanarySpec


async def measure_baseline(context: EvaluationContext, task: ValidationTask) -> Baseline:
    """Validate the untouched task, and the reference solution if there is one."""
    async with open_tree(
        context, task, lambda path: task.repository.write_patched(None, path), label="baseline-"
    ) as tree:
        start = await _measure_tests(tree)
        if task.reference is None:
            return await _baseline(tree, start, None)
    patch = context.scratch_dir / "reference.patch"
    await task.repository.difference(task.reference, patch)
    async with open_tree(
        context, task, lambda path: task.repository.write_patched(patch, path), label="reference-"
    ) as tree:
        return await _baseline(tree, start, await _measure_tests(tree))


async def _measure_tests(tree: OpenTree) -> Measurement:
    measured = await run_steps(tree)
    if measured.prepared is None:
        return measured
    tree.runner.select(TestSelection(left_out=measured.prepared.left_out))
    return replace(measured, tests=await tree.runner.run_tests(counting_step(tree.task.config)))


async def _baseline(tree: OpenTree, start: Measurement, reference: Measurement | None) -> Baseline:
    """Draw the conclusions, with `tree` as that of the reference solution, if there is one."""
    task, best = tree.task, reference or start
    expected = _expected(task, start, reference)
    lint = next((measured.lint_issues for measured in (start, best) if measured.lint_issues is not None), None)
    baseline = Baseline(
        expected=expected,
        lint_issues=lint,
        problem=_problem(task, best, is_reference=reference is not None)
        or (_problem_of_tests(task.config, best, expected) if reference else None),
    )
    if best.prepared is None or baseline.problem is not None:
        return baseline
    if selected := await _run_by_name(tree, best, expected):
        baseline = replace(baseline, selects_by_name=True)
        best = replace(best, tests=selected)
    canary = await _find_canary(tree, best)
    if canary is None and reference is not None and isinstance(task.config.canary, CanarySpec):
        problem = f"the canary in {task.config.canary.file} does not fail for the reference solution"
        return replace(baseline, problem=problem)
    return replace(baseline, canary=canary)


def _problem(task: ValidationTask, measured: Measurement, *, is_reference: bool) -> str | None:
    """Why the task itself cannot be validated. An empty greenfield project need not even install."""
    if task.config.greenfield and not is_reference:
        return None
    tree = "the reference solution" if is_reference else "the untouched task"
    return why_not_runnable(task.config, measured.steps.get("install"), measured.steps[measured.counting_step], tree)


def _problem_of_tests(config: ValidationConfig, reference: Measurement, expected: ExpectedTests) -> str | None:
    """Why the tests of a reference solution say nothing."""
    if config.reward is not None:
        missing = f"{quote_command(config.test_cmd)} writes no reward to {config.reward} for the reference solution"
        return (
            None if reference.tests.reward else f"{missing}: a number from 0 to 1, or a flat JSON object with `reward`"
        )
    if expected.number == 0:
        return f"{quote_command(config.test_cmd)} runs no test for the reference solution but its own"
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


async def _run_by_name(tree: OpenTree, measured: Measurement, expected: ExpectedTests) -> RunReports | None:
    """Select the tests that count from now on, and return their reports.

    If one of them then ends differently than `measured` says, return None, and select by file only.
    """
    names = expected.names or frozenset()
    has_names = expected.is_complete and names and expected.sources and expected.sources <= SELECT_BY_NAME
    if not has_names or isinstance(tree.task.config.canary, CanarySpec) or measured.prepared is None:
        return None
    selection = TestSelection(left_out=measured.prepared.left_out)
    tree.runner.select(replace(selection, names=names))
    run = await tree.runner.run_tests("selected")
    before, after = measured.tests.report(expected.sources), run.report(expected.sources)
    results, selected = (report.results if report and report.results else {} for report in (before, after))
    if all(selected.get(test) == results.get(test) for test in names):
        return run
    tree.runner.select(selection)
    return None


async def _find_canary(tree: OpenTree, measured: Measurement) -> Canary | None:
    """Find a way to add a canary to a task. It must fail in a tree that no agent has touched."""
    tests, prepared = measured.tests, measured.prepared
    assert prepared is not None
    report = tests.report(frozenset())
    results = report.results if report and report.results else {}
    reported = sorted({test.file for test in results if test.file in set(prepared.test_files)}, reverse=True)
    files = dict.fromkeys((*reported, *prepared.test_files))  # the last first, so that the canary runs late
    configured = tree.task.config.canary
    fitting = await in_thread(lambda _: list(islice(candidates(tree.path, files, configured), MAX_FILES)))
    sources = tests.sources or frozenset({EXIT_CODE})

    async def confirmed(step: str, chosen: Iterable[CanaryFile]) -> Canary | None:
        canary, name = Canary(files=tuple(chosen)), random_name()
        with canary.written(tree.path, name):
            run = await tree.runner.run_tests(step, name)
        return confirm(canary, tests, run, sources, name)

    for number, file in enumerate(fitting[:MAX_CANDIDATES], 1):
        if one := await confirmed(f"canary-{number}", [file]):
            with_tests = tuple(other for other in fitting if _may_have_tests(other.path, results))
            alike = tuple(other for other in with_tests if other.template == file.template)
            for several in dict.fromkeys((with_tests, alike)) if one.in_same_run else ():
                canary = await confirmed("canaries", several) if len(several) > 1 else None
                if canary and canary.by_name and canary.in_same_run:
                    return canary
            return one
    return None


def _may_have_tests(path: str, results: TestResults) -> bool:
    """Whether tests of a file ran, as far as the test runners say which they are in."""
    return any(test.file in (None, path) for test in results)
