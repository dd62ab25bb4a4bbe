"""The contract between a run and whoever judges it. An evaluator keeps no state between calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from youbencha.errors import Problem
from youbencha.events import EventSink
from youbencha.gateway.access import GatewayAccess
from youbencha.sandbox.base import Sandbox
from youbencha.spec import AgentSpec
from youbencha.workspace import Changes

if TYPE_CHECKING:
    from youbencha.log import EvaluationResult, YouBenchaLog


class Place(NamedTuple):
    """Where something runs that an agent wrote, or that looks at it."""

    sandbox: Sandbox
    gateway: GatewayAccess | None = None
    """As it is reached from in there."""


class OpensSandbox(Protocol):
    def __call__(self, tree: Path, gateway: GatewayAccess | None = None) -> AbstractAsyncContextManager[Place]:
        """A new sandbox with that directory as its workspace. It reaches the gateway, if one is given, or nothing."""
        ...


@dataclass(frozen=True, kw_only=True)
class EvaluationContext:
    """All that an evaluator is told. Nothing in `directory` or `expected_dir` may be written to."""

    name: str
    """As the person wrote it: two judges are `agentic-judge-docs` and `agentic-judge:tests`."""
    config: Mapping[str, Any]
    directory: Path
    """The tree as the agent left it; nobody writes to it any more."""
    artifacts_dir: Path
    """This evaluator's own, and it exists. Put the paths of what you leave there into the result."""
    config_dir: Path
    """Where the file lies that holds `config`; relative paths start there."""
    changes: Changes | None
    """What the agent changed. None if there is no beginning to compare with (`yb eval` outside of git)."""
    expected_dir: Path | None = None
    left_out: tuple[Path, ...] = ()
    """What lies in `directory` and is ours (the results of `yb eval`): nobody's work, and not to be looked at."""
    log: YouBenchaLog | None = None
    """None in `yb eval`."""
    agent: AgentSpec | None = None
    """The agent that did the work: what a judge is, too, unless its configuration says otherwise."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The environment of the test case's agent, references resolved (for a judge)."""
    gateway: GatewayAccess | None = None
    """The only way to a model, with a key of this evaluator's own (for a judge): it then gets no other credentials."""
    scratch_dir: Path
    """Exists, is empty, is removed afterwards: for a copy of the tree that may be written to."""
    agent_scratch_dir: Path | None = None
    """For what an adapter lays beside the tree (of a judge): found again even after a kill. None: where temporary
    files go."""
    open_sandbox: OpensSandbox | None = None
    """Where the agent ran in a container, what runs its code, or reads it with tools, does so in one too."""
    on_event: EventSink | None = None


@runtime_checkable
class AsksModel(Protocol):
    """An evaluator that asks a model, or lets an agent do so."""

    def goes_around_gateway(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> str | None:
        """Who would reach a model by itself although there is a gateway; None: nobody. `env` is the agent's.

        The configuration has been checked before."""
        ...


@runtime_checkable
class Evaluator(Protocol):
    """Looks at what an agent left behind."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """One sentence, for `yb list`."""
        ...

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, *, agent_type: str | None = None
    ) -> Sequence[Problem]:
        """What is wrong with a configuration, all of it, before anything runs. Paths are relative to `config`.

        `agent_type` is the test case's agent, which a judge is, too, unless it says otherwise. None: there is none.
        """
        ...

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        """The verdict. What prevents one is an exception: it becomes a skipped result with that error."""
        ...
