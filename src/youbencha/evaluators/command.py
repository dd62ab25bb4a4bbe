"""Run tests, or any program, on the result of the agent's work."""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import mkdtemp
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, field_validator, model_validator

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import (
    CheckCancelled,
    EvaluationContext,
    EvaluatorBase,
    artifact,
    evaluation_result,
    in_thread,
    limit_results,
)
from youbencha.evaluators.globs import GlobText
from youbencha.evaluators.junit import find_reports, junit_metrics
from youbencha.evaluators.programs import (
    command_environment,
    find_program,
    log_withheld_variables,
    missing_references,
    program_environment,
    program_not_found,
    shell_argv,
)
from youbencha.log.masking import without_secrets
from youbencha.process import Command, Limits, ProcessResult, ProcessStartError, Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST
from youbencha.spec import ProblemAt, StrictModel
from youbencha.spec.base import Line, Milliseconds
from youbencha.store.bundle import AssertionResult, EvaluationResult
from youbencha.text import did_you_mean, plural
from youbencha.workspace.trees import copy_tree, remove_tree

DEFAULT_TIMEOUT_MS = 300_000
Strings = Annotated[tuple[str, ...], Field(strict=False)]


MetricName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]
Number = Annotated[float, Field(allow_inf_nan=False)]
_BUILT_IN = ("exit_code", "duration_ms", "timed_out", "signal", "output_tail", "output_truncated", "junit_error")
_BUILT_IN_NUMBERS = ("exit_code", "duration_ms")
_JUNIT = ("tests", "failures", "errors", "skipped", "pass_rate")
_SHELL_WORDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1", "&>"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def _one_or_more(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


class MetricPattern(StrictModel):
    """A number or text in the program's output. The last matching line counts: summaries come last."""

    pattern: Annotated[str, Field(min_length=1), AfterValidator(_pattern)]
    """Searched in each line of the last megabyte of the output; very long lines are cut."""
    type: Literal["int", "float", "string"] = "float"
    group: int | str | None = None
    """The group with the value, by number or name. Defaults to the first, or to the whole match without groups."""

    @model_validator(mode="after")
    def _group_exists(self) -> Self:
        pattern = re.compile(self.pattern)
        if isinstance(self.group, str) and self.group not in pattern.groupindex:
            raise ProblemAt("group", "`pattern` has no group of this name")
        if isinstance(self.group, int) and not 0 <= self.group <= pattern.groups:
            raise ProblemAt("group", f"`pattern` has only {pattern.groups} groups")
        return self


class CommandEvaluatorConfig(StrictModel):
    command: Annotated[Line | Strings, Field(union_mode="left_to_right")]
    """Split into words as by a shell, but run without one; or a list of words."""
    args: Strings = ()
    shell: bool = False
    """Run `command` as one line of the system's shell; `args` are its $1, $2 …"""
    timeout: Annotated[Milliseconds, Field(validation_alias=AliasChoices("timeout", "timeout_ms"))] = DEFAULT_TIMEOUT_MS
    env: dict[str, str] = Field(default_factory=dict)
    """`${NAME}` is taken from youBencha's environment. Without it, the program gets no secrets from there."""
    working_dir: Line | None = None
    """Relative to the tree."""
    expect_exit_code: Annotated[tuple[int, ...], BeforeValidator(_one_or_more), Field(strict=False, min_length=1)] = (
        0,
    )
    """One code or several."""
    junit: Annotated[tuple[GlobText, ...], BeforeValidator(_one_or_more), Field(strict=False)] = ()
    """Patterns of JUnit XML files in the tree that the program writes. Files from before it ran do not count."""
    metrics: dict[MetricName, MetricPattern] = Field(default_factory=dict)
    assertions: dict[str, Number] = Field(default_factory=dict)
    """`min_NAME` and `max_NAME` of any metric that is a number."""
    in_copy: Annotated[bool, Field(validation_alias="copy")] = True
    """Run in a copy of the tree, so that evaluators do not affect each other. False saves the time of copying."""
    sandbox: bool = True
    """If the agent ran in a container, run in a container of the same image. False: on the host."""
    label: Annotated[str | None, Field(validation_alias="name")] = None
    """The name in messages."""

    @field_validator("command")
    @classmethod
    def _not_empty(cls, command: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not command or (isinstance(command, tuple) and not command[0].strip()):
            raise ValueError("must name a program")
        return command

    @field_validator("working_dir")
    @classmethod
    def _below_the_tree(cls, directory: str | None) -> str | None:
        if directory is not None:
            posix, windows = PurePosixPath(directory), PureWindowsPath(directory)
            if posix.is_absolute() or windows.anchor or ".." in (*posix.parts, *windows.parts):
                raise ValueError("must be a path below the tree, without `..`")
        return directory

    def words(self) -> tuple[str, ...]:
        """Return the program and its arguments, if it is run without a shell."""
        first = self.command if isinstance(self.command, tuple) else tuple(shlex.split(self.command))
        return (*first, *self.args)


def _command_problems(config: CommandEvaluatorConfig) -> Iterator[Problem]:
    if isinstance(config.command, tuple):
        if config.shell:
            yield Problem("command", "must be one line of text if `shell` is true")
        return
    if config.shell:
        return
    try:
        words = shlex.split(config.command)
    except ValueError as error:
        yield Problem("command", f"cannot be split into words: {str(error).lower()}")
        return
    operators = [word for word in words if word in _SHELL_WORDS or word.endswith(";")]
    if operators:
        hint = "add `shell: true`, or write a list of words to pass it as an argument"
        yield Problem("command", f"{operators[0]!r} requires a shell", hint)
    elif not words or not words[0]:
        yield Problem("command", "must name a program")
    elif _ASSIGNMENT.match(words[0]):
        yield Problem("command", "must begin with a program", "variables go into `env`")


def _assertion_problems(config: CommandEvaluatorConfig, name: str) -> Iterator[Problem]:
    path = ("assertions", name)
    bound, _, metric = name.partition("_")
    known = list(_numbers(config))
    if bound in ("min", "max") and metric in known:
        if bound == "min" and config.assertions[name] > config.assertions.get(f"max_{metric}", float("inf")):
            yield Problem(path, f"must not be more than max_{metric}: nothing could pass")
    elif bound in ("min", "max") and metric in _JUNIT:
        yield Problem(path, f"requires `junit`, which provides {metric}")
    else:
        choices = [f"{limit}_{measure}" for measure in known for limit in ("min", "max")]
        hint = did_you_mean(name, choices) or f"known: {', '.join(choices)}"
        yield Problem(path, "is not the limit of a known metric", hint)


def _numbers(config: CommandEvaluatorConfig) -> Iterator[str]:
    yield from _BUILT_IN_NUMBERS
    if config.junit:
        yield from _JUNIT
    yield from (name for name, metric in config.metrics.items() if metric.type != "string")


_SEARCHED_CHARS = 1024 * 1024
"""Characters from the end of the output: an agent's code may print any amount."""

_MAX_LINE_CHARS = 4_096

_MAX_INT = 2**53
"""Not every JSON parser preserves the digits of larger numbers."""

MAX_TAIL_CHARS = 4_000


class CommandEvaluator(EvaluatorBase[CommandEvaluatorConfig]):
    name = "command"
    description = "Runs a program on the result, such as its tests: exit code, timeout, JUnit and regex metrics."

    config_model = CommandEvaluatorConfig
    time_limit_s = None
    takes_label = True

    def contradictions(self, config: CommandEvaluatorConfig) -> Iterator[Problem]:
        yield from _command_problems(config)
        for name in config.metrics:
            if name in _BUILT_IN or (config.junit and name in _JUNIT):
                yield Problem(("metrics", name), "is the name of a built-in metric", "choose another name")
        for name in config.assertions:
            yield from _assertion_problems(config, name)

    def check_environment(self, config: Mapping[str, Any], env: Mapping[str, str]) -> Sequence[Problem]:
        return list(missing_references(config.get("env"), env))

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        harness = context.harness_env
        config = self.read_config(context)
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
    """Copy the tree to a temporary directory, unless `copy: false`. In `yb eval` always: the user may work in the
    directory."""
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
    before = await in_thread(lambda _: find_reports(tree, config.junit)) if config.junit else {}
    result = await _run(config, tree, sandbox, env, redactor, log)
    if failure := result.exit.host_failure:
        raise YouBenchaError("COMMAND_HOST_FAILED", f"The host or the sandbox failed while the command ran: {failure}.")
    # Paths in the copy, which is removed, are of no use: those in the repository are what people look for.
    output = result.last_output.replace(f"{sandbox.inside(tree.resolve())}{os.sep}", "")
    metrics = {**process_metrics(result, tail(output)), **read_metrics(result.printed, config.metrics)}
    if config.junit:
        metrics |= await in_thread(lambda _: junit_metrics(tree, config.junit, before))
    return metrics


async def _run(
    config: CommandEvaluatorConfig, tree: Path, sandbox: Sandbox, env: Mapping[str, str], redactor: Redactor, log: Path
) -> ProcessResult:
    directory = working_directory(config, tree)
    argv = host_argv(config, directory, env) if sandbox is HOST else container_argv(config, directory, sandbox)
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
    """Return the configured name, or the start of the command."""
    if config.label:
        return config.label
    line = config.command if isinstance(config.command, str) else " ".join(config.command)
    first = line.strip().splitlines()[0]
    return f"`{first[:80]}{'…' if len(first) > 80 or first != line.strip() else ''}`"


def _log_file(directory: Path) -> Path:
    names = (f"output{'' if number == 1 else f'-{number}'}.log" for number in count(1))
    return next(path for path in map(directory.joinpath, names) if not path.exists())


def read_metrics(output: str, patterns: Mapping[str, MetricPattern]) -> dict[str, Any]:
    """Read metrics from a program's output; None if no line matches or the value is not of the configured type."""
    if not patterns:
        return {}
    lines = [line[:_MAX_LINE_CHARS] for line in output[-_SEARCHED_CHARS:].splitlines()]
    return {name: _value(lines, metric) for name, metric in patterns.items()}


def tail(output: str) -> str:
    """Return the last lines of the output."""
    if len(output) <= MAX_TAIL_CHARS:
        return output
    end = output[-MAX_TAIL_CHARS:]
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
    return number if abs(number) <= _MAX_INT else None


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


def host_argv(config: CommandEvaluatorConfig, directory: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command line, with the full path of the program."""
    if config.shell:
        assert isinstance(config.command, str)
        return shell_argv(config.command, config.args, env)
    program, *rest = config.words()
    if Path(program).name == program:
        return str(find_program(program, env)), *rest
    path = directory / program
    if not path.is_file():
        if Path(program).is_absolute():
            raise program_not_found(program, "the file does not exist")
        raise MissingInTree(f"{program} does not exist in the tree")
    if sys.platform != "win32" and not os.access(path, os.X_OK):
        raise MissingInTree(f"{program} is not executable")
    return str(path), *rest


def container_argv(config: CommandEvaluatorConfig, directory: Path, sandbox: Sandbox) -> tuple[str, ...]:
    """Return the command line for a container, where a program without a slash is searched on its PATH."""
    if config.shell:
        assert isinstance(config.command, str)
        return "sh", "-c", config.command, "sh", *config.args
    program, *rest = config.words()
    if "/" not in program or Path(program).is_absolute():
        return program, *rest
    if not (directory / program).is_file():
        raise MissingInTree(f"{program} does not exist in the tree")
    return sandbox.inside(directory / program), *rest


def assertion_results(config: CommandEvaluatorConfig, metrics: Mapping[str, Any]) -> list[AssertionResult]:
    """Check the exit code, the JUnit report and the configured limits."""
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
        return f"it was killed by {metrics['signal']}"
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
    """Describe the duration, and the test counts if there are any."""
    parts = [f"took {metrics['duration_ms'] / 1000:.1f} s"]
    if "tests" in metrics:
        failed = metrics["failures"] + metrics["errors"]
        parts.append(f"{plural(metrics['tests'], 'test')}, {failed:,} failed, {metrics['skipped']:,} skipped")
    return "; ".join(parts)
