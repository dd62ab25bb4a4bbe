"""Run the commands of a validation in a sandbox.

Hooks make test runners report each test by its name, and run only the tests that count.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, in_thread
from youbencha.evaluators.junit import Stamp, find_reports
from youbencha.evaluators.programs import command_environment, log_withheld_variables, program_environment, shell_argv
from youbencha.evaluators.validation.reports import XML_FILES, RunReports, read_reports
from youbencha.evaluators.validation.task import ValidationConfig, remove_below
from youbencha.files import read_nofollow
from youbencha.process import Command, Limits, Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.scoring.measures import Reward, parse_coverage, parse_reward
from youbencha.scoring.runner_results import TestId
from youbencha.workspace.trees import TreeFile

SELECT_BY_NAME = frozenset({"go", "cargo"})
"""Runners that can be told which tests to run. Others can be told which files to leave out."""

_HOOKS = "youbencha.evaluators.validation.runner_hooks"
_CARGO_HOOK = "youbencha-cargo"
_HOOK_DIRECTORIES = {
    "sitecustomize.py": "python",
    _CARGO_HOOK: "programs",
    "node.cjs": "node",
    "mocha.cjs": "node",
    "jest-filter.cjs": "node",
}
"""The directory of each file. Those of the first two are in PYTHONPATH and PATH."""
_MAX_OPTION_CHARS = 100_000
"""Length of the options in a variable, which can hold 131,071 bytes."""
_GO_TEST = re.compile(r"((?:Test|Example|Fuzz)\w*)(?:/.*)?", re.DOTALL)
_CARGO_TARGETS = tuple(
    f"{cpu}_{system}"
    for cpu in ("AARCH64", "X86_64")
    for system in ("UNKNOWN_LINUX_GNU", "UNKNOWN_LINUX_MUSL", "APPLE_DARWIN")
)


@dataclass(frozen=True, kw_only=True)
class TestSelection:
    """Which tests run, as far as their runners can be told."""

    left_out: frozenset[str] = frozenset()
    """Files in which no test counts, relative to the tree."""
    names: Collection[TestId] | None = None
    """The tests that count, for runners that select by name. None: all run."""


class RunnerHooks:
    """Files that change what test runners do, and a directory for their reports, both shared with a sandbox."""

    def __init__(self, scratch_dir: Path, tree: Path, sandbox: Sandbox) -> None:
        unique = os.urandom(8).hex()
        self._tree, self._sandbox = tree, sandbox
        self._hooks = Path(scratch_dir, f"hooks-{unique}")
        self.reports_dir = Path(scratch_dir, f"reports-{unique}")
        self.reports_dir.mkdir(parents=True)
        for name, directory in _HOOK_DIRECTORIES.items():
            path = self._hooks / directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((files(_HOOKS) / name).read_bytes())
            path.chmod(0o755)
        sandbox.share(self._hooks)
        sandbox.share(self.reports_dir, writable=True)

    def environment(
        self, step: str, env: Mapping[str, str], selection: TestSelection, canary: str | None
    ) -> dict[str, str]:
        """Return variables that make runners report to files whose names begin with `step`, and select tests.

        Tests with `canary` in their names are always selected.
        """
        hooks, report = self._sandbox.inside(self._hooks), f"{self._sandbox.inside(self.reports_dir)}/{step}-"
        left_out = [self._sandbox.inside(self._tree / path) for path in sorted(selection.left_out)]
        (self._hooks / f"{step}-left-out.json").write_text(json.dumps(left_out))
        # pytest does not collect what is left out: a file that it cannot load would end the run of all others.
        ignoring = shlex.join(f"--ignore={path}" for path in left_out if path.endswith(".py"))
        pytest = f"-o junit_family=xunit1 {shlex.quote(f'--junit-xml={report}pytest.xml')}"
        added = {
            "PYTEST_ADDOPTS": f"{pytest} {ignoring}".strip() if len(ignoring) < _MAX_OPTION_CHARS else pytest,
            "NODE_OPTIONS": f'--require "{hooks}/node/node.cjs"',
            "GOFLAGS": " ".join(("-test.v", *_go_options(selection, canary))),
        }
        extended = {name: f"{env.get(name, '')} {value}".strip() for name, value in added.items()}
        python_path = os.pathsep.join(filter(None, (f"{hooks}/python", env.get("PYTHONPATH"))))
        return {
            **extended,
            **self._cargo_environment(step, env, selection, canary),
            "PYTHONPATH": python_path,
            "YOUBENCHA_TEST_REPORT": report,
            "YOUBENCHA_LEFT_OUT": f"{hooks}/{step}-left-out.json",
        }

    def _cargo_environment(
        self, step: str, env: Mapping[str, str], selection: TestSelection, canary: str | None
    ) -> Mapping[str, str]:
        if selection.names is None:
            return {}
        hooks, counted = self._sandbox.inside(self._hooks), f"{step}-counted-tests.txt"
        (self._hooks / counted).write_text("".join(f"{test.name}\n" for test in selection.names), encoding="utf-8")
        runners = {f"CARGO_TARGET_{target}_RUNNER": _CARGO_HOOK for target in _CARGO_TARGETS}
        return {
            **{name: runner for name, runner in runners.items() if name not in env},
            # The runners are found here: cargo would split their path at its spaces.
            "PATH": f"{hooks}/programs{os.pathsep}{env.get('PATH', os.defpath)}",
            "YOUBENCHA_COUNTED_TESTS": f"{hooks}/{counted}",
            "YOUBENCHA_CANARY": canary or "",
        }


def _go_options(selection: TestSelection, canary: str | None) -> Iterator[str]:
    """With `test.`, options are for `go test` alone: a test may start `go run`, and read what it prints."""
    names = {match[1] for test in selection.names or () if (match := _GO_TEST.fullmatch(test.name))}
    pattern = "|".join((f"^({'|'.join(sorted(names))})$", *([canary] if canary else ())))
    if names and len(pattern) < _MAX_OPTION_CHARS:
        yield f"-test.run={pattern}"


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
_MAX_COVERAGE_BYTES = 32 * 1024 * 1024
_MAX_REWARD_BYTES = 1024 * 1024


class StepResult(NamedTuple):
    exit_code: int | None
    """None if a signal ended it."""
    timed_out: bool
    duration_ms: int
    printed: str
    ended_by: str | None
    """The limit of the sandbox, or the signal, that killed it."""

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def failure(self) -> str:
        if self.timed_out:
            return f"it timed out after {self.duration_ms / 1000:.0f} s"
        return f"its exit code is {self.exit_code}" if self.ended_by is None else f"it was killed by {self.ended_by}"

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
        argv = shell_argv(line, (), env) if self._sandbox.kind == "local" else ("sh", "-c", line)
        result = await self._sandbox.run(
            Command(argv=argv, cwd=self._tree, env=env),
            limits=Limits(timeout_s=self._config.timeout_s),
            redactor=self._redactor,
            log_file=log,
        )
        if result.exit.code != 0:
            log_withheld_variables(log, env, self._context.harness_env, self._sandbox)
        if failure := result.exit.host_failure:
            raise YouBenchaError(
                "VALIDATION_HOST_FAILED", f"The host or the sandbox failed while `{line}` ran: {failure}."
            )
        ended_by = f"its limit of {result.exit.limit_hit}" if result.exit.limit_hit else result.exit.signal
        duration_ms = round(result.duration_s * 1000)
        self.steps[name] = StepResult(result.exit.code, result.timed_out, duration_ms, result.printed, ended_by)
        return self.steps[name]

    async def run_tests(self, name: str, canary: str | None = None) -> RunReports:
        """Run the selected tests and those named after `canary`. Reports that were there before do not count."""
        reward = self._config.reward
        if reward is not None:
            await in_thread(lambda _: remove_below(self._tree, reward))
        before = await in_thread(lambda _: find_reports(self._tree, XML_FILES))
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
            return parse_reward(read_nofollow(self._tree, path, _MAX_REWARD_BYTES))
        except OSError:
            return None

    async def run_tests_with_coverage(self, name: str) -> tuple[RunReports, float | None]:
        """Run the tests; the coverage is the lowest of the reports that they wrote, None without any."""
        before = await in_thread(lambda _: find_reports(self._tree, _COVERAGE))
        reports = await self.run_tests(name)
        return reports, await in_thread(lambda _: min(self._coverage(before), default=None))

    def _coverage(self, before: Mapping[TreeFile, Stamp]) -> Iterator[float]:
        for file, stamp in find_reports(self._tree, _COVERAGE).items():
            if before.get(file) == stamp:
                continue
            try:
                coverage = parse_coverage(read_nofollow(file.tree, file.path, _MAX_COVERAGE_BYTES))
            except OSError:
                continue
            if coverage is not None:
                yield coverage.score
