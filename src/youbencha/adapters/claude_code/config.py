"""ClaudeCodeConfig: what a person may write under `agent.config` for Claude Code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from youbencha.adapters.claude_code.errors import invalid_config
from youbencha.errors import Problem
from youbencha.spec import ProblemAt, problems_of

MAX_PROMPT_LENGTH = 1_000_000

_MODEL_ALIASES = ("default", "sonnet", "opus", "haiku", "opusplan", "best")


@dataclass(frozen=True)
class _Matches:
    """Text that matches as a whole; a person who got it wrong is told in words, and editors by the schema."""

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


LONGEST_ARGUMENT_BYTES = 131_071
"""Linux takes no longer single argument (measured: E2BIG at 131,072)."""


def _fits(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "must not contain a NUL character: no argument can hold one")
    if len(text.encode()) > LONGEST_ARGUMENT_BYTES:
        raise PydanticCustomError("too_many_bytes", "must have at most 131,071 bytes: no argument can hold more")
    return text


_FITS = AfterValidator(_fits)
Argument = Annotated[str, _FITS]
"""Text that reaches the CLI on its command line."""

ToolRule = Annotated[
    str,
    Field(max_length=1000),
    _Matches(r"[\w\-]+(\([^\n\0]*\))?", "must be a tool (Read) or a tool with a rule in brackets: Bash(git log:*)"),
]
ModelName = Annotated[
    str,
    _Matches(
        rf"(claude-[\w\-.]+|{'|'.join(_MODEL_ALIASES)})(\[1m\])?",
        f"must be claude-… or an alias ({', '.join(_MODEL_ALIASES)}); "
        "for a name that only your gateway knows, set ANTHROPIC_MODEL in agent.env",
    ),
]
AgentName = Annotated[
    str,
    Field(max_length=100),
    _Matches(r"[\w\-]+", "must be made of letters, digits, hyphens and underscores"),
]
Version = Annotated[str, _Matches(r"\d+\.\d+\.\d+", "must be a whole version, such as 2.1.197")]


_OWN_FLAGS = frozenset({
    "--", "-p", "--print", "-h", "--help", "-v", "--version", "--output-format", "--input-format", "--verbose",
    "--include-partial-messages", "--model", "--agent", "--agents", "--system-prompt", "--append-system-prompt",
    "--permission-mode", "--dangerously-skip-permissions", "--allowedTools", "--allowed-tools", "--disallowedTools",
    "--disallowed-tools", "--max-turns", "--effort", "--mcp-config", "--strict-mcp-config", "--setting-sources",
})  # fmt: skip


class ClaudeCodeConfig(BaseModel):
    """Options of the Claude Code adapter. Immutable once validated; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_LENGTH)] | None = None
    """What the agent is asked to do."""
    prompt_file: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """A file with the prompt, relative to the file that names it (or else to the workspace), without `..`."""
    agent_name: AgentName | None = None
    """A custom agent, defined in `.claude/agents/NAME.md`."""
    model: ModelName | None = None
    """`claude-…` or an alias of the CLI. For a name that only your gateway knows, set env ANTHROPIC_MODEL."""
    append_system_prompt: Annotated[str, Field(max_length=10_000), _FITS] | None = None
    system_prompt: Annotated[str, Field(max_length=50_000), _FITS] | None = None
    permission_mode: (
        Literal["auto", "plan", "ask", "default", "acceptEdits", "bypassPermissions", "dontAsk", "manual"] | None
    ) = None
    """Unset means that every tool is allowed: nobody is there to ask. `ask` is the CLI's `default`."""
    allowed_tools: tuple[ToolRule, ...] | None = Field(default=None, strict=False)
    """Tools that need no approval. To take tools away, use `disallowed_tools`."""
    disallowed_tools: tuple[ToolRule, ...] | None = Field(default=None, strict=False)
    max_tokens: Annotated[int, Field(gt=0, le=200_000)] | None = None
    """For each answer of the model (CLAUDE_CODE_MAX_OUTPUT_TOKENS; the CLI has no flag for it)."""
    temperature: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """Sent with each request (CLAUDE_CODE_EXTRA_BODY; the CLI has no flag for it). Turns extended thinking off,
    because the API takes no other temperature than 1 with it."""
    max_turns: Annotated[int, Field(gt=0)] | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    mcp_config: Argument | None = None
    """A file (or JSON) with MCP servers; only these are used."""
    output_format: Literal["stream-json", "text"] = "stream-json"
    include_partial_messages: bool = False
    """Show text as it is being written, not only when it is finished."""
    pty: Literal["auto", "always", "never"] = "auto"
    """Whether the CLI gets a terminal. `auto` gives none: no version was found to need one."""
    prompt_delivery: Literal["auto", "argument", "stdin", "file"] = "auto"
    """How the prompt reaches the CLI. `auto`: as an argument up to 7,000 characters, else by standard input."""
    version: Version | None = None
    """The CLI version to use, from PATH or the toolbox (`yb agents install claude-code@VERSION`)."""
    executable: Argument | None = None
    """An explicit path of the CLI."""
    slash_commands: bool = False
    """Let a prompt such as `/review` run a command of the CLI. Otherwise it is refused: the model would not see it."""
    setting_sources: tuple[Literal["user", "project", "local"], ...] | None = Field(default=None, strict=False)
    """Whose settings the CLI loads. Without `project` and `local`, a repository's hooks, MCP servers, environment and
    CLAUDE.md have no say."""
    extra_args: tuple[Argument, ...] = Field(default=(), strict=False)
    """Further flags, passed as they are. Not the ones that an option here sets, nor anything in the prompt's place."""

    @field_validator("extra_args")
    @classmethod
    def _only_foreign_flags(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        names = [argument.partition("=")[0] for argument in given]
        if given and not names[0].startswith("-"):
            raise ValueError("must begin with a flag: a bare word would take the prompt's place")
        if taken := [name for name in names if name in _OWN_FLAGS]:
            raise ValueError(f"must not hold {taken[0]}: the adapter sets it itself, by an option of its own or always")
        return given

    @model_validator(mode="after")
    def _exactly_one_prompt(self) -> Self:
        if wrong := _prompt_choice(self.__dict__):
            raise ProblemAt(wrong.path, wrong.message)
        return self


def parse_config(raw: Mapping[str, Any]) -> ClaudeCodeConfig:
    """Validate; raise one ConfigError with every problem."""
    try:
        return ClaudeCodeConfig.model_validate(dict(raw))
    except ValidationError as error:
        problems = problems_of(error, ClaudeCodeConfig)
        wrong = _prompt_choice(raw)
        # Pydantic does not come to look at the whole where a part is wrong.
        if wrong and wrong not in problems and not _hinted_at(wrong.path, problems):
            problems.append(wrong)
        raise invalid_config(problems) from None


def _prompt_choice(given: Mapping[str, Any]) -> Problem | None:
    names = [name for name in ("prompt", "prompt_file") if given.get(name) is not None]
    if len(names) == 1:
        return None
    found = "both were given" if names else "neither was given"
    where = "prompt_file" if names else "prompt"
    return Problem(where, f"exactly one of prompt or prompt_file must be provided; {found}")


def _hinted_at(key: str, problems: Sequence[Problem]) -> bool:
    """Whoever wrote `promt` did give a prompt."""
    return any(f"'{key}" in (problem.hint or "") for problem in problems)
