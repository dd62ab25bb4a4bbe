"""Run tests, or any program, on the result of the agent's work."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.evaluators.base import (
    CheckCancelled,
    EvaluationContext,
    artifact,
    config_problems,
    evaluation_result,
    in_thread,
    limit_results,
    read_config,
)
from youbencha.evaluators.command_config import (
    CommandEvaluatorConfig,
    MetricPattern,
    contradictions,
)
from youbencha.evaluators.environment import (
    command_environment,
    log_withheld_variables,
    missing_references,
    program_environment,
)
from youbencha.evaluators.junit import junit_metrics, reports
from youbencha.log.masking import without_secrets
from youbencha.process import Command, Limits, ProcessResult, ProcessStartError, Redactor, find_executable
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST
from youbencha.store.bundle import AssertionResult, EvaluationResult
from youbencha.text import plural
from youbencha.workspace.trees import copy_tree, remove_tree

_SEARCHED = 1024 * 1024
"""Characters from the end of the output: an agent's code may print any amount."""

_LONGEST_LINE = 4_096

_LARGEST_INT = 2**53
"""Not every JSON parser preserves the digits of larger numbers."""

TAIL_CHARACTERS = 4_000


class CommandEvaluator:
    name = "command"
    description = "Runs a program on the result, such as its tests: exit code, timeout, JUnit and regex metrics."

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, *, agent_type: str | None = None
    ) -> Sequence[Problem]:
        return config_problems(CommandEvaluatorConfig, config, contradictions)

    def check_environment(self, config: Mapping[str, Any], env: Mapping[str, str]) -> Sequence[Problem]:
        return list(missing_references(config.get("env"), env))

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        harness = context.harness_env
        config = read_config(CommandEvaluatorConfig, context.config, context.name, contradictions)
        if missing := self.check_environment(context.config, harness):
            raise ConfigError("EVALUATOR_CONFIG_INVALID", f"The configuration of {context.name}", missing)
        redactor = context.redactor.with_env(command_environment({}, config.env, harness))
        log = _log_file(context.artifacts_dir)
        try:
            async with _working_tree(context, config) as tree, _sandbox(context, config, tree) as sandbox:
                env = program_environment(context, sandbox, config.env)
                if sandbox is HOST:
                    env.setdefault("YOUBENCHA_CONFIG_DIR", str(context.config_dir))
                metrics = await _measure(config, tree, sandbox, env, redactor, log)
                if metrics["exit_code"] != 0:
                    log_withheld_variables(log, env, harness, sandbox)
        except MissingInTree as missing:
            message = redactor.text(f"{_label(config)} cannot run: {missing}.")
            return evaluation_result(context, started, "failed", message)
        results = assertion_results(config, metrics)
        failures = [result.message for result in results if not result.passed]
        result = evaluation_result(
            context,
            started,
            "failed" if failures else "passed",
            _message(config, metrics, failures),
            metrics=metrics,
            assertions=results,
            artifacts=[artifact(context, "log", log, "What the command printed")] if log.is_file() else [],
        )
        return without_secrets(result, redactor.text)


@asynccontextmanager
async def _working_tree(context: EvaluationContext, config: CommandEvaluatorConfig) -> AsyncIterator[Path]:
    """A temporary copy of the tree, unless `copy: false`. In `yb eval` always: the user may work in the directory."""
    if not config.in_copy and not context.untouched:
        yield context.directory
        return
    temporary = Path(mkdtemp(prefix="command-", dir=context.scratch_dir))
    try:
        copy = temporary / "tree"
        await in_thread(lambda check_cancelled: _copy(context, copy, check_cancelled))
        yield copy
    finally:
        with suppress(YouBenchaError):  # such as files of a container's other user: they do not affect the verdict
            await in_thread(lambda _: remove_tree(temporary))


def _copy(context: EvaluationContext, copy: Path, check_cancelled: CheckCancelled) -> None:
    """Copy the tree without unreadable files: an agent must not prevent its verdict by leaving some."""
    try:
        copy_tree(context.directory, copy, check_cancelled, skip=context.left_out, unreadable_ok=True)
    except OSError as error:
        raise YouBenchaError(
            "COMMAND_COPY_FAILED",
            f"Cannot copy the tree for the command: {error}",
            hint="Check the free disk space, or run it in place with `copy: false`.",
        ) from error


@asynccontextmanager
async def _sandbox(context: EvaluationContext, config: CommandEvaluatorConfig, tree: Path) -> AsyncIterator[Sandbox]:
    if context.open_sandbox is None or not config.sandbox:
        yield HOST
        return
    async with context.open_sandbox(tree) as opened:
        yield opened.sandbox


async def _measure(
    config: CommandEvaluatorConfig, tree: Path, sandbox: Sandbox, env: Mapping[str, str], redactor: Redactor, log: Path
) -> dict[str, Any]:
    before = await in_thread(lambda _: reports(tree, config.junit)) if config.junit else {}
    result = await _run(config, tree, sandbox, env, redactor, log)
    if failure := result.exit.host_failure:
        raise YouBenchaError("COMMAND_HOST_FAILED", f"Something around the command failed while it ran: {failure}.")
    # Paths in the copy, which is removed, are of no use: those in the repository are what people look for.
    output = result.last_output.replace(f"{sandbox.inside(tree.resolve())}{os.sep}", "")
    metrics = {**process_metrics(result, tail(output)), **metrics_in(result.printed, config.metrics)}
    if config.junit:
        metrics |= await in_thread(lambda _: junit_metrics(tree, config.junit, before))
    return metrics


async def _run(
    config: CommandEvaluatorConfig, tree: Path, sandbox: Sandbox, env: Mapping[str, str], redactor: Redactor, log: Path
) -> ProcessResult:
    directory = working_directory(config, tree)
    argv = arguments(config, directory, env) if sandbox is HOST else arguments_inside(config, directory, sandbox)
    try:
        return await sandbox.run(
            Command(argv=argv, cwd=directory, env=env),
            limits=Limits(timeout_s=config.timeout / 1000),
            redactor=redactor,
            log_file=log,
        )
    except ProcessStartError as error:
        if Path(argv[0]).is_relative_to(tree.resolve()):
            raise MissingInTree(error.message) from error
        raise YouBenchaError("COMMAND_NOT_STARTED", error.message, hint=error.hint, context=error.context) from error


def _message(config: CommandEvaluatorConfig, metrics: Mapping[str, Any], failures: Sequence[str]) -> str:
    text = f"{_label(config)} {summary(metrics)}"
    return f"{text}, but {'; '.join(failures)}." if failures else f"{text}."


def _label(config: CommandEvaluatorConfig) -> str:
    """The configured name, or the start of the command."""
    if config.label:
        return config.label
    line = config.command if isinstance(config.command, str) else " ".join(config.command)
    first = line.strip().splitlines()[0]
    return f"`{first[:80]}{'…' if len(first) > 80 or first != line.strip() else ''}`"


def _log_file(directory: Path) -> Path:
    names = (f"output{'' if number == 1 else f'-{number}'}.log" for number in count(1))
    return next(path for path in map(directory.joinpath, names) if not path.exists())


def metrics_in(output: str, patterns: Mapping[str, MetricPattern]) -> dict[str, Any]:
    """The metrics in a program's output; None if no line matches or the value is not of the configured type."""
    if not patterns:
        return {}
    lines = [line[:_LONGEST_LINE] for line in output[-_SEARCHED:].splitlines()]
    return {name: _value(lines, metric) for name, metric in patterns.items()}


def tail(output: str) -> str:
    """The last lines of the output."""
    if len(output) <= TAIL_CHARACTERS:
        return output
    end = output[-TAIL_CHARACTERS:]
    return end.partition("\n")[2] or end


def _value(lines: list[str], metric: MetricPattern) -> Any:
    pattern = re.compile(metric.pattern)
    group = metric.group if metric.group is not None else min(1, pattern.groups)
    for line in reversed(lines):
        if match := pattern.search(line):
            text: str | None = match[group]
            return None if text is None else _converted(text, metric.type)
    return None


def _converted(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    plain = text.strip().replace(",", "")
    try:
        number = int(plain) if kind == "int" else float(plain)
    except ValueError:
        return None
    if isinstance(number, float):
        return number if math.isfinite(number) else None
    return number if abs(number) <= _LARGEST_INT else None


class MissingInTree(Exception):
    """Something that the command needs is not in the tree, so the evaluation fails."""


def working_directory(config: CommandEvaluatorConfig, tree: Path) -> Path:
    root = tree.resolve()
    directory = (root / (config.working_dir or ".")).resolve()
    if not directory.is_relative_to(root):
        raise MissingInTree(f"{config.working_dir} leads out of the tree")
    if not directory.is_dir():
        raise MissingInTree(f"the directory {config.working_dir} does not exist in the tree")
    return directory


def arguments(config: CommandEvaluatorConfig, directory: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """The command line, with the full path of the program."""
    if config.shell:
        assert isinstance(config.command, str)
        return shell_words(config.command, config.args, env)
    program, *rest = config.words()
    if Path(program).name == program:
        return str(_on_path(program, env)), *rest
    path = directory / program
    if not path.is_file():
        if Path(program).is_absolute():
            raise _not_found(program, "the file does not exist")
        raise MissingInTree(f"{program} does not exist in the tree")
    if sys.platform != "win32" and not os.access(path, os.X_OK):
        raise MissingInTree(f"{program} is not executable")
    return str(path), *rest


def arguments_inside(config: CommandEvaluatorConfig, directory: Path, sandbox: Sandbox) -> tuple[str, ...]:
    """The command line for a container, where a program without a slash is searched on its PATH."""
    if config.shell:
        assert isinstance(config.command, str)
        return "sh", "-c", config.command, "sh", *config.args
    program, *rest = config.words()
    if "/" not in program or Path(program).is_absolute():
        return program, *rest
    if not (directory / program).is_file():
        raise MissingInTree(f"{program} does not exist in the tree")
    return sandbox.inside(directory / program), *rest


def shell_words(line: str, args: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """The command line that runs a line in the host's shell."""
    if sys.platform == "win32":
        return str(_on_path("cmd", env)), "/d", "/s", "/c", line, *args
    return str(_on_path("sh", env)), "-c", line, "sh", *args


def _on_path(program: str, env: Mapping[str, str]) -> Path:
    found = find_executable(program, env)
    if found is None:
        raise _not_found(program, "it is not on PATH")
    return found


def _not_found(program: str, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "COMMAND_NOT_FOUND",
        f"Cannot run {program}: {reason}.",
        hint="Install it, fix the name, or set PATH under `env`. For a program in the tree, write ./NAME.",
    )


def assertion_results(config: CommandEvaluatorConfig, metrics: Mapping[str, Any]) -> list[AssertionResult]:
    """The results for the exit code, the JUnit report and the configured limits."""
    results = [_exit_result(config, metrics)]
    if config.junit:
        error = metrics.get("junit_error", "")
        results.append(AssertionResult(name="junit", passed=not error, expected=list(config.junit), message=error))
    return [*results, *limit_results(config.assertions, metrics)]


def _exit_result(config: CommandEvaluatorConfig, metrics: Mapping[str, Any]) -> AssertionResult:
    expected = config.expect_exit_code
    passed = not metrics["timed_out"] and metrics["exit_code"] in expected
    return AssertionResult(
        name="exit_code",
        passed=passed,
        expected=expected[0] if len(expected) == 1 else list(expected),
        actual=metrics["exit_code"],
        message="" if passed else _exit_failure(config, metrics),
    )


def _exit_failure(config: CommandEvaluatorConfig, metrics: Mapping[str, Any]) -> str:
    if metrics["timed_out"]:
        return f"it timed out after {config.timeout / 1000:g} s"
    if metrics["signal"]:
        return f"it was ended by {metrics['signal']}"
    if metrics["exit_code"] is None:
        return "its exit status is unknown"
    expected = " or ".join(map(str, config.expect_exit_code))
    return f"its exit code is {metrics['exit_code']}, not {expected}"


def process_metrics(result: ProcessResult, output_tail: str) -> dict[str, Any]:
    return {
        "exit_code": result.exit.code,
        "signal": result.exit.signal,
        "timed_out": result.timed_out,
        "duration_ms": round(result.duration_s * 1000),
        "output_tail": output_tail,
        "output_truncated": result.truncated,
    }


def summary(metrics: Mapping[str, Any]) -> str:
    """The duration, and the test counts if there are any."""
    parts = [f"took {metrics['duration_ms'] / 1000:.1f} s"]
    if "tests" in metrics:
        failed = metrics["failures"] + metrics["errors"]
        parts.append(f"{plural(metrics['tests'], 'test')}, {failed:,} failed, {metrics['skipped']:,} skipped")
    return "; ".join(parts)
