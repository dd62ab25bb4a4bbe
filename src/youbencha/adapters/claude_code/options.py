"""The names, error hints and configuration (`agent.config`) of Claude Code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from youbencha.adapters import codes
from youbencha.adapters.base import AgentDescription, FilePlaces
from youbencha.adapters.causes import INVALID_OPTION, Cause
from youbencha.adapters.claude_code.versions import SUPPORTED
from youbencha.adapters.cli_agent.config import FITS, AgentConfig, Argument, Matches
from youbencha.sandbox.toolbox.catalogue import Npm, Wheel, WheelRelease
from youbencha.spec.problems import ProblemAt


class ClaudeCode(AgentDescription):
    """What is known of Claude Code, apart from how it is run."""

    name = "claude-code"
    title = "Claude Code"
    prefix = "CLAUDE"
    program = "claude"
    summary = "Claude Code, by Anthropic."
    # With `--ignore-scripts`, its npm package still has its native binary in a separate package (from 2.1.113 on), so
    # that no install script needs to run. So do the npm packages of other agents (Codex from 0.100 on).
    recipes = (
        Wheel(
            "claude-agent-sdk",
            binary="claude_agent_sdk/_bundled/claude",
            version_file="claude_agent_sdk/_cli_version.py",
            about_mb=160,
            known={
                "2.0.53": WheelRelease("0.1.10", 65),
                "2.0.62": WheelRelease("0.1.14", 65),
                "2.1.1": WheelRelease("0.1.19", 70),
                "2.1.19": WheelRelease("0.1.22", 70),
                "2.1.325": WheelRelease("0.2.182", 160),
            },
        ),
        Npm("@anthropic-ai/claude-code", about_mb=170, native=("@anthropic-ai/claude-code-*/claude",)),
    )
    redundant_flags = frozenset({"--dangerously-skip-permissions", "-p", "--print", "--verbose"})
    interactive_args = ("--", "{prompt}")
    logs = "claude-code-logs"
    versions = SUPPORTED
    file_places = FilePlaces(
        instructions=".claude/CLAUDE.md",
        skills=".claude/skills",
        plugins=".claude/local-plugins",  # named on the command line
        plugin_parts=(".claude-plugin/plugin.json", "skills", "commands", "agents", "hooks", ".mcp.json"),
        relocating_env=frozenset({"CLAUDE_CONFIG_DIR"}),
        required_source=("setting_sources", "user"),
        repository_option=("setting_sources", "project"),
        in_repository=("CLAUDE.md", "CLAUDE.local.md", ".claude/", "/.mcp.json"),
    )
    default_provider = "anthropic"  # who made the model; Bedrock and Vertex only serve it
    how_to_authenticate = (
        "Set ANTHROPIC_API_KEY (in agent.env or your environment), or log in once: run "
        '`"$(yb agents path claude-code)"` and type /login.'
    )
    hints: ClassVar[Mapping[str, str]] = {
        codes.MAX_TURNS: "Raise `max_turns`, or give the agent a smaller task.",
        codes.MAX_BUDGET: "Raise the budget of the run (`max_budget_usd`, or the gateway's cap).",
        codes.NO_RESULT: "Possible reasons: an interrupt (Ctrl-C), truncated output, or a configuration that it could "
        "not read (MCP file); see the raw log.",
        codes.EXIT_CODE: "The quoted lines are its last output; an unknown option means that this version of the CLI "
        "is too old.",
        codes.TOOL_DENIED: "Add them to `allowed_tools`, or set `permission_mode: bypassPermissions` (in a sandbox).",
    }
    supports_gateway = True
    # Ignores settings, hooks, MCP servers and CLAUDE.md of the judged tree, and of any directory above it.
    judge_config: ClassVar[Mapping[str, Any]] = {"setting_sources": ["user"]}
    agent_definitions = ".claude/agents"
    # 2.0.62 requests claude-haiku-* and claude-sonnet-* on the side before its first request for the chosen model.
    model_aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sonnet": ("claude-*sonnet*",),
        "opus": ("claude-*opus*",),
        "haiku": ("claude-*haiku*",),
        "fable": ("claude-*fable*",),
        "opusplan": ("claude-*opus*", "claude-*sonnet*"),  # opus only while it plans
        "best": (),
        "default": (),
    }
    causes = (
        Cause(
            code=codes.API_ERROR,
            kind="max_output_tokens",
            kinds=frozenset({"max_output_tokens"}),
            pattern=r"exceeded the \d+ output token maximum",
            message="The model's answer did not fit into its limit of output tokens",
            hint="Raise `max_tokens` (CLAUDE_CODE_MAX_OUTPUT_TOKENS).",
        ),
        Cause(
            code=codes.EXIT_CODE,
            kind=INVALID_OPTION,
            pattern=r"^error: (?:unknown option|option '[^']*' argument)",
            message="{agent} does not accept its options",
            hint="This version of the CLI does not know an option: correct it, or use another version.",
        ),
    )
    success_subtypes = frozenset({"success"})
    plain_errors = "after_failed_exit"
    compares_models = True


_GIVEN_CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
)


def credentials_given(env: Mapping[str, Any]) -> bool:
    """Return whether the environment has credentials, so that no stored login is used."""
    return any(env.get(name) for name in _GIVEN_CREDENTIALS)


_MODEL_ALIASES = ("default", "sonnet", "opus", "haiku", "opusplan", "best")


ToolRule = Annotated[
    str,
    Field(max_length=1000),
    Matches(r"[\w\-]+(\([^\n\0]*\))?", "must be a tool (Read) or a tool with a rule in brackets: Bash(git log:*)"),
]

ModelName = Annotated[
    str,
    Matches(
        rf"(claude-[\w\-.]+|{'|'.join(_MODEL_ALIASES)})(\[1m\])?",
        f"must be claude-… or an alias ({', '.join(_MODEL_ALIASES)}); "
        "for a name that only your gateway knows, set ANTHROPIC_MODEL in agent.env",
    ),
]

Version = Annotated[str, Matches(r"\d+\.\d+\.\d+", "must be a whole version, such as 2.1.197")]


_OWN_FLAGS = frozenset({
    "--", "-p", "--print", "-h", "--help", "-v", "--version", "--output-format", "--input-format", "--verbose",
    "--include-partial-messages", "--model", "--agent", "--agents", "--system-prompt", "--append-system-prompt",
    "--permission-mode", "--dangerously-skip-permissions", "--allowedTools", "--allowed-tools", "--disallowedTools",
    "--disallowed-tools", "--max-turns", "--effort", "--mcp-config", "--strict-mcp-config", "--setting-sources",
    "--sdk-url",
})  # fmt: skip


_PRINT_ONLY = {"output_format": "text", "pty": "always", "prompt_delivery": "argument"}


def _tool_policy_is_gone(value: object) -> object:
    message = (
        "was removed: the CLI applies its own rules. Move `allow` to `allowed_tools`, and `deny` to `disallowed_tools`"
    )
    raise PydanticCustomError("removed", message)


class ClaudeCodeConfig(AgentConfig):
    """Options of the Claude Code adapter. Unknown keys are errors."""

    own_flags = _OWN_FLAGS

    model: ModelName | None = None
    """`claude-…` or an alias of the CLI. For a name that only your gateway knows, set env ANTHROPIC_MODEL."""
    version: Version | None = None
    """The CLI version to use, from PATH or the toolbox (`yb agents install claude-code@VERSION`)."""
    append_system_prompt: Annotated[str, Field(max_length=10_000), FITS] | None = None
    system_prompt: Annotated[str, Field(max_length=50_000), FITS] | None = None
    permission_mode: (
        Literal["auto", "plan", "ask", "default", "acceptEdits", "bypassPermissions", "dontAsk", "manual"] | None
    ) = None
    """Unset: every tool is allowed, because there is no user to ask; with `allowed_tools`, only those. `ask` is the
    CLI's `default`."""
    allowed_tools: tuple[ToolRule, ...] | None = Field(default=None, strict=False)
    """Tools that need no approval. Other tools that need one are denied, unless the permission mode or a settings
    file allows them; tools that only read the workspace need none."""
    disallowed_tools: tuple[ToolRule, ...] | None = Field(default=None, strict=False)
    max_tokens: Annotated[int, Field(gt=0, le=200_000)] | None = None
    """Maximum number of tokens in each answer (CLAUDE_CODE_MAX_OUTPUT_TOKENS; the CLI has no flag for it)."""
    temperature: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """The temperature of each request (CLAUDE_CODE_EXTRA_BODY; the CLI has no flag for it). Turns extended thinking
    off, because the API accepts only temperature 1 with it."""
    max_turns: Annotated[int, Field(gt=0)] | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    mcp_config: Argument | None = None
    """A file (or JSON) with MCP servers; only these are used."""
    output_format: Literal["stream-json", "text"] = "stream-json"
    include_partial_messages: bool | Literal["auto"] = False
    """Show text and tool calls as they are being written, not only when they are finished. `auto`: if the version
    supports it."""
    prompt_delivery: Literal["auto", "argument", "stdin", "file"] = "auto"
    """How the prompt reaches the CLI. `auto`: as an argument up to 7,000 characters, otherwise on standard input;
    with a terminal (`pty: always`), in a file."""
    transport: Literal["auto", "websocket", "stdio", "print"] = "auto"
    """How the CLI is driven. `auto`: in print mode; in a container by its control protocol, over a WebSocket with the
    versions that support it (1.0.124 to 2.1.120), otherwise over standard input and output."""
    tool_policy: SkipJsonSchema[Annotated[object, AfterValidator(_tool_policy_is_gone)]] = None
    """Accepted by earlier versions; now an error that names its replacement."""
    silence_timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    """With the control protocol: fail if the CLI sends nothing for this long while no tool runs."""
    exit_grace_s: Annotated[float, Field(gt=0, le=86_400)] = 30.0
    """How long the CLI may stay after its result, for example to wait for commands in the background. Then it is
    stopped, and the result counts."""
    slash_commands: bool = False
    """Let a prompt such as `/review` run a command of the CLI. Otherwise it is rejected: the model would not see it."""
    setting_sources: tuple[Literal["user", "project", "local"], ...] | None = Field(default=None, strict=False)
    """The sources of settings that the CLI loads. An empty list loads none. Without `project` and `local`, a
    repository's hooks, MCP servers, environment and CLAUDE.md are ignored."""

    @property
    def mode(self) -> str | None:
        """The CLI's permission mode; None: every tool is allowed."""
        only_allowed = self.permission_mode is None and self.allowed_tools is not None
        return "default" if only_allowed or self.permission_mode == "ask" else self.permission_mode

    @property
    def print_only(self) -> str | None:
        """The name of an option that is set and needs print mode, if any."""
        return next((name for name, value in _PRINT_ONLY.items() if getattr(self, name) == value), None)

    @model_validator(mode="after")
    def _fits_transport(self) -> Self:
        if self.print_only and self.transport in ("stdio", "websocket"):
            value = _PRINT_ONLY[self.print_only]
            hint = "leave it out, or leave out transport"
            raise ProblemAt(self.print_only, f"{value} is possible in print mode only", hint=hint)
        return self
