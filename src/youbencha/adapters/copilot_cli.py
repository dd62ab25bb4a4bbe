"""CopilotCliAdapter: the GitHub Copilot CLI gets its prompt as an argument, prints JSON events, and ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from packaging.version import Version
from pydantic import Field

from youbencha.adapters.base import FilePlaces, SupportedVersions
from youbencha.adapters.cli_agent import (
    AgentCli,
    CallFailed,
    CallMetered,
    Cause,
    CliAdapter,
    Handler,
    Invocation,
    SessionRecord,
    StreamReader,
    TurnTaken,
    codes,
    fits_argument,
)
from youbencha.adapters.cli_agent.adapter import flags_with_values
from youbencha.adapters.cli_agent.config import AgentConfig
from youbencha.adapters.cli_agent.environment import provider_of_model
from youbencha.adapters.cli_agent.session_files import directory_from, keep_logs, matching_records, read_definition
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    AssistantThinking,
    Event,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
)
from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.json_lines import Record, as_count, as_mapping, as_str
from youbencha.process import Command, ProcessResult
from youbencha.sandbox.toolbox.catalogue import Npm
from youbencha.usage import SessionUsage, Tokens, add_all
from youbencha.user_dirs import project_directories

# 1.0.24 fails without streaming, 1.0.30 was not available.
VERSIONS = SupportedVersions(oldest=Version("1.0.32"), flags={"--session-id": Version("1.0.55")})


class CopilotCliConfig(AgentConfig):
    """Options of the Copilot CLI adapter."""

    own_flags = frozenset({
        "--", "-p", "--prompt", "-i", "--interactive", "-h", "--help", "-v", "--version", "-s", "--silent", "--acp",
        "-C", "--model", "--agent", "--output-format", "--stream", "--log-dir", "--log-level", "--reasoning-effort",
        "--max-ai-credits", "--allow-all-tools", "--allow-all-paths", "--no-color", "--no-ask-user",
    })  # fmt: skip

    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    log_level: Literal["none", "error", "warning", "info", "debug", "all", "default"] = "all"
    """The level of the CLI's own log, which is kept next to its output."""
    allow_all_tools: bool = True
    """If False, the CLI denies every tool that could change something: there is no user to ask."""
    allow_all_paths: bool = True
    max_ai_credits: Annotated[int, Field(ge=30)] | None = None
    """The CLI's own soft cap; its minimum is 30."""


BASE_URL, TYPE = "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE"

CREDENTIALS = frozenset({
    "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST", "COPILOT_GH_HOST", BASE_URL,
    "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_API_KEY_COMMAND", "COPILOT_PROVIDER_BEARER_TOKEN",
    "COPILOT_PROVIDER_HEADERS", "COPILOT_PROVIDER_TRANSPORT", "COPILOT_PROVIDER_AZURE_API_VERSION",
})  # fmt: skip

_TOKENS = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", BASE_URL)

_LOGGED_IN = re.compile(rb'"(?:last_?)?logged_?in_?users?"\s*:\s*[\[{]\s*[^\]}\s]', re.IGNORECASE)
"""The key of logged-in users in `config.json`, which exists after the first start, with or without a login."""

_CHOOSES_SESSION = frozenset({"--session-id", "--resume", "-r", "--continue", "--connect"})


_AGENTS = Path(".github", "agents")


class CopilotCliAdapter(CliAdapter[CopilotCliConfig]):
    """Runs the Copilot CLI with a prompt and reads its JSON events."""

    name = "copilot-cli"
    title = "Copilot CLI"
    prefix = "COPILOT"
    program = "copilot"
    summary = "Copilot CLI, by GitHub."
    recipes = (Npm("@github/copilot", about_mb=130, native=("@github/copilot-*/copilot",)),)
    redundant_flags = frozenset({"--allow-all-tools"})
    interactive_args = ("--interactive", "{prompt}")
    logs = "copilot-logs"
    file_places = FilePlaces(
        instructions=".copilot/copilot-instructions.md",
        skills=".copilot/skills",
        plugins=".copilot/local-plugins",  # named on the command line
        plugin_parts=("plugin.json", ".github/plugin/plugin.json", ".claude-plugin/plugin.json"),
        relocating_env=frozenset({"COPILOT_HOME"}),
        in_repository=(
            "AGENTS.md",
            "CLAUDE.md",
            "GEMINI.md",
            ".github/copilot-instructions.md",
            ".github/instructions/",
            ".github/agents/",
            ".github/skills/",
            ".claude/agents/",
            ".claude/commands/",
            ".claude/rules/",
            ".claude/skills/",
            ".agents/skills/",
        ),
    )
    versions = VERSIONS
    default_provider = "github"
    how_to_authenticate = (
        "Set COPILOT_GITHUB_TOKEN, GH_TOKEN or GITHUB_TOKEN (in agent.env or your environment), run "
        "`copilot` and type /login, or use your own model: COPILOT_PROVIDER_BASE_URL and COPILOT_MODEL."
    )
    supports_gateway = True
    agent_definitions = _AGENTS.as_posix()
    config_model = CopilotCliConfig
    inherited_env = CREDENTIALS | {
        "COPILOT_HOME", "COPILOT_MODEL", "COPILOT_OFFLINE", TYPE, "COPILOT_PROVIDER_WIRE_API",
        "COPILOT_PROVIDER_MODEL_ID", "COPILOT_PROVIDER_WIRE_MODEL", "COPILOT_PROVIDER_MAX_PROMPT_TOKENS",
        "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS",
    }  # fmt: skip
    credentials = CREDENTIALS
    default_env: ClassVar[Mapping[str, str]] = {"COPILOT_AUTO_UPDATE": "false"}
    causes = (
        Cause(
            code=codes.MAX_BUDGET,
            kind="max_budget",
            pattern=r"session limits?.{0,40}reached|max(?:imum)? ai credits",
            message="Copilot CLI stopped at its limit of AI credits",
            hint="Raise `max_ai_credits`, or give the agent a smaller task.",
        ),
        Cause(
            code=codes.EXECUTION_ERROR,
            kind="model_missing",
            pattern=r"BYOK providers require an explicit model",
            message="Copilot CLI has no default model for this provider, or behind a gateway",
            hint="Set `agent.model`.",
        ),
        Cause(
            code=codes.EXECUTION_ERROR,
            kind="agent_not_found",
            pattern=r"^No such agent",
            message="Copilot CLI does not know this agent",
            hint="Put NAME.agent.md into .github/agents of the repository or next to the test case (or into your "
            "~/.copilot/agents), or fix `agent_name`.",
        ),
    )

    def command(self, invocation: Invocation[CopilotCliConfig]) -> Command:
        as_argument = fits_argument(f"--prompt={invocation.prompt}")
        # Joined by `=`, a prompt that starts with a dash is not an option. Without a prompt, the CLI reads stdin.
        prompt = [f"--prompt={invocation.prompt}"] if as_argument else []
        definition = definition_directory(invocation, self.harness_env)
        add_dir = ["--add-dir", invocation.inside(definition)] if definition else []
        plugins = invocation.context.files.plugins if invocation.context.files else ()
        add_dir += [part for path in plugins for part in ("--plugin-dir", invocation.inside(path))]
        return Command(
            argv=(*invocation.cli.argv, *_flags(invocation), *add_dir, *invocation.config.extra_args, *prompt),
            cwd=invocation.workspace,
            env=invocation.env,
            stdin=None if as_argument else invocation.prompt.encode(),
        )

    def reader(self) -> CopilotReader:
        return CopilotReader()

    async def require_authentication(
        self, cli: AgentCli, env: Mapping[str, str], config: CopilotCliConfig | None
    ) -> None:
        if not has_login(env):
            raise self.auth_failed("there is no token, no stored login and no provider in the environment.")

    def stored_login(self, env: Mapping[str, str]) -> bool:
        return stored_login(env)

    def provider(self, invocation: Invocation[CopilotCliConfig]) -> str | None:
        return invocation.env.get(TYPE) or "openai" if invocation.env.get(BASE_URL) else None

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        """Return None if the test case sets no provider.

        GitHub's models have the same names, but another API and account, and a subscription must not turn into a bill
        for API calls.
        """
        return own_model_type(model, env) if env.get(BASE_URL) or env.get(TYPE) else None

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        kind = own_model_type(model, env)
        return {
            BASE_URL: access.url if kind == "anthropic" else f"{access.url}/v1",
            TYPE: kind,
            "COPILOT_PROVIDER_API_KEY": access.key,
            "COPILOT_OFFLINE": "true",  # otherwise it contacts api.github.com, with a stored login
        }

    def complete(
        self, invocation: Invocation[CopilotCliConfig], session: SessionRecord, done: ProcessResult
    ) -> SessionRecord:
        """Add the tokens, which are only in the session's own file, also if the session was stopped."""
        scratch, kept = invocation.scratch, invocation.context.artifacts_dir / CopilotCliAdapter.logs
        keep_logs(scratch, sorted((scratch / "logs").glob("*.log")), kept, self.redactor(invocation))
        session_id = session.facts.session_id or _session_id(invocation)
        usage = usage_in(invocation.outside(copilot_home(invocation.env)), session_id)
        # When it is asked to end, it still writes totals, and perhaps a result, but without the unfinished call.
        if usage is not None and (done.timed_out or done.stopped or not session.facts.results):
            usage = usage._replace(partial=True)
        return session.with_facts(session_id=session_id, usage=usage)


def copilot_home(env: Mapping[str, str]) -> Path | None:
    """Return the CLI's directory; None if the environment names no home."""
    return directory_from(env, "COPILOT_HOME", ".copilot")


def own_model_type(model: str | None, env: Mapping[str, str]) -> Literal["anthropic", "openai"]:
    """Return the type of provider for the user's own model: as the test case says, or by the model's name.

    The gateway does not have Azure's paths. Models of other providers are mostly served by OpenAI's API.
    """
    named = provider_of_model(model or env.get("COPILOT_MODEL"))
    given = env.get(TYPE) or ("anthropic" if named == "anthropic" else "openai")
    return "anthropic" if given == "anthropic" else "openai"


def has_login(env: Mapping[str, str]) -> bool:
    """Return whether there may be a login. A token in the system's keychain is not found, and any may have expired."""
    return any(env.get(name) for name in _TOKENS) or stored_login(env)


def stored_login(env: Mapping[str, str]) -> bool:
    home = copilot_home(env)
    return (home is not None and _logged_in(home / "config.json")) or _logged_in_by_gh(env)


def _logged_in(config: Path) -> bool:
    try:
        return _LOGGED_IN.search(config.read_bytes()) is not None
    except OSError:
        return False


def _logged_in_by_gh(env: Mapping[str, str]) -> bool:
    """Return whether `gh` is logged in: the CLI uses its login."""
    settings = directory_from(env, "XDG_CONFIG_HOME", ".config")
    directory = env.get("GH_CONFIG_DIR") or (settings and settings / "gh")
    return bool(directory and Path(directory, "hosts.yml").is_file())


def _flags(invocation: Invocation[CopilotCliConfig]) -> list[str]:
    config = invocation.config
    values: dict[str, str | None] = {
        "--output-format": "json",
        # The CLI still streams from the API; but a secret in pieces could not be masked in the log.
        "--stream": "off",
        "--log-level": config.log_level,
        "--log-dir": invocation.inside(invocation.scratch / "logs"),
        # Makes the repository's own agents (`.github/agents`) trusted.
        "--add-dir": invocation.inside(invocation.workspace),
        "--model": config.model,
        "--agent": config.agent_name,
        "--reasoning-effort": config.reasoning_effort,
        "--max-ai-credits": None if config.max_ai_credits is None else str(config.max_ai_credits),
        "--session-id": _session_id(invocation),
    }
    switches = {
        "--no-color": True,
        "--no-ask-user": True,
        "--allow-all-tools": config.allow_all_tools,
        "--allow-all-paths": config.allow_all_paths,
    }
    return [*flags_with_values(values), *(flag for flag, is_on in switches.items() if is_on)]


def _session_id(invocation: Invocation[CopilotCliConfig]) -> str | None:
    """Choose the id of the session here, so that it is known even if the session does not report it."""
    if not VERSIONS.has("--session-id", invocation.cli.version):
        return None
    return invocation.session_id(_CHOOSES_SESSION)


def definition_directory(invocation: Invocation[CopilotCliConfig], harness: Mapping[str, str]) -> Path | None:
    """Create a directory with the definition of a custom agent; None if the repository has it, or there is none.

    The definition may be in `.github/agents/NAME.agent.md` next to the test case, or in the user's `~/.copilot/agents`.
    The CLI searches each directory given by `--add-dir`, so the definition is copied into one.
    """
    name = invocation.config.agent_name
    if name is None or _definition(invocation.workspace / _AGENTS, name, below=invocation.workspace) is not None:
        return None
    texts = (_definition(directory, name) for directory in _agent_directories(invocation, harness))
    if (definition := next((text for text in texts if text is not None), None)) is None:
        return None
    directory = invocation.scratch / "definition"
    (directory / _AGENTS).mkdir(parents=True)
    (directory / _AGENTS / f"{name}.agent.md").write_bytes(definition)
    return directory


def _agent_directories(invocation: Invocation[CopilotCliConfig], harness: Mapping[str, str]) -> Iterator[Path]:
    """Yield the test case's directory, then the user's: the agent's home may be a fresh one."""
    if invocation.config_dir is not None:
        yield from (directory / _AGENTS for directory in project_directories(invocation.config_dir))
    if (home := copilot_home(harness)) is not None:
        yield home / "agents"


def _definition(directory: Path, name: str, below: Path | None = None) -> bytes | None:
    texts = (read_definition(directory / f"{name}{ending}", below=below) for ending in (".agent.md", ".md"))
    return next((text for text in texts if text is not None), None)


class CopilotReader(StreamReader):
    """Remembers the names of tool calls and the last status: a result has only an id, and a retry no status."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._last_status: int | None = None

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "session.tools_updated": self._started,
            "assistant.turn_start": self._turn,
            "assistant.message": self._message,
            "assistant.message_delta": self._delta,
            "tool.execution_start": self._tool_started,
            "tool.execution_complete": self._tool_ended,
            "model.call_failure": self._call_failed,
            "assistant.turn_retry": self._retried,
            "session.error": self._error,
            "result": self._result,
        }

    def _started(self, record: Record) -> Iterator[Event]:
        model = as_str(_data(record).get("model"))
        yield SessionStarted(session_id=None, model=model, agent_version=None)

    def _turn(self, record: Record) -> Iterator[Event]:
        if _parent(record) is None:
            yield TurnTaken()

    def _message(self, record: Record) -> Iterator[Event]:
        data, parent = _data(record), _parent(record)
        if parent is None:
            yield CallMetered(tokens=Tokens(), model=as_str(data.get("model")))
        if thought := as_str(data.get("reasoningText")):
            yield AssistantThinking(text=thought, parent=parent)
        if text := as_str(data.get("content")):
            yield AssistantText(text=text, parent=parent, sent_at=as_str(record.get("timestamp")))

    def _delta(self, record: Record) -> Iterator[Event]:
        if text := as_str(_data(record).get("deltaContent")):
            yield AssistantTextDelta(text=text, parent=_parent(record))

    def _tool_started(self, record: Record) -> Iterator[Event]:
        data = _data(record)
        call_id = as_str(data.get("toolCallId"))
        name = as_str(data.get("toolName")) or "(unnamed)"
        if call_id is not None:
            self._tools[call_id] = name
        arguments = as_mapping(data.get("arguments"))
        yield ToolCalled(call_id=call_id, name=name, arguments=arguments, parent=_parent(record))

    def _tool_ended(self, record: Record) -> Iterator[Event]:
        data = _data(record)
        call_id = as_str(data.get("toolCallId"))
        error = as_mapping(data.get("error"))
        if error.get("code") == "denied":
            yield ToolDenied(call_id=call_id, name=self._tools.get(call_id or "", "(unnamed)"))
        content = as_str(as_mapping(data.get("result")).get("content"))
        yield ToolReturned(
            call_id=call_id,
            content=content if content is not None else as_str(error.get("message")) or "",
            is_error=data.get("success") is not True,
            parent=_parent(record),
        )

    def _call_failed(self, record: Record) -> Iterator[Event]:
        self._last_status = as_count(_data(record).get("statusCode"))
        return iter(())

    def _retried(self, record: Record) -> Iterator[Event]:
        reason = as_str(_data(record).get("reason"))
        yield RequestRetried(attempt=None, status=self._last_status, reason=reason, delay_ms=None)

    def _error(self, record: Record) -> Iterator[Event]:
        data = _data(record)
        yield CallFailed(
            kind=as_str(data.get("errorType")),
            status=as_count(data.get("statusCode")),
            text=as_str(data.get("message")) or "",
        )

    def _result(self, record: Record) -> Iterator[Event]:
        yield SessionResult(
            subtype=None,
            is_error=record.get("exitCode") != 0,
            text=None,
            turns=None,
            duration_ms=as_count(as_mapping(record.get("usage")).get("sessionDurationMs")),
            session_id=as_str(record.get("sessionId")),
        )


def _data(record: Record) -> Record:
    return as_mapping(record.get("data"))


def _parent(record: Record) -> str | None:
    """Return the tool call that started the subagent whose event this is."""
    return as_str(_data(record).get("parentToolCallId"))


# Tokens of a session, from `session-state/ID/events.jsonl` in the CLI's home.
#
# `inputTokens` there includes the cached ones (1,000 new, 700 read and 50 written make 1,750); `Tokens.input` does not.
# The last line, `session.shutdown`, has the totals; a session that was stopped has only a record for each call.

_WANTED = (b'"session.usage_record"', b'"session.shutdown"')


def usage_in(home: Path | None, session_id: str | None) -> SessionUsage | None:
    """Read the usage of a session; None if the CLI did not record it."""
    if home is None or session_id is None or Path(session_id).name != session_id:
        return None
    calls: list[Tokens] = []
    path = home / "session-state" / session_id / "events.jsonl"
    for record in matching_records(path, home, _WANTED):
        data = as_mapping(record.get("data"))
        if record.get("type") == "session.usage_record":
            calls.append(_tokens(as_mapping(data.get("usage"))))
        elif totals := _totals(data):
            return SessionUsage(add_all(totals))
    return SessionUsage(add_all(calls), partial=True) if calls else None


def _totals(shutdown: Record) -> list[Tokens]:
    metrics = as_mapping(as_mapping(shutdown.get("accountingSnapshot")).get("modelMetrics"))
    return [_tokens(as_mapping(as_mapping(model).get("usage"))) for model in metrics.values()]


def _tokens(usage: Record) -> Tokens:
    given = as_count(usage.get("inputTokens"))
    read, written = (
        as_count(usage.get("cacheReadTokens")),
        as_count(usage.get("cacheWriteTokens")),
    )
    new = None if given is None else max(0, given - (read or 0) - (written or 0))
    return Tokens(new, as_count(usage.get("outputTokens")), read, written)
