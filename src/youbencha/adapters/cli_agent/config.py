"""The options in `agent.config` that all agents share, and the types of their values.

To change the agent, users change only `agent.type`: so each agent has these options, and adds its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

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

from youbencha.adapters.cli_agent.kind import AgentKind
from youbencha.errors import Problem
from youbencha.spec.base import StrictModel
from youbencha.text import nearest

MAX_PROMPT_LENGTH = 1_000_000

LONGEST_ARGUMENT_BYTES = 131_071
"""The longest single argument on Linux (measured: E2BIG at 131,072)."""


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
    return "\0" not in text and len(text.encode()) <= LONGEST_ARGUMENT_BYTES


def _fits(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "must not contain a NUL character: an argument cannot hold one")
    if len(text.encode()) > LONGEST_ARGUMENT_BYTES:
        raise PydanticCustomError("too_many_bytes", "must have at most 131,071 bytes: an argument cannot hold more")
    return text


FITS = AfterValidator(_fits)

Argument = Annotated[str, FITS]
"""Text that reaches the CLI on its command line."""

NonEmptyArgument = Annotated[str, Field(min_length=1), FITS]
"""The same, and not empty."""

AgentName = Annotated[
    str,
    Field(max_length=100),
    Matches(r"[\w\-]+", "must be made of letters, digits, hyphens and underscores"),
]

Version = Annotated[str, Matches(r"\d[\w.+\-]{0,63}", "must be a version, such as 1.0.102")]


class AgentConfig(StrictModel):
    """Options of all agents. Immutable once validated; unknown keys are errors."""

    prompt_needed: ClassVar[bool] = True
    own_flags: ClassVar[frozenset[str]] = frozenset()
    """Flags that the adapter sets, and that `extra_args` must not contain."""

    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_LENGTH)] | None = None
    """The task."""
    prompt_file: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """A file with the prompt, relative to the file that names it (or else to the workspace), without `..`."""
    agent_name: AgentName | None = None
    """A custom agent, if the CLI supports them."""
    model: NonEmptyArgument | None = None
    """Any name: only its provider knows whether it exists."""
    version: Version | None = None
    """The CLI version to use, from PATH or the toolbox."""
    executable: Argument | None = None
    """The path of the CLI."""
    extra_args: tuple[Argument, ...] = Field(default=(), strict=False)
    """Additional flags, passed unchanged. Not those that an option here sets."""

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
            from youbencha.spec.problems import ProblemAt

            raise ProblemAt(wrong.path, wrong.message)
        return self


C = TypeVar("C", bound=AgentConfig)


def parse_config(kind: AgentKind, model: type[C], raw: Mapping[str, Any]) -> C:
    """Validate; raise one ConfigError with every problem."""
    try:
        return model.model_validate(dict(raw))
    except ValidationError as error:
        from youbencha.spec.problems import problems_of

        problems = problems_of(error, model)
        wrong = _prompt_choice(raw, needed=model.prompt_needed)
        # Pydantic does not check the whole if a part is invalid.
        if wrong and wrong not in problems and not _is_misspelt(wrong.path, problems, model):
            problems.append(wrong)
        raise kind.invalid_config(problems) from None


def _prompt_choice(given: Mapping[str, Any], *, needed: bool) -> Problem | None:
    names = [name for name in ("prompt", "prompt_file") if given.get(name) is not None]
    if len(names) == 1 or not (names or needed):
        return None
    found = "both were given" if names else "neither was given"
    where = "prompt_file" if names else "prompt"
    return Problem(where, f"exactly one of prompt or prompt_file must be provided; {found}")


def _is_misspelt(key: str, problems: Sequence[Problem], model: type[AgentConfig]) -> bool:
    """Whether the key was given under a name such as `promt`; `prompt` includes `prompt_file`."""
    unknown = (problem.path for problem in problems if problem.kind == "unknown_key")
    return any((nearest(name, model.model_fields) or "").startswith(key) for name in unknown)
