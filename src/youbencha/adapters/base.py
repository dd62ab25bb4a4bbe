"""The contract between the engine and an agent. Three methods, no state between calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from youbencha.errors import Problem
from youbencha.events import EventSink
from youbencha.gateway.api import GatewayAccess
from youbencha.log.model import ErrorRecord, Execution, Status, YouBenchaLog
from youbencha.log.session import SessionRecord
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HOST

if TYPE_CHECKING:
    import asyncio

    from youbencha.gateway.api import Provider

DEFAULT_TIMEOUT_MS = 300_000


@dataclass(frozen=True, kw_only=True)
class AgentExecutionContext:
    """All that an adapter gets for one run."""

    workspace_dir: Path
    """Where the agent works: its current directory."""
    repo_dir: Path
    artifacts_dir: Path
    config: Mapping[str, Any]
    """What the person wrote under `agent.config`; each adapter validates its own."""
    timeout: int = DEFAULT_TIMEOUT_MS
    """Milliseconds; 0 means none."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Given to the agent, over what the adapter passes on from the harness's own environment."""
    model: str | None = None
    """`agent.model` of the test case: any name. What `config` says of a model is the adapter's own, and stricter."""
    config_dir: Path | None = None
    """Where the file lies that names `prompt_file`; relative paths start there, else in the workspace."""
    on_event: EventSink | None = None
    """Called with every event as it happens, in the thread of the running loop."""
    gateway: GatewayAccess | None = None
    """The only way to the model. The agent then gets no credential of the harness or of the test case, only this."""
    sandbox: Sandbox = HOST
    """Where the agent runs. Paths and variables that it gets have to be as they are in there."""
    scratch_dir: Path | None = None
    """For what the agent needs beside its tree; the caller removes it. None: where temporary files go."""
    stop: asyncio.Event | None = None
    """Set when the agent has to end before its time (its budget is spent): as at its deadline, at once and wholly."""

    @property
    def timeout_s(self) -> float | None:
        """The timeout as `process.Limits` takes it: in seconds, None for none."""
        return self.timeout / 1000 if self.timeout else None


@dataclass(frozen=True, kw_only=True)
class AgentExecutionResult:
    """What happened. `output` is stdout and stderr as they came, bounded and with secrets removed."""

    exit_code: int
    """The process's own; 128 + N when signal N ended it; -1 after a timeout."""
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
    """The session as it was followed while the agent ran. `output` may show less of it: it is cut at 10 MiB."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What ran, and what else the adapter knows of the run."""

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
        """True if the agent can be run, False if it is not installed; raises if it is not authenticated."""
        ...

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        """Run the agent to its end. Whatever it does is a result; only what prevents a start is an exception."""
        ...

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        """The result in the form that is the same for all agents. Pure."""
        ...


@runtime_checkable
class ChecksConfig(Protocol):
    """An adapter that can say what is wrong with its configuration before anything is cloned or run."""

    def check_config(self, config: Mapping[str, Any], config_dir: Path | None) -> Sequence[Problem]:
        """Every problem at once; paths are relative to `agent.config`."""
        ...


@runtime_checkable
class ChecksReadiness(Protocol):
    """An adapter that can tell, for one test case, that its agent is installed and may talk to a model."""

    async def check_ready(self, config: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Raises a YouBenchaError that says what to do. `env` is what the test case gives the agent."""
        ...


@runtime_checkable
class UsesHarnessEnvironment(Protocol):
    """An adapter that takes variables from the harness's environment, and masks the secrets in it."""

    harness_env: Mapping[str, str]


@runtime_checkable
class UsesGateway(Protocol):
    """An adapter whose agent can be made to reach its model through a gateway, and only there."""

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Provider | None:
        """Whose API this agent will speak; None where that is not known. `env` is the test case's."""
        ...

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        """What points the agent at the gateway. `execute` puts it in place of every credential, by itself."""
        ...

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        """Names in `env` that say where this agent's model is or prove who asks: a test case that sets one of
        these decides how the agent reaches its model."""
        ...


@runtime_checkable
class StoresLogin(Protocol):
    """An adapter whose agent may be logged in for good, in the person's home, rather than by its environment."""

    def stored_login(self, env: Mapping[str, str]) -> bool:
        """Whether there may be such a login. `env` is the environment of the person whose home it is."""
        ...


def needs_model(adapter: AgentAdapter) -> bool:
    """Whether its agent can do nothing without one. A program of somebody's own may well: its adapter then says so."""
    return bool(getattr(adapter, "needs_model", True))
