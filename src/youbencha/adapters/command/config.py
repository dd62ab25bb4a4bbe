"""CommandConfig: which program, and how the prompt reaches it."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from youbencha.adapters.cli_agent.config import AgentConfig, Argument

Words = Annotated[tuple[Argument, ...], Field(strict=False)]


class CommandConfig(AgentConfig):
    """Options of the command adapter. A prompt is optional here: a program may know what to do."""

    prompt_needed = False

    command: Argument | Annotated[tuple[Argument, ...], Field(strict=False, min_length=1)]
    """The program and its first arguments: a list, or one line that is split as a shell would split it."""
    args: Words = ()
    """Further arguments. `{prompt}`, `{prompt_file}`, `{model}`, `{agent_name}`, `{workspace}` and `{config_dir}` stand
    for what they name, here and in `command`."""
    shell: bool = False
    """Give `command` to a shell as it is. The prompt is then "$1", and never part of the line."""
    prompt_by: Literal["argument", "stdin", "file", "environment", "none"] = "argument"
    """How the prompt reaches the program. `argument`: in the place of `{prompt}`, else as the last one."""
    success_exit_codes: Annotated[tuple[int, ...], Field(strict=False, min_length=1)] = (0,)

    @property
    def words(self) -> tuple[str, ...]:
        """The program and all that is written after it, with placeholders."""
        first = self.command if isinstance(self.command, tuple) else tuple(shlex.split(self.command))
        return (*first, *self.args, *self.extra_args)

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        if self.shell:
            self._check_shell()
        elif isinstance(self.command, str):
            self._check_line(self.command)
        return self

    def _check_shell(self) -> None:
        from youbencha.spec.problems import ProblemAt

        if not isinstance(self.command, str):
            raise ProblemAt("command", "must be one line of text where `shell` is true")
        if "{prompt}" in self.command:
            hint = 'write "$1" for the prompt'
            raise ProblemAt("command", "must not hold {prompt}: a shell would run what the prompt says", hint=hint)

    def _check_line(self, line: str) -> None:
        from youbencha.spec.problems import ProblemAt

        try:
            found = shlex.split(line)
        except ValueError as error:
            raise ProblemAt("command", f"cannot be split into words: {error}", hint="write it as a list") from None
        if not found:
            raise ProblemAt("command", "names no program")
