"""GeminiCliAdapter: the CLI gets its prompt on stdin, prints JSON events, and ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from youbencha.adapters.base import FilePlaces, SupportedVersions
from youbencha.adapters.causes import read_api_body
from youbencha.adapters.cli_agent import (
    AgentCli,
    AgentConfig,
    CallFailed,
    CallMetered,
    Cause,
    CliAdapter,
    Handler,
    Invocation,
    StreamReader,
    codes,
)
from youbencha.adapters.cli_agent.session_files import directory_from
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    UsageReported,
    WarningRaised,
)
from youbencha.files import read_nofollow
from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.json_lines import Record, as_count, as_mapping, as_str
from youbencha.process import Command
from youbencha.sandbox.toolbox.catalogue import Npm
from youbencha.usage import Tokens


class GeminiCliConfig(AgentConfig):
    """Options of the Gemini CLI adapter."""

    own_flags = frozenset({
        "-m", "--model", "-p", "--prompt", "-i", "--prompt-interactive", "-o", "--output-format", "-y", "--yolo",
        "--approval-mode",
    })  # fmt: skip

    approval_mode: Literal["default", "auto_edit", "yolo", "plan"] = "yolo"
    """What the agent may do without asking. In modes other than `yolo`, the model does not get the tools that would
    ask."""


_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    # Otherwise the repository's `.env` would set the agent's environment.
    "advanced": {"ignoreLocalEnv": True},
}

_MAX_SETTINGS_BYTES = 1024 * 1024

_BASE_URL = "GOOGLE_GEMINI_BASE_URL"

CREDENTIALS = frozenset({
    "GEMINI_API_KEY", "GOOGLE_API_KEY", _BASE_URL, "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS", "GEMINI_CLI_USE_COMPUTE_ADC", "CLOUD_SHELL",
    # Settings decide whether a key is used.
    "GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
})  # fmt: skip

_SWITCHES = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_USE_COMPUTE_ADC", "CLOUD_SHELL")
"""Each selects an authentication without a key; the CLI itself reports what that needs."""


class GeminiCliAdapter(CliAdapter[GeminiCliConfig]):
    """Runs Gemini CLI and reads its stream-json events."""

    name = "gemini-cli"
    title = "Gemini CLI"
    prefix = "GEMINI"
    program = "gemini"
    summary = "Gemini CLI, by Google."
    recipes = (Npm("@google/gemini-cli", about_mb=20),)
    redundant_flags = frozenset({"-y", "--yolo"})
    interactive_args = ("--prompt-interactive", "{prompt}")
    logs = "gemini-cli-logs"
    file_places = FilePlaces(
        instructions=".gemini/GEMINI.md",
        skills=".gemini/skills",
        plugins=".gemini/extensions",
        plugin_parts=("gemini-extension.json",),
        relocating_env=frozenset({"GEMINI_CLI_HOME"}),
        in_repository=("GEMINI.md", ".gemini/", ".agents/skills/"),
    )
    versions = SupportedVersions(oldest=Version("0.24.0"))  # 0.22.4 rejects every command
    default_provider = "google"
    how_to_authenticate = "Set GEMINI_API_KEY (in agent.env or your environment), or run `gemini` once and log in."
    supports_gateway = True
    config_model = GeminiCliConfig
    inherited_env = CREDENTIALS | {"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"}
    credentials = CREDENTIALS
    default_env = {  # noqa: RUF012  # ClassVar in the base
        # In a folder that is not trusted, it silently falls back to asking, and then does without most tools. The flag
        # for it is newer than the variable, and unknown flags are errors.
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        # It starts itself again with a larger heap, which costs two seconds and does not help a short run.
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    # It also replaces names of preview and flash models by those of newer ones (0.61.0).
    model_aliases = {  # noqa: RUF012
        "auto*": (),
        "pro": ("gemini-*pro*",),
        "gemini-3-pro-preview": ("gemini-*pro*",),
        "*flash-lite*": ("gemini-*flash-lite*",),
        "*flash*": ("gemini-*flash*",),
    }
    supports_custom_agents = False
    causes = (
        Cause(
            code=codes.AUTH_FAILED,
            kind="authentication",
            pattern=r"api key not valid|UNAUTHENTICATED|invalid auth method|set an auth method"
            r"|must specify the GEMINI_API_KEY",
            message="Gemini CLI failed authentication: no valid API key or login",
            hint=None,
        ),
    )

    def command(self, invocation: Invocation[GeminiCliConfig]) -> Command:
        config = invocation.config
        argv = [*invocation.cli.argv, "--output-format", "stream-json", "--approval-mode", config.approval_mode]
        argv += ["--model", config.model] if config.model else []
        # Without a prompt argument, it reads stdin byte for byte, of any length.
        return Command(
            argv=(*argv, *config.extra_args),
            cwd=invocation.workspace,
            env={**invocation.env, **private_home(invocation)},
            stdin=invocation.prompt.encode(),
        )

    def reader(self) -> StreamReader:
        return GeminiCliReader()

    async def require_authentication(
        self, cli: AgentCli, env: Mapping[str, str], config: GeminiCliConfig | None
    ) -> None:
        if not (_key(env) or _uses_other_login(env) or self.stored_login(env)):
            raise self.auth_failed("there is no API key in the environment, and no stored login.")

    def stored_login(self, env: Mapping[str, str]) -> bool:
        home = directory_from(env, "GEMINI_CLI_HOME")
        return home is not None and (home / ".gemini" / "oauth_creds.json").exists()

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider:
        return "gemini"

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return {"GOOGLE_GEMINI_BASE_URL": access.url, "GEMINI_API_KEY": access.key}


def private_home(invocation: Invocation[Any]) -> dict[str, str]:
    """Create a home for the CLI with settings that select the key, if there is one.

    Only its settings decide whether it uses a key or a login. Without settings it uses the environment, and then reads
    GOOGLE_GEMINI_BASE_URL as a kind of login that it does not support (0.61: exit 41). System settings would work too,
    but are not read from a world-writable directory such as /tmp.
    """
    env, home = invocation.env, invocation.scratch
    key = _key(env)
    if not key or _uses_other_login(env):
        return {}
    # Set, even if empty: older versions read the repository's `.env`, which could send the key elsewhere.
    with_key = {"GEMINI_API_KEY": key, _BASE_URL: env.get(_BASE_URL, "")}
    if env.get("GEMINI_CLI_HOME"):
        return with_key
    settings: dict[str, Any] = _SETTINGS
    if invocation.context.files is not None:  # then its home is a new one, with what the user has put there
        home = invocation.outside(Path(env["HOME"])) or home
        settings = _merge(_user_settings(home), _SETTINGS)
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    return {**with_key, "GEMINI_CLI_HOME": invocation.inside(home)}


def _user_settings(home: Path) -> Any:
    try:
        return json.loads(read_nofollow(home, ".gemini/settings.json", _MAX_SETTINGS_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise GeminiCliAdapter.one_problem("home", f".gemini/settings.json cannot be read: {error}") from error


def _merge(given: Any, over: Any) -> Any:
    """Return the user's settings, with ours in place of the same ones."""
    if not isinstance(given, dict) or not isinstance(over, dict):
        return over
    return {**given, **{key: _merge(given.get(key), value) for key, value in over.items()}}


def _key(env: Mapping[str, str]) -> str | None:
    return env.get("GEMINI_API_KEY") or env.get("GOOGLE_API_KEY")


def _uses_other_login(env: Mapping[str, str]) -> bool:
    return any(env.get(name) == "true" for name in _SWITCHES)


_API_ERROR = re.compile(r"^\[API Error: (?P<body>.*)\]\s*$", re.DOTALL)


class GeminiCliReader(StreamReader):
    """A text arrives in pieces without an end marker: it ends where something else begins."""

    def __init__(self) -> None:
        self._draft: list[str] = []
        self._sent_at: str | None = None
        self._tools: dict[str, str] = {}

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "init": self._started,
            "message": self._message,
            "tool_use": self._tool_called,
            "tool_result": self._tool_returned,
            "error": self._error,
            "result": self._result,
        }

    def finish(self) -> Iterable[Event]:
        return self._ended_text()

    def _started(self, record: Record) -> Iterator[Event]:
        yield SessionStarted(
            session_id=as_str(record.get("session_id")), model=as_str(record.get("model")), agent_version=None
        )

    def _message(self, record: Record) -> Iterator[Event]:
        """Read a message of the model; the repeated prompt is skipped."""
        if record.get("role") != "assistant":
            return
        content = as_str(record.get("content")) or ""
        if record.get("delta") is True:
            self._sent_at = self._sent_at or as_str(record.get("timestamp"))
            self._draft.append(content)
            yield AssistantTextDelta(text=content)
        else:
            yield from self._ended_text()
            yield AssistantText(text=content, sent_at=as_str(record.get("timestamp")))

    def _tool_called(self, record: Record) -> Iterator[Event]:
        yield from self._ended_text()
        call_id, name = as_str(record.get("tool_id")), as_str(record.get("tool_name")) or "unknown"
        if call_id is not None:
            self._tools[call_id] = name
        yield ToolCalled(call_id=call_id, name=name, arguments=as_mapping(record.get("parameters")))

    def _tool_returned(self, record: Record) -> Iterator[Event]:
        yield from self._ended_text()
        call_id, error = as_str(record.get("tool_id")), as_mapping(record.get("error"))
        name = self._tools.pop(call_id or "", "unknown")
        if error.get("type") == "policy_violation":
            yield ToolDenied(call_id=call_id, name=name)
        output = as_str(record.get("output"))
        content = output if output is not None else as_str(error.get("message")) or ""
        yield ToolReturned(call_id=call_id, content=content, is_error=record.get("status") == "error")

    def _error(self, record: Record) -> Iterator[Event]:
        yield from self._ended_text()
        message = as_str(record.get("message")) or ""
        if record.get("severity") == "error":
            yield CallFailed(kind=None, status=None, text=message)
        else:
            yield WarningRaised(code=f"GEMINI_{codes.NOTICE}", message=message)

    def _result(self, record: Record) -> Iterator[Event]:
        yield from self._ended_text()
        stats, message = as_mapping(record.get("stats")), as_str(as_mapping(record.get("error")).get("message"))
        if stats:
            yield _usage(stats)
            # Only for the model: the tokens are in the sum.
            yield CallMetered(tokens=Tokens(), model=_model(as_mapping(stats.get("models"))))
        if message and (api := _API_ERROR.match(message)):
            body = read_api_body(api["body"])
            yield CallFailed(kind=None, status=body.status, text=body.message)
        yield SessionResult(
            subtype=as_str(record.get("status")),
            is_error=record.get("status") != "success",
            text=message,
            turns=None,
            duration_ms=as_count(stats.get("duration_ms")),
        )

    def _ended_text(self) -> Iterator[Event]:
        if self._draft:
            yield AssistantText(text="".join(self._draft), sent_at=self._sent_at)
        self._draft, self._sent_at = [], None


def _usage(stats: Record) -> UsageReported:
    """Read tokens. Thinking is only in the total; it counts as output, and is billed as such."""
    whole, prompt = as_count(stats.get("total_tokens")), as_count(stats.get("input_tokens"))
    written = whole - prompt if whole is not None and prompt is not None and whole >= prompt else None
    return UsageReported(
        input_tokens=as_count(stats.get("input")),
        output_tokens=written if written is not None else as_count(stats.get("output_tokens")),
        cache_read_tokens=as_count(stats.get("cached")),
    )


def _model(models: Record) -> str | None:
    """Return the model with the most tokens: the CLI also makes side requests to smaller ones."""
    return max(models, key=lambda name: as_count(as_mapping(models[name]).get("total_tokens")) or 0, default=None)
