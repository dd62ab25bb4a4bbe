"""OpenCodeAdapter: `opencode run` gets its prompt on stdin, prints JSON events, and ends."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

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
)
from youbencha.adapters.cli_agent.adapter import flags_with_values
from youbencha.adapters.cli_agent.config import AgentConfig, Matches, NonEmptyArgument
from youbencha.adapters.cli_agent.environment import provider_of_model
from youbencha.adapters.cli_agent.session_files import directory_from
from youbencha.events import (
    AssistantText,
    AssistantThinking,
    Event,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
)
from youbencha.gateway.access import PROVIDER_OF_PREFIX, GatewayAccess, Provider
from youbencha.json_lines import Record, as_amount, as_count, as_mapping, as_str
from youbencha.process import Command, ProcessResult
from youbencha.sandbox.toolbox.catalogue import Npm
from youbencha.text import strip_ansi
from youbencha.usage import Tokens

# 1.15.0 and 1.15.13 may end without their last events; none between them and 1.17.0 was available.
VERSIONS = SupportedVersions(oldest=Version("1.17.0"), flags={"--auto": Version("1.17.18")})


ProviderName = Annotated[str, Field(max_length=100), Matches(r"[\w.\-]+", "must be one word, such as anthropic")]


class OpenCodeConfig(AgentConfig):
    """Options of the opencode adapter. `model` is `provider/model`, or a model of `provider`."""

    own_flags = frozenset({
        "--", "-h", "--help", "-v", "--version", "--format", "--auto", "-m", "--model", "--agent", "--variant",
        "--title", "--print-logs", "--log-level", "--dir", "--attach", "-i", "--interactive", "--command",
    })  # fmt: skip

    provider: ProviderName = "anthropic"
    """The provider, if `model` does not name one."""
    base_url: NonEmptyArgument | None = None
    """The address of the provider's API; else ANTHROPIC_BASE_URL or OPENAI_BASE_URL. opencode reads the key from the
    environment."""
    variant: NonEmptyArgument | None = None
    """The reasoning effort of the model: high, max, minimal."""
    auto_approve: bool = True
    """If False, opencode rejects what needs approval, and stops: there is no user to ask."""

    @property
    def chosen_provider(self) -> str:
        provider, slash, _ = (self.model or "").partition("/")
        return provider if slash else self.provider

    @property
    def full_model(self) -> str | None:
        if self.model is None or "/" in self.model:
            return self.model
        return f"{self.provider}/{self.model}"


_API_KEYS = frozenset({
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "XAI_API_KEY", "DEEPSEEK_API_KEY", "MISTRAL_API_KEY",
    "AZURE_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK", "GITHUB_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS", "OPENCODE_AUTH_CONTENT",
})  # fmt: skip

CREDENTIALS = _API_KEYS | {"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"}

CONFIGURED = frozenset({"OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT"})
"""The user's own configuration, which may contain a key."""

OWN_VARIABLES = (CREDENTIALS - {"GITHUB_TOKEN"}) | CONFIGURED | {
    "OPENCODE_CONFIG_DIR", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_MODELS_PATH", "OPENCODE_GIT_BASH_PATH",
    "AWS_REGION", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_RESOURCE_NAME", "GOOGLE_CLOUD_PROJECT",
}  # fmt: skip


AGENT_NOT_FOUND = "agent_not_found"
CONTENT, FILE, DATABASE = "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG", "OPENCODE_DB"
_BASE_URLS = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}

_GATEWAY_KEYS: Mapping[Provider, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "gemini": "GOOGLE_GENERATIVE_AI_API_KEY",
}

_VERSIONS: Mapping[Provider, str] = {"gemini": "/v1beta"}


class OpenCodeAdapter(CliAdapter[OpenCodeConfig]):
    """Runs `opencode run` and reads its JSON events."""

    name = "opencode"
    title = "opencode"
    prefix = "OPENCODE"
    program = "opencode"
    summary = "OpenCode."
    recipes = (Npm("opencode-ai", about_mb=120, native=("opencode-*-*/bin/opencode",)),)
    redundant_flags = frozenset({"run"})
    interactive_args = ("--prompt", "{prompt}")
    logs = "opencode-logs"
    file_places = FilePlaces(
        instructions=".config/opencode/AGENTS.md",
        skills=".config/opencode/skills",
        relocating_env=frozenset({"OPENCODE_CONFIG_DIR"}),
        in_repository=(
            "AGENTS.md",
            "CLAUDE.md",
            "CONTEXT.md",
            "/opencode.json",
            "/opencode.jsonc",
            ".opencode/",
            ".claude/skills/",
            ".agents/skills/",
        ),
    )
    versions = VERSIONS
    how_to_authenticate = (
        "Set the provider's key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …) in agent.env or your "
        "environment, or run `opencode auth login`."
    )
    supports_gateway = True
    config_model = OpenCodeConfig
    inherited_env = OWN_VARIABLES
    credentials = CREDENTIALS
    default_env: ClassVar[Mapping[str, str]] = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_SHARE": "1"}
    causes = (
        Cause(
            code=codes.EXECUTION_ERROR,
            kind=AGENT_NOT_FOUND,
            subtypes=frozenset({AGENT_NOT_FOUND}),
            message="opencode does not know this agent, and continued with another",
            hint="Put NAME.md into .opencode/agent of the repository (or ~/.config/opencode/agent), or fix "
            "`agent_name`.",
        ),
        Cause(
            code=codes.REFUSED,
            kind="refusal",
            subtypes=frozenset({"content-filter"}),
            message="The model declined the request",
            hint="Reword the task, or run it on another model; this is the model's answer, not a fault of the run.",
        ),
        Cause(
            code=codes.API_ERROR,
            kind="max_output_tokens",
            subtypes=frozenset({"length"}),
            message="The model's answer did not fit into its limit of output tokens",
            hint="Give the agent a smaller task, or raise the model's limit in opencode's own configuration.",
        ),
        Cause(
            code=codes.API_ERROR,
            kind="model_not_found",
            pattern=r"ModelNotFoundError",
            message="opencode does not know the model, or has no credentials for its provider",
            hint="Write `model` as provider/model (`opencode models` lists them), and set the provider's key.",
        ),
    )

    def command(self, invocation: Invocation[OpenCodeConfig]) -> Command:
        config = invocation.config
        values = {"-m": config.full_model, "--agent": config.agent_name, "--variant": config.variant}
        chosen = flags_with_values(values)
        flags = [
            "--format", "json",
            # Otherwise its events only say "Unexpected server error".
            "--print-logs", "--log-level", "ERROR",
            # With a title, no model is asked for one.
            "--title", "youBencha",
            *([_approving(invocation.cli.version)] if config.auto_approve else []),
        ]  # fmt: skip
        return Command(
            argv=(*invocation.cli.argv, "run", *flags, *chosen, *config.extra_args),
            cwd=invocation.workspace,
            env=with_settings(invocation),
            # Not as an argument: it puts quotation marks around an argument with spaces (1.18.33).
            stdin=invocation.prompt.encode(),
        )

    def reader(self) -> OpenCodeReader:
        return OpenCodeReader()

    async def require_authentication(
        self, cli: AgentCli, env: Mapping[str, str], config: OpenCodeConfig | None
    ) -> None:
        free = config is not None and config.chosen_provider == "opencode"  # its own, which needs no key
        if not free and not has_credentials(env):
            raise self.auth_failed("there is no API key and no stored login.")

    def stored_login(self, env: Mapping[str, str]) -> bool:
        return stored_login(env)

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        return provider_of_model(model)

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return the key; the address is in the configuration. An unknown provider is assumed to have OpenAI's API."""
        return {_GATEWAY_KEYS[provider_of_model(model) or "openai"]: access.key}

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        return [*super().credentials_in(env), *(name for name in env if name in CONFIGURED)]

    def model_for_gateway(self, config: OpenCodeConfig) -> str:
        return config.full_model or f"{config.provider}/"

    def provider(self, invocation: Invocation[OpenCodeConfig]) -> str | None:
        return invocation.config.chosen_provider if invocation.config.model else None

    def complete(
        self, invocation: Invocation[OpenCodeConfig], session: SessionRecord, done: ProcessResult
    ) -> SessionRecord:
        if invocation.config.model is None:
            session = with_model(session, _database(invocation))
        return with_stderr(session, done.output)


def _database(invocation: Invocation[OpenCodeConfig]) -> Path:
    return invocation.scratch / "opencode.db"


def _approving(version: str) -> str:
    return "--auto" if VERSIONS.has("--auto", version) else "--dangerously-skip-permissions"  # its former name


def has_credentials(env: Mapping[str, str]) -> bool:
    return any(env.get(name) for name in _API_KEYS) or stored_login(env)


def stored_login(env: Mapping[str, str]) -> bool:
    """Return whether there is a login, or a configuration that may contain a key."""
    return any(env.get(name) for name in CONFIGURED) or _logged_in(env)


def _logged_in(env: Mapping[str, str]) -> bool:
    data = directory_from(env, "XDG_DATA_HOME", ".local/share")
    if data is None:
        return False
    try:
        return len((data / "opencode" / "auth.json").read_bytes().strip()) > len(b"{}")
    except OSError:
        return False


def with_settings(invocation: Invocation[OpenCodeConfig]) -> dict[str, str]:
    """Return the agent's environment, with a configuration that sets the address of the model's API.

    As the content of a variable, it overrides the repository's `opencode.json`: a repository must not send a key to an
    address of its choice. It contains no key: opencode reads that from the environment.
    """
    # Two runs that share a database create its tables at the same time, and one of them fails (1.18.33).
    own_database = {DATABASE: invocation.inside(_database(invocation))}
    if invocation.context.gateway is not None:
        return {**own_database, **invocation.env, CONTENT: _at_gateway(invocation, invocation.context.gateway)}
    return {**own_database, **_settings(invocation), **invocation.env}


def _at_gateway(invocation: Invocation[OpenCodeConfig], access: GatewayAccess) -> str:
    """Return the configuration with one provider, which uses the gateway's key, whatever login is stored (1.18.33)."""
    name = invocation.config.chosen_provider
    provider = PROVIDER_OF_PREFIX.get(name, "openai")
    url = access.url + _VERSIONS.get(provider, "/v1")
    options = {"baseURL": url, "apiKey": f"{{env:{_GATEWAY_KEYS[provider]}}}"}
    only = {"provider": {name: _provider(invocation, options)}, "enabled_providers": [name], "disabled_providers": []}
    return json.dumps({**_read(invocation.env.get(CONTENT)), **only})


def _read(content: str | None) -> dict[str, Any]:
    """Return the user's configuration; empty if it is not plain JSON."""
    try:
        read = json.loads(content or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _settings(invocation: Invocation[OpenCodeConfig]) -> dict[str, str]:
    url = _base_url(invocation)
    if url is None:
        return {}
    text = json.dumps({"provider": {invocation.config.chosen_provider: _provider(invocation, {"baseURL": url})}})
    if CONTENT not in invocation.env:
        return {CONTENT: text}
    path = invocation.scratch / "opencode.json"
    path.write_text(text, encoding="utf-8")
    return {FILE: invocation.inside(path)}


def _provider(invocation: Invocation[OpenCodeConfig], options: Mapping[str, str]) -> dict[str, Any]:
    model = invocation.config.full_model
    # So that it accepts names that only a gateway knows.
    models: dict[str, Any] = {"models": {model.partition("/")[2]: {}}} if model else {}
    return {"options": options, **models}


def _base_url(invocation: Invocation[OpenCodeConfig]) -> str | None:
    provider = invocation.config.chosen_provider
    url = invocation.config.base_url or invocation.env.get(_BASE_URLS.get(provider, ""))
    if not url:
        return None
    # Anthropic's convention leaves out the version, but opencode needs it.
    bare = url.rstrip("/")
    return f"{bare}/v1" if provider == "anthropic" and not bare.endswith("/v1") else bare


_CONTINUES = "tool-calls"
_ABORTED_REASONS = frozenset({"length", "content-filter", "error"})
_DENIED = re.compile(r"rejected permission|prevents you from using", re.IGNORECASE)


class OpenCodeReader(StreamReader):
    def __init__(self) -> None:
        self._started = False

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "step_start": self._step,
            "text": self._text,
            "reasoning": self._thought,
            "tool_use": self._tool,
            "step_finish": self._finished,
            "error": self._error,
        }

    def _step(self, record: Record) -> Iterator[Event]:
        yield from self._start(record)
        yield TurnTaken()

    def _start(self, record: Record) -> Iterator[Event]:
        if not self._started:
            self._started = True
            session_id = as_str(record.get("sessionID"))
            yield SessionStarted(session_id=session_id, model=None, agent_version=None)

    def _text(self, record: Record) -> Iterator[Event]:
        if text := as_str(_part(record).get("text")):
            yield AssistantText(text=text)

    def _thought(self, record: Record) -> Iterator[Event]:
        if text := as_str(_part(record).get("text")):
            yield AssistantThinking(text=text)

    def _tool(self, record: Record) -> Iterator[Event]:
        part = _part(record)
        state = as_mapping(part.get("state"))
        call_id, name = as_str(part.get("callID")), as_str(part.get("tool")) or "(unnamed)"
        yield ToolCalled(call_id=call_id, name=name, arguments=as_mapping(state.get("input")))
        error = as_str(state.get("error"))
        if error is not None and _DENIED.search(error):
            yield ToolDenied(call_id=call_id, name=name)
        content = as_str(state.get("output")) if error is None else error
        failed = state.get("status") != "completed"
        yield ToolReturned(call_id=call_id, content=content or "", is_error=failed)

    def _finished(self, record: Record) -> Iterator[Event]:
        part = _part(record)
        yield CallMetered(tokens=_tokens(as_mapping(part.get("tokens"))), cost_usd=as_amount(part.get("cost")))
        reason = as_str(part.get("reason"))
        if reason != _CONTINUES:
            aborted = reason in _ABORTED_REASONS
            yield SessionResult(subtype=reason, is_error=aborted, text=None, turns=None, duration_ms=None)

    def _error(self, record: Record) -> Iterator[Event]:
        yield from self._start(record)
        error = as_mapping(record.get("error"))
        data = as_mapping(error.get("data"))
        name = as_str(error.get("name"))
        text = as_str(data.get("message")) or name or ""
        yield CallFailed(kind=name, status=as_count(data.get("statusCode")), text=text)
        yield SessionResult(subtype="error", is_error=True, text=text, turns=None, duration_ms=None)


def _part(record: Record) -> Record:
    return as_mapping(record.get("part"))


def _tokens(tokens: Record) -> Tokens:
    """Read tokens. Reasoning counts as output, and is billed as such."""
    cache = as_mapping(tokens.get("cache"))
    output, reasoning = as_count(tokens.get("output")), as_count(tokens.get("reasoning"))
    return Tokens(
        as_count(tokens.get("input")),
        None if output is None else output + (reasoning or 0),
        as_count(cache.get("read")),
        as_count(cache.get("write")),
    )


# opencode reports only on stderr the real reason of a failure, and that it used another agent than the configured one.

_OTHER_AGENT = re.compile(r'^\W*(agent "[^"\n]*" not found\. Falling back to default agent)', re.MULTILINE)
_LOGGED = re.compile(r'^timestamp=\S+ level=ERROR [^\n]*? error="((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_VAGUE = "Unexpected server error"


def with_stderr(session: SessionRecord, output: str) -> SessionRecord:
    result, failure = session.facts.result, session.facts.failure
    if "Falling back to default agent" in output and (other := _OTHER_AGENT.search(strip_ansi(output))):
        # The session succeeds, but with the wrong agent.
        turns = result.turns if result else None
        result = SessionResult(subtype=AGENT_NOT_FOUND, is_error=True, text=other[1], turns=turns, duration_ms=None)
        return session.with_facts(result=result)
    if failure and failure.text.startswith(_VAGUE):
        reasons = _LOGGED.findall(output)
        return session.with_facts(failure=replace(failure, text=reasons[-1])) if reasons else session
    return session


# Which model answered is only in the database.

_LAST_ANSWER = """
    SELECT json_extract(data, '$.providerID'), json_extract(data, '$.modelID') FROM message
    WHERE session_id = ? AND json_extract(data, '$.role') = 'assistant'
    ORDER BY time_created DESC LIMIT 1
"""
_MAX_STEPS = 10_000_000
"""Steps of SQLite's virtual machine, a fraction of a second: the agent could have put anything into the file."""


def with_model(session: SessionRecord, database: Path) -> SessionRecord:
    """Add the provider and the model of the session's last answer, if the database has them."""
    try:
        if not stat.S_ISREG(database.lstat().st_mode):
            return session
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.set_progress_handler(lambda: 1, _MAX_STEPS)  # its first call ends the query
            row = connection.execute(_LAST_ANSWER, (session.facts.session_id,)).fetchone()
    except (OSError, sqlite3.Error):
        return session
    provider, model = map(as_str, row or (None, None))
    return session.with_facts(provider=provider, model=model) if provider and model else session
