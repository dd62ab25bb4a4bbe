"""Run the commands of a validation in a sandbox, and read the test reports that they write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, in_thread
from youbencha.evaluators.command import shell_words
from youbencha.evaluators.environment import command_environment, log_withheld_variables, program_environment
from youbencha.evaluators.junit import Stamp, reports
from youbencha.evaluators.validation.config import ValidationConfig
from youbencha.evaluators.validation.reports import XML_FILES, RunReports, read_reports
from youbencha.evaluators.validation.runners import RunnerHooks, TestSelection
from youbencha.evaluators.validation.task import remove_below
from youbencha.files import read_nofollow
from youbencha.process import Command, Limits, Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.scoring.coverage import coverage_score, parse_coverage
from youbencha.scoring.reward import Reward, parse_reward
from youbencha.workspace.trees import TreeFile

_COVERAGE = (
    *(
        "**/coverage-summary.json",
        "**/coverage.json",
        "**/coverage.xml",
        "**/cobertura.xml",
        "**/cobertura-coverage.xml",
    ),
    *("**/lcov.info", "**/coverage.out", "**/cover.out"),
)
_LARGEST_COVERAGE = 32 * 1024 * 1024
_MAX_REWARD = 1024 * 1024


class StepResult(NamedTuple):
    exit_code: int | None
    """None if a signal ended it."""
    timed_out: bool
    duration_ms: int
    printed: str
    ended_by: str | None
    """A limit of the sandbox, or a signal."""

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def failure(self) -> str:
        if self.timed_out:
            return f"it timed out after {self.duration_ms / 1000:.0f} s"
        return f"its exit code is {self.exit_code}" if self.ended_by is None else f"it was ended by {self.ended_by}"

    def metrics(self) -> dict[str, Any]:
        return {"exit_code": self.exit_code, "duration_ms": self.duration_ms, "timed_out": self.timed_out}


class StepRunner:
    """Runs the commands of a validation, one after the other, in one tree and one sandbox."""

    def __init__(
        self, context: EvaluationContext, config: ValidationConfig, tree: Path, sandbox: Sandbox, label: str
    ) -> None:
        """`label` distinguishes the log files: empty for the agent's work."""
        self._context, self._config, self._sandbox, self._label = context, config, sandbox, label
        self._tree = tree.resolve()  # as programs see it that ask where they are
        harness = context.harness_env
        self._env = program_environment(context, sandbox, config.env)
        self._redactor: Redactor = context.redactor.with_env(command_environment({}, config.env, harness))
        self._hooks = RunnerHooks(context.scratch_dir, self._tree, sandbox)
        self._selection = TestSelection()
        self.steps: dict[str, StepResult] = {}

    def select(self, selection: TestSelection) -> None:
        """Limit the tests that run from now on."""
        self._selection = selection

    async def run(self, name: str, line: str, env: Mapping[str, str] | None = None) -> StepResult:
        """Run a line of the user's in a shell, until its deadline."""
        env = {**self._env, **(env or {})}
        log = self._context.artifacts_dir / f"{self._label}{name}.log"
        argv = shell_words(line, (), env) if self._sandbox.kind == "local" else ("sh", "-c", line)
        result = await self._sandbox.run(
            Command(argv=argv, cwd=self._tree, env=env),
            limits=Limits(timeout_s=self._config.timeout_s),
            redactor=self._redactor,
            log_file=log,
        )
        if result.exit.code != 0:
            log_withheld_variables(log, env, self._context.harness_env, self._sandbox)
        if failure := result.exit.host_failure:
            raise YouBenchaError("VALIDATION_HOST_FAILED", f"Something around `{line}` failed while it ran: {failure}.")
        ended_by = f"its limit of {result.exit.breach}" if result.exit.breach else result.exit.signal
        duration_ms = round(result.duration_s * 1000)
        self.steps[name] = StepResult(result.exit.code, result.timed_out, duration_ms, result.printed, ended_by)
        return self.steps[name]

    async def run_tests(self, name: str, canary: str | None = None) -> RunReports:
        """Run the selected tests and those named after `canary`. Reports that were there before do not count."""
        reward = self._config.reward
        if reward is not None:
            await in_thread(lambda _: remove_below(self._tree, reward))
        before = await in_thread(lambda _: reports(self._tree, XML_FILES))
        env = self._hooks.environment(name, {**self._sandbox.variables, **self._env}, self._selection, canary)
        step = await self.run(name, self._config.test_cmd, env)
        inside = self._sandbox.inside(self._tree)
        read = await in_thread(
            lambda _: read_reports(
                self._hooks.reports_dir,
                name,
                self._tree,
                inside,
                before=before,
                exit_code=step.exit_code,
                printed=step.printed,
            )
        )
        return replace(read, reward=await in_thread(lambda _: self._read_reward(reward))) if reward else read

    def _read_reward(self, path: str) -> Reward | None:
        try:
            return parse_reward(read_nofollow(self._tree, path, _MAX_REWARD))
        except OSError:
            return None

    async def run_tests_with_coverage(self, name: str) -> tuple[RunReports, float | None]:
        """Run the tests; the coverage is the lowest of the reports that they wrote, None without any."""
        before = await in_thread(lambda _: reports(self._tree, _COVERAGE))
        found = await self.run_tests(name)
        return found, await in_thread(lambda _: min(self._coverage(before), default=None))

    def _coverage(self, before: Mapping[TreeFile, Stamp]) -> Iterator[float]:
        for file, stamp in reports(self._tree, _COVERAGE).items():
            if before.get(file) == stamp:
                continue
            try:
                score = coverage_score(parse_coverage(read_nofollow(file.tree, file.path, _LARGEST_COVERAGE)))
            except OSError:
                continue
            if score is not None:
                yield score
