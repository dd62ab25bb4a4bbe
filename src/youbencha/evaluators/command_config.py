"""The configuration of the command evaluator."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, field_validator, model_validator

from youbencha.errors import Problem
from youbencha.evaluators.globs import GlobText
from youbencha.spec import ProblemAt, StrictModel
from youbencha.spec.base import Line, Milliseconds
from youbencha.text import did_you_mean

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
        """The program and its arguments, if it is run without a shell."""
        first = self.command if isinstance(self.command, tuple) else tuple(shlex.split(self.command))
        return (*first, *self.args)


def contradictions(config: CommandEvaluatorConfig) -> Iterator[Problem]:
    """Problems of a configuration whose fields are each valid."""
    yield from _command_problems(config)
    for name in config.metrics:
        if name in _BUILT_IN or (config.junit and name in _JUNIT):
            yield Problem(("metrics", name), "is the name of a built-in metric", "choose another name")
    for name in config.assertions:
        yield from _assertion_problems(config, name)


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
        choices = [f"{each_bound}_{each}" for each in known for each_bound in ("min", "max")]
        hint = did_you_mean(name, choices) or f"known: {', '.join(choices)}"
        yield Problem(path, "is not the limit of a known metric", hint)


def _numbers(config: CommandEvaluatorConfig) -> Iterator[str]:
    yield from _BUILT_IN_NUMBERS
    if config.junit:
        yield from _JUNIT
    yield from (name for name, metric in config.metrics.items() if metric.type != "string")
