"""Take trees through the steps of a validation: the untouched task, its reference solution, and the agent's work.

The first two are the baseline: whether the task can be validated at all, which tests count, and how a canary can be
added. A canary among the tests of the agent's work shows whether their report can be believed.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import CheckCancelled, EvaluationContext, SandboxOptions, in_thread
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
from youbencha.evaluators.validation.reports import (
    EXIT_CODE,
    NOBODY,
    Authorship,
    ExpectedTests,
    RunReports,
    TestTally,
    expect_tests,
    tally,
)
from youbencha.evaluators.validation.steps import SELECT_BY_NAME, StepResult, StepRunner, TestSelection
from youbencha.evaluators.validation.task import PreparedTree, ValidationConfig, ValidationTask
from youbencha.files import open_nofollow, read_nofollow
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST, LocalSandbox, open_local_sandbox
from youbencha.scoring.code_metrics import SourceFile, is_source_file, is_test_file
from youbencha.scoring.measures import count_issues
from youbencha.scoring.runner_results import TestResults
from youbencha.spec.arena import CanarySpec
from youbencha.text import one_line, visible
from youbencha.workspace import FileChange
from youbencha.workspace.repository import write_recorded
from youbencha.workspace.trees import FileCopies, copy_tree, remove_tree

_MAX_SOURCE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class OpenTree:
    """A tree to validate, in an open sandbox."""

    task: ValidationTask
    path: Path
    changes: tuple[FileChange, ...]
    """The differences from the task's start."""
    runner: StepRunner


@dataclass(frozen=True, kw_only=True)
class Measurement:
    changes: tuple[FileChange, ...]
    steps: Mapping[str, StepResult]
    tests: RunReports
    """The reports of the run that counts: given and hidden tests. Without hidden tests, a greenfield task has only the
    agent's."""
    agent_tests: RunReports | None = None
    """The reports of the agent's own tests, for a greenfield task."""
    coverage: float | None = None
    lint_issues: int | None = None
    sources: tuple[SourceFile, ...] = ()
    """The code that the agent wrote, for a greenfield task."""
    prepared: PreparedTree | None = None
    """The tree as prepared for the tests that count. None: there are only the agent's tests."""
    forgery: str | None = None
    """The reason why the report of the tests cannot be believed."""

    @property
    def counting_step(self) -> str:
        return "hidden" if "hidden" in self.steps else "test"

    @property
    def built(self) -> bool | None:
        """None: there is nothing to build."""
        return self.steps["build"].succeeded if "build" in self.steps else None

    @property
    def author(self) -> Authorship:
        return self.prepared.author if self.prepared else NOBODY

    @property
    def own_test_files(self) -> tuple[str, ...]:
        """The files of tests that the author of the changes wrote. None of their tests counts."""
        left_out = self.prepared.left_out if self.prepared else frozenset()
        return tuple(sorted(path for path in left_out if is_test_file(path)))

    def tally(self, expected: ExpectedTests) -> TestTally | None:
        return tally(self.tests.report(expected.sources), expected, self.author)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The facts about a task that are known without an agent."""

    expected: ExpectedTests
    canary: Canary | None = None
    selects_by_name: bool = False
    """Whether runs can be limited to the tests that count, by their names."""
    lint_issues: int | None = None
    problem: str | None = None
    """The reason why nothing can be validated."""
    logs: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The logs of its steps, by file name. Each trial gets a copy."""


async def measure_work(context: EvaluationContext, task: ValidationTask, baseline: Baseline) -> Measurement:
    """Validate the agent's work, in the configured mode."""
    agent_state = task.config.mode == "shared"
    async with open_tree(context, task, lambda path: _write_work(context, task, path), agent_state=agent_state) as tree:
        measured = await run_steps(tree)
        if measured.prepared is None:
            return measured
        names = baseline.expected.names if baseline.selects_by_name else None
        tree.runner.select(TestSelection(left_out=measured.prepared.left_out, names=names))
        return await _count_tests(tree, measured, baseline)


@asynccontextmanager
async def open_tree(
    context: EvaluationContext,
    task: ValidationTask,
    write: Callable[[Path], Awaitable[tuple[FileChange, ...]]],
    *,
    label: str = "",
    agent_state: bool = False,
) -> AsyncIterator[OpenTree]:
    """Write a tree, and open a sandbox for it. `label` distinguishes its logs: empty for the agent's work."""
    place = Path(mkdtemp(prefix="tree-", dir=context.scratch_dir))
    path = place / "tree"
    try:
        changes = await write(path)
        async with _sandbox(context, task, path, agent_state=agent_state) as sandbox:
            runner = StepRunner(context, task.config, path, sandbox, label)
            yield OpenTree(task=task, path=path, changes=changes, runner=runner)
    finally:
        with suppress(YouBenchaError):  # what cannot be removed does not affect the verdict
            await in_thread(lambda _: remove_tree(place))


@asynccontextmanager
async def _sandbox(
    context: EvaluationContext, task: ValidationTask, path: Path, *, agent_state: bool
) -> AsyncIterator[Sandbox]:
    if context.open_sandbox is not None:
        image = None if agent_state else task.config.image
        options = SandboxOptions(image, task.config.network, agent_state)
        async with context.open_sandbox(path, options=options) as opened:
            yield opened.sandbox
    elif agent_state:
        yield LocalSandbox(context.agent_sandbox.home) if context.agent_sandbox.home else HOST
    else:
        yield open_local_sandbox(scratch=path.parent)


async def run_steps(tree: OpenTree) -> Measurement:
    """Take a tree through all steps up to the tests that count, and prepare it for those."""
    config, runner = tree.task.config, tree.runner
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
    counts_given_tests = agent_tests is None or tree.task.validation is not None
    return Measurement(
        changes=tree.changes,
        steps=runner.steps,
        tests=agent_tests or RunReports(exit_code=None),
        agent_tests=agent_tests,
        coverage=coverage,
        lint_issues=lint_issues,
        sources=sources,
        prepared=await tree.task.prepare_counting(tree.path, tree.changes) if counts_given_tests else None,
    )


def counting_step(config: ValidationConfig) -> str:
    """Return the name of the step in which tests that count run."""
    return "hidden" if config.greenfield else "test"


async def _count_tests(tree: OpenTree, measured: Measurement, baseline: Baseline) -> Measurement:
    """Run the tests that count, and a canary: in the same run, or in one of its own if a test has passed."""
    runner, step = tree.runner, counting_step(tree.task.config)
    canary, expected, name = baseline.canary, baseline.expected, random_name()
    if canary is None:
        return replace(measured, tests=await runner.run_tests(step))
    lost = await in_thread(lambda _: canary.lost_files(tree.path))
    if canary.in_same_run and not lost:
        with canary.written(tree.path, name):
            run = await runner.run_tests(step, name)
        measured = replace(measured, tests=run.without_test(name))
    else:
        copy = await in_thread(lambda check: _copy_in_place(tree.path, check))
        measured = replace(measured, tests=await runner.run_tests(step))
        counted = measured.tally(expected)
        if measured.tests.reward is None and (counted is None or counted.counts.passed == 0):
            return measured
        if lost:
            return replace(measured, forgery=f"tests passed, although {lost[0]}, which has them, cannot be read")
        # What the tests left must not tell the agent's code that this is another run, in which not to lie.
        await in_thread(lambda _: remove_tree(tree.path))
        copy.rename(tree.path)
        with canary.written(tree.path, name):
            run = await runner.run_tests("canary", name)
    counted = replace(measured, tests=run.without_test(name)).tally(expected)
    all_passed = counted is not None and counted.score == 1
    return replace(measured, forgery=forgery(canary, run, expected.sources, name, all_passed=all_passed))


def _copy_in_place(tree: Path, check_cancelled: CheckCancelled) -> Path:
    """Copy a tree beside it, with absolute links that are right once the copy has taken its place."""
    original, copy = tree.with_name("original"), tree.with_name("copy")
    tree.rename(original)
    copy_tree(original, tree, check_cancelled, unreadable_ok=True)
    tree.rename(copy)
    original.rename(tree)
    return copy


async def _write_work(context: EvaluationContext, task: ValidationTask, path: Path) -> tuple[FileChange, ...]:
    """Write the agent's work as the mode says, and return what differs from the start. `path` must not exist.

    It is the tree that was recorded, whatever names are in it. If only a patch is known, because the trial ended
    earlier, it is applied to the task's commit.
    """
    changes, config = context.changes, task.config
    if changes is None:
        raise YouBenchaError("VALIDATION_WITHOUT_CHANGES", "The agent's changes are unknown.")
    if config.mode == "shared" or (config.mode == "separate" and config.copy_ignored):
        await in_thread(lambda check: copy_tree(context.directory, path, check, unreadable_ok=True))
        return changes.files
    if changes.recorded is None:
        return await task.repository.write_patched(changes.patch_file, path)
    await write_recorded(changes.recorded, path)
    too_large = frozenset(changes.left_out_of_patch)
    if config.mode == "diff":
        return tuple(change for change in changes.files if change.path not in too_large)
    await in_thread(lambda check: _add_files(context.directory, path, too_large, check))
    return changes.files


def unvalidated_files(context: EvaluationContext, config: ValidationConfig) -> tuple[str, ...]:
    """Return the files that the agent changed and that are not validated, because they are too large for git."""
    return context.changes.left_out_of_patch if context.changes and config.mode == "diff" else ()


def _add_files(workspace: Path, tree: Path, paths: Iterable[str], check_cancelled: CheckCancelled) -> None:
    """Copy files that are too large for git. What is no longer there, or nested too deeply, is left out."""
    copies = FileCopies(tree, check_cancelled)
    for path in paths:
        try:
            file = open_nofollow(workspace, path)
        except OSError:
            continue
        target = tree / path
        with file:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            copies.copy(file, str(target))
            target.chmod(os.fstat(file.fileno()).st_mode & 0o777)


def _sources(tree: OpenTree) -> Iterator[SourceFile]:
    """Yield the source files and tests that the agent wrote, with their lengths."""
    for change in tree.changes:
        if change.kind != "deleted" and (is_source_file(change.path) or is_test_file(change.path)):
            with suppress(OSError):  # a link, or too large to be source code
                text = read_nofollow(tree.path, change.path, _MAX_SOURCE_BYTES)
                yield SourceFile(change.path, len(text.splitlines()))


# The baseline


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
        problem=_task_problem(task, best, is_reference=reference is not None)
        or (_reference_problem(task.config, best, expected) if reference else None),
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


def _task_problem(task: ValidationTask, measured: Measurement, *, is_reference: bool) -> str | None:
    """Explain why the task itself cannot be validated. An empty greenfield project need not even install."""
    if task.config.greenfield and not is_reference:
        return None
    tree = "the reference solution" if is_reference else "the untouched task"
    return why_not_runnable(task.config, measured.steps.get("install"), measured.steps[measured.counting_step], tree)


def _reference_problem(config: ValidationConfig, reference: Measurement, expected: ExpectedTests) -> str | None:
    """Explain why the tests of a reference solution prove nothing."""
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


# Why a task cannot be validated

_NOT_FOUND = (126, 127)
"""A shell's exit codes for a program that cannot be run."""

_MAX_LINE_CHARS = 200
_MAX_COMMAND_CHARS = 80
_PYTHON_RUNNERS = "pytest|unittest|nose2?|tox|nox|coverage|behave|robot|stestr|twisted|ward"
_MISSING_RUNNERS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"py\w*[\d.]*: No module named ({_PYTHON_RUNNERS})\b",
        r"^npm (ERR!|error) Missing script: ",
        r"^npm (ERR!|error) could not determine executable to run",
        r"^error: no such command: ",  # cargo
    )
)
"""Lines about a test runner that is not there. The exit code is then any: 1 for Python and npm, 101 for cargo."""

_DECISIVE = (
    *_MISSING_RUNNERS,
    re.compile(r"(?i)no module named|command not found|: not found|no such file|permission denied|missing script"),
    re.compile(r"(?i)\b(error|fatal|cannot|failed)\b"),
)
"""Patterns of the line that explains a failure, the clearest first."""


def why_not_runnable(config: ValidationConfig, install: StepResult | None, tests: StepResult, tree: str) -> str | None:
    """Explain why the tests of `tree` cannot be run, with the line of the log that explains it. None if they can."""
    if install is not None and not install.succeeded:
        return f"{quote_command(config.install_cmd)} fails for {tree}: {_explained(install)}"
    is_missing = tests.exit_code in _NOT_FOUND or _find(tests.printed, _MISSING_RUNNERS) is not None
    if is_missing and not tests.succeeded:
        return f"{quote_command(config.test_cmd)} cannot be run for {tree}: {_explained(tests)}"
    return None


def quote_command(command: str | None) -> str:
    """Quote a command for a message, shortened: it may be a whole script."""
    return f"`{one_line(command or '', _MAX_COMMAND_CHARS)}`"


def _explained(step: StepResult) -> str:
    line = decisive_line(step.printed)
    return f'{step.failure}, after "{line}"' if line else step.failure


def decisive_line(printed: str) -> str | None:
    """Return the line that explains best why a command failed; None if it printed nothing."""
    lines = _lines(printed)
    return _find(printed, _DECISIVE) or (one_line(lines[-1], _MAX_LINE_CHARS) if lines else None)


def _find(printed: str, patterns: tuple[re.Pattern[str], ...]) -> str | None:
    lines = _lines(printed)
    for pattern in patterns:
        for line in reversed(lines):
            if pattern.search(line):
                return one_line(line, _MAX_LINE_CHARS)
    return None


def _lines(printed: str) -> list[str]:
    return [line for text in printed.splitlines() if (line := visible(text).strip())]
