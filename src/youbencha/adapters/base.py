"""The contract of an adapter: three methods, and no state between calls."""

from __future__ import annotations

import asyncio
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from packaging.version import Version

from youbencha.adapters import codes
from youbencha.adapters.causes import Cause
from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.events import EventSink
from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.log.model import ErrorRecord, Execution, Status, YouBenchaLog
from youbencha.log.session import SessionRecord
from youbencha.process import OutputEnd
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST
from youbencha.sandbox.toolbox.catalogue import Recipe

DEFAULT_TIMEOUT_MS = 300_000
READY_TIMEOUT_S = 30.0
"""How long an agent may take to report its version and whether it is logged in. The first start of a CLI of 350 MB
from a cold disk can take 15 s."""


class InstalledFiles(NamedTuple):
    """Files of the user for the agent, where they are in its home: the host's paths."""

    instructions: Path | None = None
    skills: tuple[Path, ...] = ()
    plugins: tuple[Path, ...] = ()


PARENT_INSTRUCTIONS = (
    "CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules", ".claude/agents", ".claude/commands",
    "AGENTS.md", "GEMINI.md",
)  # fmt: skip
"""Instructions that agents read in directories above the one in which they work. Claude Code 2.0.62 and 2.1.326 read
the files at any height, 2.0.62 also `agents` and `commands`, and 2.1.326 `rules`; other agents stop at the top of a
repository."""


class FilePlaces(NamedTuple):
    """Where an agent reads files of its user, below its home. None: it has no such files."""

    instructions: str | None = None
    skills: str | None = None
    """The directory with a directory for each skill."""
    plugins: str | None = None
    """The same, for plugins."""
    plugin_parts: tuple[str, ...] = ()
    """Files and directories, of which every plugin has at least one."""
    relocating_env: frozenset[str] = frozenset()
    """Variables that make the agent look elsewhere."""
    required_source: tuple[str, str] | None = None
    """An option with a list: if it is set, the agent reads the files only if this value is in it."""
    in_repository: tuple[str, ...] = ()
    """What the agent reads in its repository on its own, if it is there: instructions, skills, settings, MCP servers.
    A name is that of a file in any directory; with a slash, it is a path from the top."""
    repository_option: tuple[str, str] | None = None
    """As `required_source`, for what the agent reads in its repository."""


_VERSION = re.compile(r"\d+\.\d+\.\d+")


def parse_version(text: str) -> Version | None:
    """Parse what `--version` prints: `2.1.325 (Claude Code)`. A pre-release counts as its release."""
    match = _VERSION.match(text.strip())
    return Version(match[0]) if match else None


@dataclass(frozen=True)
class SupportedVersions:
    """The versions of a CLI that its adapter works with."""

    oldest: Version
    """The oldest that completed a task with a scripted model. Earlier ones failed, or could not be tried."""
    flags: Mapping[str, Version] = field(default_factory=dict)
    """The first version with each flag that is newer than `oldest`. Without it, the adapter omits the flag."""

    def has(self, flag: str, version: str) -> bool:
        """Return whether this version has the flag. A version that cannot be compared counts as new."""
        known = parse_version(version)
        return known is None or known >= self.flags[flag]

    def is_too_old(self, version: str) -> bool:
        known = parse_version(version)
        return known is not None and known < self.oldest


@dataclass(frozen=True, kw_only=True)
class AgentExecutionContext:
    """What an adapter gets for one run."""

    workspace_dir: Path
    """Where the agent works: its current directory."""
    repo_dir: Path
    artifacts_dir: Path
    config: Mapping[str, Any]
    """`agent.config` of the test case; the adapter validates it."""
    timeout: int = DEFAULT_TIMEOUT_MS
    """Milliseconds; 0 means none."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for the agent. They override those that the adapter passes on from the harness's environment."""
    model: str | None = None
    """`agent.model` of the test case: any name. A model in `config` is validated by the adapter."""
    config_dir: Path | None = None
    """The directory of the file that names `prompt_file`; relative paths start there, else in the workspace."""
    on_event: EventSink | None = None
    """Called with every event as it happens, in the thread of the running loop."""
    on_output: Callable[[], None] | None = None
    """Called whenever the agent prints anything, whether or not it is an event."""
    gateway: GatewayAccess | None = None
    """The only access to the model: the agent gets this instead of every credential of the harness or the test case."""
    other_credentials: bool = False
    """Behind a gateway, leave credentials that it never holds in `env`, as those of a cloud: in a loop, the agent's
    commands may need the user's."""
    sandbox: Sandbox = HOST
    """Where the agent runs. Paths and variables for it must be valid in there."""
    scratch_dir: Path | None = None
    """For files that the agent needs outside its workspace; the caller removes it. None: the temporary directory."""
    files: InstalledFiles | None = None
    """What the user gave to the agent. None: nothing, and nothing in its home."""
    stop: asyncio.Event | None = None
    """Set when the agent has to end early, for example because its budget is spent: end it as at its deadline."""

    def __post_init__(self) -> None:
        for name in ("workspace_dir", "repo_dir", "artifacts_dir", "config_dir", "scratch_dir"):
            if isinstance(path := getattr(self, name), str):
                object.__setattr__(self, name, Path(path))

    @property
    def timeout_s(self) -> float | None:
        """The timeout as `process.Limits` takes it: in seconds, None for none."""
        return self.timeout / 1000 if self.timeout else None


@dataclass(frozen=True, kw_only=True)
class AgentExecutionResult:
    """The result of a run. `output` is stdout and stderr in the order of arrival, bounded and with secrets masked."""

    exit_code: int
    """The process's own; 128 + N if signal N ended it; -1 after a timeout."""
    status: Status
    output: str
    started_at: str
    completed_at: str
    duration_ms: int
    errors: tuple[ErrorRecord, ...] = ()
    warnings: tuple[ErrorRecord, ...] = ()
    agent_version: str | None = None
    log_file: Path | None = None
    session: SessionRecord | None = None
    """The session as it was read while the agent ran. `output` may have less of it: it is cut at 10 MiB."""
    output_end: OutputEnd | None = None
    """The end of the output, if `output` was cut."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Other facts about the run, such as the executable."""

    def execution(self) -> Execution:
        """Return the part of a YouBenchaLog that is the same for every adapter."""
        return Execution(
            started_at=self.started_at,
            completed_at=self.completed_at,
            duration_ms=self.duration_ms,
            exit_code=self.exit_code,
            status=self.status,
        )


@runtime_checkable
class AgentAdapter(Protocol):
    """Drives one agent."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """The version of the adapter, MAJOR.MINOR.PATCH."""
        ...

    async def check_availability(self) -> bool:
        """Return True if the agent can be run, False if it is not installed; raise if it is not authenticated.

        youBencha waits `READY_TIMEOUT_S` for it.
        """
        ...

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        """Run the agent to its end. Whatever it does is a result; raises only if it cannot be started."""
        ...

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        """Return the result in the format that all agents share. A pure function."""
        ...


class AgentDescription:
    """What youBencha knows of an agent. Adapters set what differs from the defaults."""

    name: ClassVar[str]
    """As in `agent.type`: `copilot-cli`."""
    version: ClassVar[str] = "1.0.0"
    title: ClassVar[str]
    """For messages: `Copilot CLI`."""
    prefix: ClassVar[str]
    """The beginning of its error codes: `COPILOT`."""
    summary: ClassVar[str] = ""
    """For lists: `Codex, by OpenAI.`"""
    program: ClassVar[str] = ""
    """The program's name on PATH. In a loop, the backend is called like it."""
    recipes: ClassVar[tuple[Recipe, ...]] = ()
    """How the toolbox installs it, in the order in which it tries them."""
    redundant_flags: ClassVar[frozenset[str]] = frozenset()
    """Arguments that people pass to this CLI in a loop, and that its adapter passes anyway."""
    interactive_args: ClassVar[tuple[str, ...]] = ()
    """The arguments that start an interactive session with `{prompt}` as its first message, if it can do that."""
    logs: ClassVar[str]
    """The directory of its terminal output in the artifacts."""
    versions: ClassVar[SupportedVersions | None] = None
    """The versions that the adapter works with. None: any."""
    default_provider: ClassVar[str] = "unknown"
    """The provider of its models, if that is always the same."""
    how_to_authenticate: ClassVar[str] = "Log in as its documentation says, or set its API key in agent.env."
    hints: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Hints for errors and warnings that replace the common ones, by code."""
    causes: ClassVar[tuple[Cause, ...]] = ()
    """Its own causes of failure, which come before the common ones."""
    success_subtypes: ClassVar[frozenset[str] | None] = None
    """The subtypes of a result that is a success, besides none at all. None: any that is not an error."""
    plain_errors: ClassVar[Literal["without_events", "after_failed_exit"]] = "without_events"
    """When plain text is searched for a cause: if events were expected and there are none, whatever the exit code, or
    if the exit code is a failure, even if plain text is its answer."""
    compares_models: ClassVar[bool] = False
    """It names its model at the start: if answers name another one, that is a fallback."""
    needs_model: ClassVar[bool] = True
    """It cannot work without a model."""
    model_aliases: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """Names that the agent replaces by others, as patterns, with patterns of the others. If there are none, only the
    agent's CLI knows them."""
    file_places: ClassVar[FilePlaces] = FilePlaces()
    """Where it reads instructions, skills and plugins."""
    agent_definitions: ClassVar[str] = ""
    """The directory of definitions of custom agents in a repository; empty if there is none."""
    checks_config: ClassVar[bool] = False
    """`check_config` knows all its options."""
    supports_gateway: ClassVar[bool] = False
    """It can be limited to reaching its model through a gateway, by `gateway_env`."""
    judge_config: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Defaults of its configuration when it judges, so that the judged tree does not configure it."""

    @classmethod
    def loop_config(cls, output_format: str) -> dict[str, Any]:
        """Return defaults of its configuration in a loop. `output_format` is `text` or `stream-json`."""
        return {}

    @classmethod
    def code(cls, suffix: str) -> str:
        """Return an error code of this agent; `codes` has the suffixes."""
        return f"{cls.prefix}_{suffix}"

    @classmethod
    def hint(cls, suffix: str, otherwise: str) -> str:
        """Return this agent's own hint for an error or warning, or else the common one."""
        return cls.hints.get(suffix, otherwise)

    @classmethod
    def error(cls, suffix: str, message: str, hint: str | None = None) -> YouBenchaError:
        return YouBenchaError(cls.code(suffix), message, hint=hint)

    @classmethod
    def auth_failed(cls, reason: str) -> YouBenchaError:
        message = f"{cls.title} has no valid authentication: {reason}"
        return cls.error(codes.AUTH_FAILED, message, cls.how_to_authenticate)

    @classmethod
    def is_too_old(cls, version: str) -> bool:
        return cls.versions is not None and cls.versions.is_too_old(version)

    @classmethod
    def too_old(cls, version: str, where: str = "") -> YouBenchaError:
        """Describe a version that is too old; `where` tells which one, if that is not clear."""
        assert cls.versions is not None
        message = f"{cls.title} {version}{where} is too old: youBencha works with {cls.versions.oldest} and later."
        return cls.error(codes.VERSION_TOO_OLD, message, f"Install a newer one: `yb agents install {cls.name}`.")

    @classmethod
    def no_gateway(cls) -> YouBenchaError:
        message = f"{cls.title} cannot reach its model through a gateway."
        return cls.error(codes.NO_GATEWAY, message, "Write `gateway: none`, and give the agent its own key.")

    @classmethod
    def invalid_config(cls, problems: Sequence[Problem]) -> ConfigError:
        return ConfigError(cls.code(codes.INVALID_CONFIG), f"The {cls.title} configuration", problems)

    @classmethod
    def one_problem(cls, path: str, message: str, hint: str | None = None) -> ConfigError:
        return cls.invalid_config([Problem(path, message, hint)])


class BaseAdapter(AgentDescription, ABC):
    """What youBencha asks of an agent's adapter. The defaults suit one that has the contract only.

    `get_adapter` makes one of every `AgentAdapter`.
    """

    harness_env: Mapping[str, str] = os.environ
    """The harness's environment, whose secrets it masks."""

    @abstractmethod
    async def check_availability(self) -> bool:
        """As in `AgentAdapter`."""

    @abstractmethod
    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        """As in `AgentAdapter`."""

    @abstractmethod
    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        """As in `AgentAdapter`."""

    def check_config(self, config: Mapping[str, Any], config_dir: Path | None) -> Sequence[Problem]:
        """Return every problem of `agent.config`, before anything is cloned or run. Paths are relative to it."""
        return ()

    async def check_ready(self, config: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Raise a YouBenchaError if the agent is not installed or has no credentials for this test case.

        `env` is the test case's `agent.env`, here and below.
        """
        if not await self.check_availability():
            raise YouBenchaError(
                "AGENT_NOT_INSTALLED",
                f"The agent {self.name} is not installed.",
                hint=f"Try `yb agents install {self.name}`; `yb doctor` shows what is installed.",
            )

    async def check_version(self, config: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Raise a YouBenchaError if the agent is too old for this test case. Starts it at most for its version."""
        return

    def check_custom_agent(
        self, name: str, *, workspace: Path, config_dir: Path | None, env: Mapping[str, str]
    ) -> Sequence[Problem]:
        """Return what is wrong with the definition of the custom agent that `agent_name` names.

        `workspace` has the definitions of the repository; `env` names the agent's home.
        """
        return ()

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        """Return the provider whose API the agent will use; None if unknown."""
        return None

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables that point the agent at the gateway, which `execute` sets in place of credentials."""
        raise NotImplementedError(f"{self.name} does not support the gateway")

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        """Return the names in `env` that are credentials or addresses of this agent's model.

        A test case that sets one of these decides how the agent reaches its model.
        """
        return ()

    def stored_login(self, env: Mapping[str, str]) -> bool | None:
        """Return whether a login may be stored in the user's home; None if the agent never uses one.

        `env` is the user's environment.
        """
        return None

    def resolve_alias(self, model: str) -> tuple[str, ...] | None:
        """Return patterns of the names that the agent may request for `model`; None if it is not an alias."""
        name = model.partition("[")[0].lower()
        return next((names for alias, names in self.model_aliases.items() if fnmatchcase(name, alias)), None)

    def requested_model(self, model: str | None, env: Mapping[str, str]) -> tuple[Provider, str] | None:
        """Return the provider and the name of the model that it will request; None if only its CLI knows them."""
        if model is None or self.resolve_alias(model) is not None:
            return None
        provider = self.gateway_provider(model, env)
        return None if provider is None else (provider, model)


class ContractAdapter(BaseAdapter):
    """An adapter that has the contract, and perhaps some of what `BaseAdapter` has."""

    def __init__(self, adapter: AgentAdapter) -> None:
        self.adapter = adapter
        public = {name for name in dir(BaseAdapter) if not name.startswith("_")} | {"name"}
        vars(self).update({name: getattr(adapter, name) for name in public if hasattr(adapter, name)})
        vars(self).update(
            checks_config=hasattr(adapter, "check_config"), supports_gateway=hasattr(adapter, "gateway_env")
        )

    async def check_availability(self) -> bool:
        return await self.adapter.check_availability()

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        return await self.adapter.execute(context)

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        return self.adapter.normalize_log(result, context)


def complete_adapter(adapter: AgentAdapter) -> BaseAdapter:
    """Return the adapter with defaults for what it lacks."""
    return adapter if isinstance(adapter, BaseAdapter) else ContractAdapter(adapter)
