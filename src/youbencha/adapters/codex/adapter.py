"""CodexAdapter: `codex exec` gets its prompt on stdin, writes JSON events, and ends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from packaging.version import Version

from youbencha.adapters.base import FilePlaces
from youbencha.adapters.cli_agent import (
    AgentCli,
    AgentConfig,
    AgentKind,
    CliAdapter,
    Invocation,
    NonEmptyArgument,
    SessionRecord,
    StreamReader,
)
from youbencha.adapters.cli_agent.config import Matches
from youbencha.adapters.cli_agent.versions import SupportedVersions
from youbencha.adapters.codex.events import CodexReader, with_session_file
from youbencha.gateway.api import GatewayAccess
from youbencha.process import Command, ProcessResult

if TYPE_CHECKING:
    from youbencha.gateway.api import Provider


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


KIND = AgentKind(
    name="codex",
    title="Codex",
    prefix="CODEX",
    command="codex",
    logs="codex-logs",
    places=FilePlaces(
        instructions=".codex/AGENTS.md",
        skills=".codex/skills",
        relocating_env=frozenset({"CODEX_HOME"}),
        in_repository=("/AGENTS.md", "/AGENTS.override.md", ".agents/skills/", ".codex/"),
    ),
    # 0.42.0 and earlier print other events; 0.43 was not available.
    versions=SupportedVersions(oldest=Version("0.44.0")),
    provider="openai",
    how_to_authenticate="Set OPENAI_API_KEY or CODEX_API_KEY (in agent.env or your environment), or run `codex login`.",
)

_KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")
_BASE_URL = "OPENAI_BASE_URL"
_CREDENTIALS = frozenset({*_KEYS, _BASE_URL, "CODEX_ACCESS_TOKEN", "OPENAI_ORGANIZATION", "OPENAI_PROJECT"})
_PROVIDER = "youbencha"

_OTHER_LOGINS = frozenset({"model_provider", "oss_provider", "cli_auth_credentials_store"})
"""Settings of Codex that select credentials that cannot be checked here: another provider, the system's key ring."""


class CodexAdapter(CliAdapter[CodexConfig]):
    """Runs `codex exec` and reads its JSON events."""

    kind = KIND
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
            raise KIND.auth_failed("there is no API key in the environment, and no stored login.")

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
    if own := env.get("CODEX_HOME"):
        return Path(own)
    home = env.get("HOME") or env.get("USERPROFILE")
    return Path(home) / ".codex" if home else None


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
    import tomllib  # few runs need it

    try:
        return not _OTHER_LOGINS.isdisjoint(tomllib.loads(settings.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return False
