"""The options in `agent.config` that all agents share, the types of their values, and the prompt that they name.

To change the agent, users change only `agent.type`: so each agent has these options, and adds its own.
"""

import errno
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from youbencha.adapters.base import AgentDescription
from youbencha.errors import Problem
from youbencha.files import PathNotAllowed, check_relative, read_within
from youbencha.spec.base import StrictModel
from youbencha.spec.problems import ProblemAt, list_problems
from youbencha.text import nearest

MAX_PROMPT_LENGTH = 1_000_000

_MAX_PROMPT_BYTES = 4 * MAX_PROMPT_LENGTH
"""A character in UTF-8 has at most four bytes."""

_BLANK = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space by JavaScript's definition: real CLIs refuse a prompt of nothing else."""

MAX_ARGUMENT_BYTES = 131_071
"""The longest single argument on Linux (measured: E2BIG at 131,072)."""


TOOLS_IGNORED = (
    "in agent.config has no effect: the agent has all its tools",
    "Leave it out. Claude Code's options are `allowed_tools` and `disallowed_tools`.",
)
"""A notice and a hint about `tools`."""


class Matches(NamedTuple):
    """Text that matches a pattern as a whole. The error message is `otherwise`, and the JSON Schema has the pattern."""

    pattern: str
    otherwise: str

    def check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text, re.ASCII):
            raise PydanticCustomError("no_match", "{otherwise}", {"otherwise": self.otherwise})
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^{self.pattern}$"}


def fits_argument(text: str) -> bool:
    return "\0" not in text and len(text.encode()) <= MAX_ARGUMENT_BYTES


def _fits(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "must not contain a NUL character: an argument cannot hold one")
    if len(text.encode()) > MAX_ARGUMENT_BYTES:
        raise PydanticCustomError("too_many_bytes", "must have at most 131,071 bytes: an argument cannot hold more")
    return text


FITS = AfterValidator(_fits)

Argument = Annotated[str, FITS]
"""Text that reaches the CLI on its command line."""

NonEmptyArgument = Annotated[str, Field(min_length=1), FITS]
"""The same, and not empty."""

AgentName = Annotated[
    str, Field(max_length=100), Matches(r"[\w\-]+", "must be made of letters, digits, hyphens and underscores")
]

Version = Annotated[str, Matches(r"\d[\w.+\-]{0,63}", "must be a version, such as 1.0.102")]


class AgentConfig(StrictModel):
    """Options of all agents. Unknown keys are errors."""

    prompt_needed: ClassVar[bool] = True
    own_flags: ClassVar[frozenset[str]] = frozenset()
    """Flags that the adapter sets, and that `extra_args` must not contain."""

    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_LENGTH)] | None = None
    """The prompt: the task for the agent."""
    prompt_file: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """A file with the prompt, relative to the file that names it, or else to the workspace; without `..`."""
    agent_name: AgentName | None = None
    """The name of a custom agent, if the CLI supports them."""
    model: NonEmptyArgument | None = None
    """The model, under any name: only the provider knows whether it exists."""
    version: Version | None = None
    """The CLI version to use, from PATH or the toolbox."""
    executable: Argument | None = None
    """The path of the CLI."""
    pty: Literal["auto", "always", "never"] = "auto"
    """Whether the CLI gets a terminal. `auto` gives none: no version of any CLI was found to need one."""
    extra_args: tuple[Argument, ...] = Field(default=(), strict=False)
    """Additional flags, passed unchanged. The first must be a flag, and none may be one that an option here sets."""

    tools: tuple[str, ...] | None = Field(default=None, strict=False)
    """Has no effect, as in the original youBencha."""

    @field_validator("extra_args")
    @classmethod
    def _no_own_flags(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        names = [argument.partition("=")[0] for argument in given]
        if given and not names[0].startswith("-"):
            raise ValueError("must begin with a flag: a bare word would be read as the prompt")
        if taken := [name for name in names if name in cls.own_flags]:
            raise ValueError(f"must not contain {taken[0]}: the adapter sets it, always or by an option")
        return given

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if wrong := _prompt_choice(self.__dict__, needed=self.prompt_needed):
            raise ProblemAt(wrong.path, wrong.message)
        return self


C = TypeVar("C", bound=AgentConfig)


def parse_config(agent: type[AgentDescription], model: type[C], raw: Mapping[str, Any]) -> C:
    """Validate; raise one ConfigError with every problem."""
    try:
        return model.model_validate(dict(raw))
    except ValidationError as error:
        problems = list_problems(error, model, raw)
        wrong = _prompt_choice(raw, needed=model.prompt_needed)
        # Pydantic does not check the whole if a part is invalid.
        if wrong and wrong not in problems and not _is_misspelt(wrong.path, problems, model):
            problems.append(wrong)
        raise agent.invalid_config(problems) from None


def _prompt_choice(given: Mapping[str, Any], *, needed: bool) -> Problem | None:
    names = [name for name in ("prompt", "prompt_file") if given.get(name) is not None]
    if len(names) == 1 or not (names or needed):
        return None
    wrong = "both were given" if names else "neither was given"
    where = "prompt_file" if names else "prompt"
    return Problem(where, f"exactly one of prompt or prompt_file must be provided; {wrong}")


def _is_misspelt(key: str, problems: Sequence[Problem], model: type[AgentConfig]) -> bool:
    """Return whether the key was given under a name such as `promt`; `prompt` includes `prompt_file`."""
    unknown = (problem.path for problem in problems if problem.kind == "unknown_key")
    return any((nearest(name, model.model_fields) or "").startswith(key) for name in unknown)


def read_prompt(agent: type[AgentDescription], config: AgentConfig, *, workspace: Path, config_dir: Path | None) -> str:
    """Return the prompt, byte for byte. Empty if the configuration names none, which only some agents allow."""
    if config.prompt is None and config.prompt_file is None:
        return ""
    text = config.prompt
    if text is None:
        assert config.prompt_file is not None  # the configuration has exactly one of the two
        text = _PromptFile(agent, config.prompt_file).read(workspace, config_dir)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise agent.one_problem("prompt", f"is not valid Unicode at character {error.start}") from None
    if not text.strip(_BLANK):
        raise agent.one_problem("prompt", "contains only white space", "describe the task")
    return text


def prompt_is_here(agent: type[AgentDescription], config: AgentConfig, config_dir: Path | None) -> bool:
    """Return whether the prompt can be read before the checkout: a missing file may be in the repository.

    Raises if the file's name is not allowed.
    """
    if config.prompt_file is None:
        return True
    _PromptFile(agent, config.prompt_file).check_name()
    return config_dir is not None and os.path.lexists(config_dir / config.prompt_file)


class _PromptFile:
    def __init__(self, agent: type[AgentDescription], name: str) -> None:
        self._agent = agent
        self._name = name

    def read(self, workspace: Path, config_dir: Path | None) -> str:
        self.check_name()
        text = self._text(self._base(workspace, config_dir), config_dir)
        if not text:
            raise self._wrong(f"{self._name} is empty")
        if len(text) > MAX_PROMPT_LENGTH:
            raise self._wrong(f"{self._name} is longer than {MAX_PROMPT_LENGTH:,} characters")
        return text

    def _base(self, workspace: Path, config_dir: Path | None) -> Path:
        """Return the directory of the file that names the prompt file, or the workspace if it is not there."""
        if config_dir is None:
            return workspace
        return config_dir if os.path.lexists(config_dir / self._name) else workspace

    def _text(self, base: Path, config_dir: Path | None) -> str:
        try:
            return read_within(base, self._name, _MAX_PROMPT_BYTES).decode()
        except PathNotAllowed as error:
            raise self._wrong(error.message, error.hint) from None
        except FileNotFoundError:
            searched = str((base / self._name).parent) if config_dir is None else f"{config_dir}, then the repository"
            raise self._wrong(f"{self._name} does not exist", f"searched: {searched}") from None
        except UnicodeDecodeError as error:
            raise self._wrong(f"{self._name} is not UTF-8 at byte {error.start}") from None
        except OSError as error:
            too_long = f"is longer than {MAX_PROMPT_LENGTH:,} characters"
            raise self._wrong(f"{self._name} {too_long if error.errno == errno.EFBIG else error.strerror}") from None

    def check_name(self) -> None:
        try:
            check_relative(self._name)
        except PathNotAllowed as error:
            raise self._wrong(error.message, error.hint) from None

    def _wrong(self, message: str, hint: str | None = None) -> Exception:
        return self._agent.one_problem("prompt_file", message, hint)
