"""CodexAdapter: `codex exec` gets its prompt on stdin, writes JSON events, and ends."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.version import Version

from youbencha.adapters.base import FilePlaces, SupportedVersions
from youbencha.adapters.causes import read_api_body
from youbencha.adapters.cli_agent import (
    AgentCli,
    AgentConfig,
    CallFailed,
    CliAdapter,
    Handler,
    Invocation,
    NonEmptyArgument,
    SessionRecord,
    StreamReader,
    codes,
)
from youbencha.adapters.cli_agent.config import Matches
from youbencha.adapters.cli_agent.session_files import directory_from, matching_records
from youbencha.events import (
    AssistantText,
    AssistantThinking,
    Event,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    UsageReported,
    WarningRaised,
)
from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.json_lines import Record, as_count, as_mapping, as_str
from youbencha.process import Command, ProcessResult
from youbencha.sandbox.toolbox.catalogue import Npm
from youbencha.usage import SessionUsage, Tokens

Effort = Annotated[str, Matches(r"[a-z]+", "must be a single word in small letters, such as low, medium or high")]


class CodexConfig(AgentConfig):
    """Options of the Codex adapter."""

    own_flags = frozenset({
        "--json", "-m", "--model", "-C", "--cd", "--skip-git-repo-check", "-s", "--sandbox", "-p", "--profile",
        "--dangerously-bypass-approvals-and-sandbox", "--yolo",
    })  # fmt: skip

    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] | None = None
    """What the agent's commands may do. Unset: Codex neither asks nor restricts; only youBencha's sandbox applies."""
    reasoning_effort: Effort | None = None
    """Which values are valid depends on the model; Codex passes on any."""
    profile: NonEmptyArgument | None = None
    """A profile of Codex's own configuration."""


_KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")
_BASE_URL = "OPENAI_BASE_URL"
_CREDENTIALS = frozenset({*_KEYS, _BASE_URL, "CODEX_ACCESS_TOKEN", "OPENAI_ORGANIZATION", "OPENAI_PROJECT"})
_PROVIDER = "youbencha"

_OTHER_LOGINS = frozenset({"model_provider", "oss_provider", "cli_auth_credentials_store"})
"""Settings of Codex that select credentials that cannot be checked here: another provider, the system's key ring."""


class CodexAdapter(CliAdapter[CodexConfig]):
    """Runs `codex exec` and reads its JSON events."""

    name = "codex"
    title = "Codex"
    prefix = "CODEX"
    program = "codex"
    summary = "Codex, by OpenAI."
    # Older layouts (`vendor/TRIPLE/codex/codex`) rely on the launcher to put their own `rg` on PATH: they keep it.
    recipes = (Npm("@openai/codex", about_mb=170, native=("@openai/codex-*/vendor/*/bin/codex",)),)
    redundant_flags = frozenset({"exec", "--yolo", "--full-auto"})
    interactive_args = ("--", "{prompt}")
    logs = "codex-logs"
    file_places = FilePlaces(
        instructions=".codex/AGENTS.md",
        skills=".codex/skills",
        relocating_env=frozenset({"CODEX_HOME"}),
        in_repository=("/AGENTS.md", "/AGENTS.override.md", ".agents/skills/", ".codex/"),
    )
    # 0.42.0 and earlier print other events; 0.43 was not available.
    versions = SupportedVersions(oldest=Version("0.44.0"))
    default_provider = "openai"
    how_to_authenticate = (
        "Set OPENAI_API_KEY or CODEX_API_KEY (in agent.env or your environment), or run `codex login`."
    )
    supports_gateway = True
    config_model = CodexConfig
    inherited_env = _CREDENTIALS | {"CODEX_HOME", "CODEX_CA_CERTIFICATE"}
    credentials = _CREDENTIALS
    supports_custom_agents = False

    def command(self, invocation: Invocation[CodexConfig]) -> Command:
        config = invocation.config
        argv = [*invocation.cli.argv, "exec", "--json", "--skip-git-repo-check"]
        argv += ["-C", invocation.inside(invocation.workspace)]
        argv += ["--sandbox", config.sandbox] if config.sandbox else ["--dangerously-bypass-approvals-and-sandbox"]
        argv += ["--model", config.model] if config.model else []
        argv += ["--profile", config.profile] if config.profile else []
        settings = [part for setting in _settings(config, invocation.env) for part in ("-c", setting)]
        # The last setting wins: the user's own, unless there is a gateway.
        argv += [*config.extra_args, *settings] if invocation.context.gateway else [*settings, *config.extra_args]
        # Without a prompt argument, Codex reads stdin byte for byte, of any length.
        return Command(
            argv=tuple(argv), cwd=invocation.workspace, env=_with_key(invocation.env), stdin=invocation.prompt.encode()
        )

    def reader(self) -> StreamReader:
        return CodexReader()

    async def require_authentication(self, cli: AgentCli, env: Mapping[str, str], config: CodexConfig | None) -> None:
        local = config is not None and "--oss" in config.extra_args
        given = any(env.get(name) for name in (*_KEYS, _BASE_URL, "CODEX_ACCESS_TOKEN"))
        if not (local or given or self.stored_login(env)):
            raise self.auth_failed("there is no API key in the environment, and no stored login.")

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider:
        return "openai"

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return {_BASE_URL: f"{access.url}/v1", "OPENAI_API_KEY": access.key}

    def complete(
        self, invocation: Invocation[CodexConfig], session: SessionRecord, done: ProcessResult
    ) -> SessionRecord:
        return with_session_file(session, invocation.outside(codex_home(invocation.env)))

    def stored_login(self, env: Mapping[str, str]) -> bool:
        home = codex_home(env)
        return home is not None and ((home / "auth.json").exists() or _configures_login(home / "config.toml"))


def codex_home(env: Mapping[str, str]) -> Path | None:
    return directory_from(env, "CODEX_HOME", ".codex")


def _settings(config: CodexConfig, env: Mapping[str, str]) -> Iterator[str]:
    """Settings of Codex's configuration file, for the command line. A JSON string is also a TOML string."""
    if config.reasoning_effort:
        yield f"model_reasoning_effort={json.dumps(config.reasoning_effort)}"
    if url := env.get(_BASE_URL):
        # Measured: Codex 0.166 ignores this variable, and accepts another URL only as another provider.
        key = next((name for name in _KEYS if env.get(name)), None)
        fields = {"name": _PROVIDER, "base_url": url, "wire_api": "responses", **({"env_key": key} if key else {})}
        written = ", ".join(f"{name} = {json.dumps(value)}" for name, value in fields.items())
        yield f"model_provider={json.dumps(_PROVIDER)}"
        yield f"model_providers.{_PROVIDER}={{{written}}}"


def _with_key(env: Mapping[str, str]) -> Mapping[str, str]:
    """Set CODEX_API_KEY: Codex 0.166 reads a key only from there, or from a login (measured)."""
    key = env.get("OPENAI_API_KEY")
    return {**env, "CODEX_API_KEY": key} if key and not env.get("CODEX_API_KEY") else env


def _configures_login(settings: Path) -> bool:
    try:
        return not _OTHER_LOGINS.isdisjoint(tomllib.loads(settings.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return False


_RETRY = re.compile(r"Reconnecting\.\.\. (?P<attempt>\d+)/\d+(?: \((?P<why>.*)\))?\s*$", re.DOTALL)
_STATUS = re.compile(r"\bstatus:? (?P<status>[45]\d\d)\b")

_TOOL_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "command_execution": ("command",),
    "file_change": ("changes",),
    "mcp_tool_call": ("arguments",),
    "web_search": ("query",),
    "collab_tool_call": ("tool", "prompt"),
}
"""Items that are tool calls, and the fields that are their arguments."""


class CodexReader(StreamReader):
    def __init__(self) -> None:
        self._called: set[str] = set()
        self._last_text: str | None = None

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "thread.started": self._started,
            "turn.started": lambda record: (),
            "item.started": self._item_started,
            "item.updated": lambda record: (),
            "item.completed": self._item_completed,
            "turn.completed": self._completed,
            "turn.failed": self._failed,
            "error": self._error,
        }

    def _started(self, record: Record) -> Iterator[Event]:
        yield SessionStarted(session_id=as_str(record.get("thread_id")), model=None, agent_version=None)

    def _item_started(self, record: Record) -> Iterator[Event]:
        item = as_mapping(record.get("item"))
        if as_str(item.get("type")) in _TOOL_ARGUMENTS:
            yield from self._call(item)

    def _item_completed(self, record: Record) -> Iterator[Event]:
        item = as_mapping(record.get("item"))
        content = as_str(item.get("text")) or ""
        match as_str(item.get("type")):
            case "agent_message":
                self._last_text = content
                yield AssistantText(text=content)
            case "reasoning":
                yield AssistantThinking(text=content)
            case "error":  # only a notice: a failed run has `turn.failed`
                yield WarningRaised(code=f"CODEX_{codes.NOTICE}", message=as_str(item.get("message")) or "")
            case kind if kind in _TOOL_ARGUMENTS:
                yield from self._call(item)
                yield from _returned(item)

    def _call(self, item: Record) -> Iterator[Event]:
        """Report a call once: some tools are reported only when they have ended."""
        call_id = as_str(item.get("id"))
        if call_id is not None and call_id in self._called:
            return
        self._called.add(call_id or "")
        yield ToolCalled(call_id=call_id, name=_tool_name(item), arguments=_arguments(item))

    def _completed(self, record: Record) -> Iterator[Event]:
        if usage := as_mapping(record.get("usage")):
            tokens = read_tokens(usage)
            yield UsageReported(
                input_tokens=tokens.input,
                output_tokens=tokens.output,
                cache_read_tokens=tokens.cache_read,
                cache_creation_tokens=tokens.cache_creation,
            )
        yield SessionResult(subtype="completed", is_error=False, text=self._last_text, turns=None, duration_ms=None)

    def _failed(self, record: Record) -> Iterator[Event]:
        message = as_str(as_mapping(record.get("error")).get("message")) or ""
        yield _call_failed(message)
        yield SessionResult(subtype="failed", is_error=True, text=message, turns=None, duration_ms=None)

    def _error(self, record: Record) -> Iterator[Event]:
        message = as_str(record.get("message")) or ""
        retry = _RETRY.match(message)
        if retry is None:
            yield _call_failed(message)
        else:
            attempt, why = int(retry["attempt"]), retry["why"]
            yield RequestRetried(attempt=attempt, status=_status(message), reason=why, delay_ms=None)


def read_tokens(usage: Record) -> Tokens:
    """Read tokens. Codex includes the cached ones in its input; `Tokens` does not."""
    whole, read = as_count(usage.get("input_tokens")), as_count(usage.get("cached_input_tokens"))
    created = as_count(usage.get("cache_write_input_tokens"))
    uncached = None if whole is None else max(0, whole - (read or 0) - (created or 0))
    return Tokens(uncached, as_count(usage.get("output_tokens")), read, created)


def _call_failed(message: str) -> CallFailed:
    body = read_api_body(message)
    return CallFailed(kind=None, status=body.status or _status(message), text=body.message)


def _status(message: str) -> int | None:
    match = _STATUS.search(message)
    return int(match["status"]) if match else None


def _tool_name(item: Record) -> str:
    server, tool = as_str(item.get("server")), as_str(item.get("tool"))
    return f"{server}.{tool}" if server and tool else str(item["type"])


def _arguments(item: Record) -> dict[str, Any]:
    given = {name: item[name] for name in _TOOL_ARGUMENTS[str(item["type"])] if item.get(name) is not None}
    inner = given.get("arguments")
    return inner if isinstance(inner, dict) else given


def _returned(item: Record) -> Iterator[Event]:
    call_id, status = as_str(item.get("id")), item.get("status")
    if status == "declined":
        yield ToolDenied(call_id=call_id, name=_tool_name(item))
    failed = status in ("failed", "declined") or item.get("exit_code") not in (0, None)
    yield ToolReturned(call_id=call_id, content=_content(item), is_error=failed)


def _content(item: Record) -> str:
    if (output := as_str(item.get("aggregated_output"))) is not None:
        return output
    if message := as_str(as_mapping(item.get("error")).get("message")):
        return message
    parts = as_mapping(item.get("result")).get("content")
    texts = (as_str(as_mapping(part).get("text")) for part in parts) if isinstance(parts, list) else ()
    return "\n".join(part for part in texts if part)


# Only Codex's session file has the model, the number of its calls, and the tokens of a run that was stopped: there, the
# last event, which has the tokens, is missing.

_ID = re.compile(r"[0-9a-f-]{8,64}")
_WANTED = (b'"turn_context"', b'"token_count"')


def with_session_file(session: SessionRecord, home: Path | None) -> SessionRecord:
    facts = session.facts
    path = _session_file(home, facts.session_id)
    if path is None or home is None:
        return session
    model: str | None = None
    totals: list[Tokens] = []
    for kind, payload in _payloads(path, home):
        if kind == "turn_context":
            model = as_str(payload.get("model")) or model
        elif total := as_mapping(as_mapping(payload.get("info")).get("total_token_usage")):
            tokens = read_tokens(total)
            # The total is repeated when a rate limit changes.
            totals += [] if totals and totals[-1] == tokens else [tokens]
    usage = facts.usage or (SessionUsage(totals[-1], partial=True) if totals else None)
    return session.with_facts(model=model or facts.model, turns=len(totals) or facts.turns, usage=usage)


def _session_file(home: Path | None, session_id: str | None) -> Path | None:
    if home is None or session_id is None or not _ID.fullmatch(session_id):
        return None
    return next(home.glob(f"sessions/*/*/*/rollout-*-{session_id}.jsonl"), None)


def _payloads(path: Path, home: Path) -> Iterator[tuple[str, Record]]:
    for record in matching_records(path, home, _WANTED):
        payload = as_mapping(record.get("payload"))
        kind = as_str(record.get("type"))
        if kind == "turn_context" or payload.get("type") == "token_count":
            yield kind or "", payload
