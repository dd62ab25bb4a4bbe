"""ClaudeCodeConfig: what a person may write under `agent.config` for Claude Code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from youbencha.adapters.claude_code.errors import invalid_config
from youbencha.spec import problems_of

MAX_PROMPT_LENGTH = 1_000_000

_MODEL_ALIASES = "default|sonnet|opus|haiku|opusplan|best"

ToolRule = Annotated[str, Field(pattern=r"^[\w\-]+(\([^\n]*\))?\Z", max_length=1000)]
"""A tool (`Read`), or a tool with a rule (`Bash(git log:*)`)."""


class ClaudeCodeConfig(BaseModel):
    """Options of the Claude Code adapter. Immutable once validated; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, regex_engine="python-re")

    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_LENGTH)] | None = None
    """What the agent is asked to do."""
    prompt_file: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """A file with the prompt, relative to the file that names it (or else to the workspace), without `..`."""
    agent_name: Annotated[str, Field(pattern=r"^[\w\-]+\Z", max_length=100)] | None = None
    """A custom agent, defined in `.claude/agents/NAME.md`."""
    model: Annotated[str, Field(pattern=rf"^(claude-[\w\-.]+|{_MODEL_ALIASES})(\[1m\])?\Z")] | None = None
    """`claude-…` or an alias of the CLI. For a name that only your gateway knows, set env ANTHROPIC_MODEL."""
    append_system_prompt: Annotated[str, Field(max_length=10_000)] | None = None
    system_prompt: Annotated[str, Field(max_length=50_000)] | None = None
    permission_mode: (
        Literal["auto", "plan", "ask", "default", "acceptEdits", "bypassPermissions", "dontAsk", "manual"] | None
    ) = None
    """Unset means that every tool is allowed: nobody is there to ask. `ask` is the CLI's `default`."""
    allowed_tools: tuple[ToolRule, ...] | None = Field(default=None, strict=False)
    """Tools that need no approval. To take tools away, use `disallowed_tools`."""
    disallowed_tools: tuple[ToolRule, ...] | None = Field(default=None, strict=False)
    max_tokens: Annotated[int, Field(gt=0, le=200_000)] | None = None
    """For each answer of the model (CLAUDE_CODE_MAX_OUTPUT_TOKENS; the CLI has no flag for it)."""
    temperature: Annotated[float, Field(ge=0.0, le=1.0, strict=False)] | None = None
    """Sent with each request (CLAUDE_CODE_EXTRA_BODY; the CLI has no flag for it). Turns extended thinking off,
    because the API takes no other temperature than 1 with it."""
    max_turns: Annotated[int, Field(gt=0)] | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    mcp_config: str | None = None
    """A file (or JSON) with MCP servers; only these are used."""
    output_format: Literal["stream-json", "text"] = "stream-json"
    include_partial_messages: bool = False
    """Show text as it is being written, not only when it is finished."""
    pty: Literal["auto", "always", "never"] = "auto"
    """Whether the CLI gets a terminal. `auto` gives none: no version was found to need one."""
    prompt_delivery: Literal["auto", "argument", "stdin", "file"] = "auto"
    """How the prompt reaches the CLI. `auto`: as an argument up to 7,000 characters, else by standard input."""
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+\Z")] | None = None
    """The CLI version to use, from PATH or the toolbox (`yb agents install claude-code@VERSION`)."""
    executable: str | None = None
    """An explicit path of the CLI."""
    slash_commands: bool = False
    """Let a prompt such as `/review` run a command of the CLI. Otherwise it is refused: the model would never see it."""
    extra_args: tuple[str, ...] = Field(default=(), strict=False)
    """Further flags, passed as they are."""

    @model_validator(mode="after")
    def _exactly_one_prompt(self) -> Self:
        given = [name for name in ("prompt", "prompt_file") if getattr(self, name) is not None]
        if len(given) != 1:
            found = "both were given" if given else "neither was given"
            raise PydanticCustomError(
                "prompt_choice", "Exactly one of prompt or prompt_file must be provided; {found}", {"found": found}
            )
        return self


def parse_config(raw: Mapping[str, Any]) -> ClaudeCodeConfig:
    """Validate; raise one ConfigError with every problem."""
    try:
        return ClaudeCodeConfig.model_validate(dict(raw))
    except ValidationError as error:
        raise invalid_config(problems_of(error, ClaudeCodeConfig)) from None
