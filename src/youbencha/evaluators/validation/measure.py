"""Take a tree through the steps of a validation, and count its tests with a canary among them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import CheckCancelled, EvaluationContext, SandboxOptions, in_thread
from youbencha.evaluators.validation.canary import Canary, forgery, random_name
from youbencha.evaluators.validation.config import ValidationConfig
from youbencha.evaluators.validation.counting import NOBODY, Authorship, ExpectedTests, TestTally, tally
from youbencha.evaluators.validation.reports import RunReports
from youbencha.evaluators.validation.runners import TestSelection
from youbencha.evaluators.validation.steps import StepResult, StepRunner
from youbencha.evaluators.validation.task import PreparedTree, ValidationTask
from youbencha.files import open_nofollow, read_nofollow
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST, LocalSandbox, open_local_sandbox
from youbencha.scoring.code_metrics import SourceFile, is_source_file, is_test_file
from youbencha.scoring.lint import count_issues
from youbencha.workspace import FileChange
from youbencha.workspace.revisions import write_recorded
from youbencha.workspace.trees import FileCopies, copy_tree, remove_tree

_MAX_SOURCE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class OpenTree:
    """A tree to validate, in an open sandbox."""

    task: ValidationTask
    path: Path
    changes: tuple[FileChange, ...]
    """What differs from the task's start."""
    runner: StepRunner


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
    prepared: PreparedTree | None = None
    """How the tree was prepared for the tests that count. None: there are only the agent's tests."""
    forgery: str | None = None
    """Why the report of the tests cannot be believed."""

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
    """What is known of a task without an agent."""

    expected: ExpectedTests
    canary: Canary | None = None
    selects_by_name: bool = False
    """Whether runs can be limited to the tests that count, by their names."""
    lint_issues: int | None = None
    problem: str | None = None
    """Why nothing can be validated."""
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
        raise YouBenchaError("VALIDATION_WITHOUT_CHANGES", "It is not known what the agent changed.")
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
    """The source files and tests that the agent wrote, with their lengths."""
    for change in tree.changes:
        if change.kind != "deleted" and (is_source_file(change.path) or is_test_file(change.path)):
            with suppress(OSError):  # a link, or too large to be source code
                text = read_nofollow(tree.path, change.path, _MAX_SOURCE_BYTES)
                yield SourceFile(change.path, len(text.splitlines()))
