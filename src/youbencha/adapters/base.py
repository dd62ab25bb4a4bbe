"""The contract of an adapter: three methods, and no state between calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from youbencha.errors import Problem
from youbencha.events import EventSink
from youbencha.gateway.api import GatewayAccess
from youbencha.log.model import ErrorRecord, Execution, Status, YouBenchaLog
from youbencha.log.session import SessionRecord
from youbencha.process import OutputEnd
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST

if TYPE_CHECKING:
    import asyncio

    from youbencha.gateway.api import Provider

DEFAULT_TIMEOUT_MS = 300_000
READY_TIMEOUT_S = 30.0
"""How long an agent may take to report its version and whether it is logged in. The first start of a CLI of 350 MB
from a cold disk can take 15 s."""


class InstalledFiles(NamedTuple):
    """Files of the user for the agent, where they are in its home: the host's paths."""

    instructions: Path | None = None
    skills: tuple[Path, ...] = ()
    plugins: tuple[Path, ...] = ()


INSTRUCTIONS_ABOVE = (
    "CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules", ".claude/agents", ".claude/commands",
    "AGENTS.md", "GEMINI.md",
)  # fmt: skip
"""What agents read in directories above the one in which they work. Claude Code 2.0.62 and 2.1.326 read the files at
any height, 2.0.62 also `agents` and `commands`, and 2.1.326 `rules`; other agents stop at the top of a repository."""


class FilePlaces(NamedTuple):
    """Where an agent reads files of its user, below its home. None: it has no such files."""

    instructions: str | None = None
    skills: str | None = None
    """The directory with a directory for each skill."""
    plugins: str | None = None
    """The same, for plugins."""
    plugin_parts: tuple[str, ...] = ()
    """Files and directories, of which every plugin has at least one."""
    moved_by: frozenset[str] = frozenset()
    """Variables that make the agent look elsewhere."""
    source_option: tuple[str, str] | None = None
    """An option with a list: if it is set, the agent reads the files only if this value is in it."""
    in_repository: tuple[str, ...] = ()
    """What the agent reads in its repository on its own, if it is there: instructions, skills, settings, MCP servers.
    A name is that of a file in any directory; with a slash, it is a path from the top."""
    repository_option: tuple[str, str] | None = None
    """As `source_option`, for what the agent reads in its repository."""


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
        """The part of a YouBenchaLog that is the same for every adapter."""
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
        """Of the adapter, MAJOR.MINOR.PATCH."""
        ...

    async def check_availability(self) -> bool:
        """True if the agent can be run, False if it is not installed; raises if it is not authenticated.

        youBencha waits `READY_TIMEOUT_S` for it.
        """
        ...

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        """Run the agent to its end. Whatever it does is a result; raises only if it cannot be started."""
        ...

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        """Return the result in the format that all agents share. A pure function."""
        ...


@runtime_checkable
class ChecksConfig(Protocol):
    """An adapter that can check its configuration before anything is cloned or run."""

    def check_config(self, config: Mapping[str, Any], config_dir: Path | None) -> Sequence[Problem]:
        """Return every problem; paths are relative to `agent.config`."""
        ...


@runtime_checkable
class ChecksReadiness(Protocol):
    """An adapter that can check, for one test case, that its agent is installed and has credentials."""

    async def check_ready(self, config: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Raise a YouBenchaError that says what to do. `env` is the test case's `agent.env`."""
        ...


@runtime_checkable
class ChecksVersion(Protocol):
    """An adapter that can check, for one test case, whether its agent is too old for it."""

    async def check_version(self, config: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Raise a YouBenchaError if it is. Starts the agent at most for its version."""
        ...


@runtime_checkable
class UsesHarnessEnvironment(Protocol):
    """An adapter that takes variables from the harness's environment, and masks the secrets in it."""

    harness_env: Mapping[str, str]


@runtime_checkable
class UsesGateway(Protocol):
    """An adapter whose agent can be limited to reaching its model through a gateway."""

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        """The provider whose API this agent will use; None if unknown. `env` is the test case's `agent.env`."""
        ...

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        """The variables that point the agent at the gateway. `execute` sets them in place of every credential."""
        ...

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        """Names in `env` that are credentials or addresses of this agent's model: a test case that sets one of these
        decides how the agent reaches its model."""
        ...


@runtime_checkable
class StoresLogin(Protocol):
    """An adapter whose agent may use a login that is stored in the user's home."""

    def stored_login(self, env: Mapping[str, str]) -> bool:
        """Whether there may be such a login. `env` is the user's environment."""
        ...


@runtime_checkable
class ReadsFiles(Protocol):
    """An adapter whose agent reads instructions, skills or plugins of its user."""

    @property
    def file_places(self) -> FilePlaces: ...


@runtime_checkable
class ChecksCustomAgent(Protocol):
    """An adapter that can check, before a run, the definition of the custom agent that `agent_name` names."""

    agent_definitions: str
    """The directory of definitions in a repository."""

    def check_custom_agent(
        self, name: str, *, workspace: Path, config_dir: Path | None, env: Mapping[str, str]
    ) -> Sequence[Problem]:
        """Return what is wrong. `workspace` has the definitions of the repository; `env` names the agent's home."""
        ...


def resolved_names(adapter: AgentAdapter, model: str) -> tuple[str, ...] | None:
    """Return patterns of the names that the agent requests if `model` is an alias; None if it is a name.

    The adapter's `model_aliases` has them by patterns of aliases. There may be none: then only the agent's CLI knows.
    """
    aliases: Mapping[str, tuple[str, ...]] = getattr(adapter, "model_aliases", {})
    name = model.partition("[")[0].lower()
    return next((names for alias, names in aliases.items() if fnmatchcase(name, alias)), None)


def requested_model(adapter: AgentAdapter, model: str | None, env: Mapping[str, str]) -> tuple[Provider, str] | None:
    """Return the provider and the name of the model that the agent will request; None if only its CLI knows them."""
    if model is None or not isinstance(adapter, UsesGateway) or resolved_names(adapter, model) is not None:
        return None
    provider = adapter.gateway_provider(model, env)
    return None if provider is None else (provider, model)


def needs_model(adapter: AgentAdapter) -> bool:
    """Whether the agent cannot work without a model. True unless the adapter has `needs_model = False`."""
    return bool(getattr(adapter, "needs_model", True))
