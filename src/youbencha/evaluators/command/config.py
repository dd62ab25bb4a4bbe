"""What a person may write under `config` of command."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, field_validator, model_validator

from youbencha.evaluators.globs import GlobText
from youbencha.spec import ProblemAt, Written
from youbencha.spec.base import Line, Milliseconds

DEFAULT_TIMEOUT_MS = 300_000

Strings = Annotated[tuple[str, ...], Field(strict=False)]


def _one_or_more(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


class MetricPattern(Written):
    """A number or a text that the program prints. The last line that matches counts: summaries come last."""

    pattern: Annotated[str, Field(min_length=1), AfterValidator(_pattern)]
    """Searched in each line of the last megabyte of the output, of which very long lines are cut."""
    type: Literal["int", "float", "string"] = "float"
    group: int | str | None = None
    """Which group holds the value, by number or name; by default the first, or the whole if there is none."""

    @model_validator(mode="after")
    def _group_exists(self) -> Self:
        pattern = re.compile(self.pattern)
        if isinstance(self.group, str) and self.group not in pattern.groupindex:
            raise ProblemAt("group", "there is no group of this name in `pattern`")
        if isinstance(self.group, int) and not 0 <= self.group <= pattern.groups:
            raise ProblemAt("group", f"there are only {pattern.groups} groups in `pattern`")
        return self


MetricName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]
Number = Annotated[float, Field(allow_inf_nan=False)]


class CommandConfig(Written):
    command: Annotated[Line | Strings, Field(union_mode="left_to_right")]
    """Split into words as a shell would do it, but run without one; or a list, taken as it is."""
    args: Strings = ()
    shell: bool = False
    """`command` is then one line for the system's shell; `args` are its $1, $2 …"""
    timeout: Annotated[Milliseconds, Field(validation_alias=AliasChoices("timeout", "timeout_ms"))] = DEFAULT_TIMEOUT_MS
    env: dict[str, str] = Field(default_factory=dict)
    """`${NAME}` is taken from the environment of youBencha, of which the program gets nothing secret otherwise."""
    working_dir: Line | None = None
    """Below the tree."""
    expect_exit_code: Annotated[tuple[int, ...], BeforeValidator(_one_or_more), Field(strict=False, min_length=1)] = (
        0,
    )
    """One code or several."""
    junit: Annotated[tuple[GlobText, ...], BeforeValidator(_one_or_more), Field(strict=False)] = ()
    """Where the program writes its JUnit XML, below the tree. What was there before it ran does not count."""
    metrics: dict[MetricName, MetricPattern] = Field(default_factory=dict)
    assertions: dict[str, Number] = Field(default_factory=dict)
    """`min_NAME` and `max_NAME` of any metric that is a number."""
    in_copy: Annotated[bool, Field(validation_alias="copy")] = True
    """Run in a copy of the tree, so that no evaluator disturbs another. False saves the time of copying."""
    sandbox: bool = True
    """Where the agent ran in a container, run this in one of the same image, too. False: on the host."""
    label: Annotated[str | None, Field(validation_alias="name")] = None
    """What to call it in messages."""

    @field_validator("command")
    @classmethod
    def _some_words(cls, command: str | tuple[str, ...]) -> str | tuple[str, ...]:
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
        """The program and its arguments, where no shell is asked for."""
        first = self.command if isinstance(self.command, tuple) else tuple(shlex.split(self.command))
        return (*first, *self.args)
