"""The contract between a trial and its evaluators, and what evaluators share. An evaluator keeps no state."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ValidationError

from youbencha.errors import ConfigError, Problem
from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.log.model import Usage, YouBenchaLog
from youbencha.process import Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.spec import list_problems
from youbencha.spec.testcase import AgentSpec
from youbencha.store.bundle import Artifact, AssertionResult, EvaluationResult, EvaluationStatus
from youbencha.text import iso_time
from youbencha.workspace import Changes, Repository

Result = TypeVar("Result")

VALIDATION = "validation"
"""The evaluator that scores a trial of the arena, and can validate its patch again."""

VALIDATION_BROKEN = "VALIDATION_BROKEN"
"""The code of its error if no result on a task can be validated, however often it is tried."""

CheckCancelled = Callable[[], None]
"""Called repeatedly by work in a thread; raises when its result is no longer needed."""


class EvaluatorSandbox(NamedTuple):
    """An open sandbox for an evaluator that runs the agent's code, or for a judge that reads it."""

    sandbox: Sandbox
    gateway: GatewayAccess | None = None
    """With the address inside the sandbox."""


class AgentSandbox(NamedTuple):
    """The sandbox in which the agent ran. By default, the host."""

    image: str | None = None
    workspace: str = ""
    """The path of the agent's workspace in it."""
    has_network: bool = True
    home: Path | None = None
    """Its fresh home, if it ran on the host and had one."""


class SandboxOptions(NamedTuple):
    """How an evaluator's sandbox differs from the agent's."""

    image: str | None = None
    network: Literal["none", "open"] | None = None
    """None: open if the agent's was, otherwise closed."""
    agent_state: bool = False
    """Use the agent's home and temporary directory, and the image as the agent left it."""


class SandboxFactory(Protocol):
    def __call__(
        self, tree: Path, gateway: GatewayAccess | None = None, options: SandboxOptions = ...
    ) -> AbstractAsyncContextManager[EvaluatorSandbox]:
        """Open a sandbox with `tree` as its workspace. Unless its network is open, it reaches only `gateway`."""
        ...


class SharedResults:
    """Results that evaluators of all trials in a process share, each computed once: the baseline of a task."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, asyncio.Lock] = {}

    async def once(self, key: Hashable, compute: Callable[[], Awaitable[Result]]) -> Result:
        """Compute a result, or wait until another trial has. An exception is not kept: the next one tries again."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key not in self._results:
                self._results[key] = await compute()
        result: Result = self._results[key]
        return result


@dataclass(frozen=True, kw_only=True)
class EvaluationContext:
    """The input of an evaluator. Nothing in `directory` or `expected_dir` may be written to.

    The context that all evaluators of a trial share has no name and no configuration, and its `artifacts_dir` and
    `scratch_dir` are the trial's: `trial.evaluation.evaluate_all` derives one from it for each evaluator.
    """

    name: str = ""
    """As configured: two judges are `agentic-judge-docs` and `agentic-judge:tests`."""
    config: Mapping[str, Any] = field(default_factory=dict)
    directory: Path
    """The tree as the agent left it."""
    artifacts_dir: Path
    """An existing directory for this evaluator's files. List them in the result."""
    config_dir: Path
    """The directory of the file with `config`; relative paths start there."""
    changes: Changes | None
    """The agent's changes. None if there is nothing to compare with (`yb eval` outside of git)."""
    repository: Repository | None = None
    """The repository that the agent started from, for a clean checkout. None in `yb eval`."""
    expected_dir: Path | None = None
    untouched: bool = False
    """Nothing may change `directory`, not even a program that may otherwise run in place: in `yb eval`, where the user
    may work in it."""
    left_out: tuple[Path, ...] = ()
    """Paths in `directory` to ignore: youBencha's own (the results of `yb eval`, the files of a loop)."""
    log: YouBenchaLog | None = None
    """None in `yb eval`."""
    agent: AgentSpec | None = None
    """The agent that did the work, which is also the default for a judge."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The environment of the test case's agent, references resolved (for a judge)."""
    harness_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment that youBencha runs in."""
    shell_env: Mapping[str, str] | None = field(default=None, repr=False)
    """The variables that programs on this computer inherit, for the gates of a loop. None: a short list, no secrets."""
    redactor: Redactor = field(default_factory=Redactor, repr=False)
    """Knows the secrets of the trial."""
    gateway: GatewayAccess | None = None
    """Access to a model with this evaluator's own key (for a judge): it then gets no other credentials."""
    scratch_dir: Path
    """An empty directory that is removed afterwards: for a copy of the tree that may be written to."""
    agent_scratch_dir: Path | None = None
    """For an adapter's files outside of the tree (of a judge): removed even after a kill. None: the system's
    temporary directory."""
    open_sandbox: SandboxFactory | None = None
    """Set if the agent ran in a container: an evaluator that runs or reads its code must then use one."""
    agent_sandbox: AgentSandbox = AgentSandbox()  # noqa: RUF009 - immutable
    shared: SharedResults = field(default_factory=SharedResults, repr=False)


@runtime_checkable
class Evaluator(Protocol):
    """Evaluates the result of an agent's work. Derive from `EvaluatorBase` to do more than that."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """One sentence, for `yb list`."""
        ...

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, *, agent_type: str | None = None
    ) -> Sequence[Problem]:
        """Return all problems of a configuration, before anything runs. Paths are relative to `config`.

        `agent_type` is the test case's agent, which is also the default for a judge. None: there is none.
        """
        ...

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        """Evaluate. An exception becomes a skipped result with that error."""
        ...


Config = TypeVar("Config", bound=BaseModel)


class EvaluatorBase(Generic[Config]):
    """An evaluator whose configuration is a model. What only some evaluators do has a default here."""

    name: str
    description: str
    config_model: type[Config]

    time_limit_s: float | None = 600.0
    """The limit for `evaluate`. None: the evaluator limits each of its programs or votes itself."""
    takes_label: bool = False
    """A test case often has several of this kind, with a label after a hyphen: `agentic-judge-docs`."""
    needs_expected: bool = False
    """It compares with the expected result, so the test case must name one."""
    uses_model: bool = False
    """It calls a model, itself or through an agent."""
    checks_task: bool = False
    """`check_task` can tell whether a task can be judged at all."""

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, *, agent_type: str | None = None
    ) -> Sequence[Problem]:
        """Return all problems of a configuration, before anything runs. Paths are relative to `config`."""
        try:
            valid = self.config_model.model_validate(dict(config))
        except ValidationError as error:
            return list_problems(error, self.config_model, config)
        return list(self.contradictions(valid))

    def contradictions(self, config: Config) -> Iterable[Problem]:
        """Return problems between fields that are each valid. A validator of the model could report only the first."""
        return ()

    def check_environment(self, config: Mapping[str, Any], env: Mapping[str, str]) -> Sequence[Problem]:
        """Return references to variables of youBencha's environment that are not set. `config` need not be valid."""
        return ()

    def read_config(self, context: EvaluationContext) -> Config:
        """Validate the configuration; raise one error with all problems. `check_config` may not have been called."""
        problems = [
            *self.check_config(context.config, context.config_dir),
            *self.check_environment(context.config, context.harness_env),
        ]
        if problems:
            raise ConfigError("EVALUATOR_CONFIG_INVALID", f"The configuration of {context.name}", problems)
        return self.config_model.model_validate(dict(context.config))

    def is_advisory(self, config: Mapping[str, Any]) -> bool:
        """Whether the verdict is reported, but decides nothing."""
        return False

    def uses_agent_state(self, config: Mapping[str, Any]) -> bool:
        """Whether it runs with the agent's home and temporary directory, which must then be kept."""
        return False

    def bypasses_gateway(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> str | None:
        """Return the agent that would reach a model directly although there is a gateway, or None.

        The configuration has been checked before. `env` is the environment of the test case's agent.
        """
        return None

    def requested_model(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> tuple[Provider, str] | None:
        """Return the provider and the name of the model that it will request through a gateway; None if unknown."""
        return None

    async def check_task(self, context: EvaluationContext) -> None:
        """Raise YouBenchaError if no work on this task can be judged. `context` has no changes and no log."""

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        """Evaluate. An exception becomes a skipped result with that error."""
        raise NotImplementedError


def evaluation_result(
    context: EvaluationContext,
    started: float,
    status: EvaluationStatus,
    message: str,
    *,
    metrics: Mapping[str, Any] | None = None,
    assertions: Sequence[AssertionResult] = (),
    artifacts: Sequence[Artifact] = (),
    usage: Usage | None = None,
) -> EvaluationResult:
    """Make the result of an evaluator that started at `started`, a value of `time.monotonic()`."""
    return EvaluationResult(
        evaluator=context.name,
        status=status,
        message=message,
        metrics=dict(metrics or {}),
        duration_ms=round((time.monotonic() - started) * 1000),
        timestamp=iso_time(time.time()),
        assertions=tuple(assertions),
        artifacts=tuple(artifacts),
        usage=usage,
    )


def artifacts_root(context: EvaluationContext) -> Path:
    """Return the trial's artifacts directory; an evaluator's is `evaluators/NAME` in it."""
    return context.artifacts_dir.parent.parent


def artifact(context: EvaluationContext, kind: str, path: Path, description: str) -> Artifact:
    """Describe an artifact in a result, with its path relative to the trial's artifacts directory."""
    relative = os.path.relpath(path, artifacts_root(context))
    return Artifact(type=kind, path=Path(relative).as_posix(), description=description)


def printable(path: str) -> str:
    """Return a path for a result. Bytes that are not UTF-8, which JSON cannot contain, become `\\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def limit_results(limits: Mapping[str, float], metrics: Mapping[str, Any]) -> Iterator[AssertionResult]:
    """Check metrics against `min_NAME` and `max_NAME`. An unknown metric fails both."""
    for name, limit in limits.items():
        bound, _, metric = name.partition("_")
        actual = metrics.get(metric)
        passed = actual is not None and (actual >= limit if bound == "min" else actual <= limit)
        message = "" if passed else f"{metric} {_violation(bound, actual, limit)}"
        yield AssertionResult(name=name, passed=passed, expected=limit, actual=actual, message=message)


def _violation(bound: str, actual: float | None, limit: float) -> str:
    if actual is None:
        return "is unknown"
    return f"is {_number(actual)}, {'less' if bound == 'min' else 'more'} than {_number(limit)}"


def _number(value: float) -> str:
    is_whole = isinstance(value, int) or (value.is_integer() and abs(value) < 1e15)
    return f"{int(value):,}" if is_whole else f"{value:.4g}"


class _Cancelled(Exception):
    pass


async def in_thread(work: Callable[[CheckCancelled], Result]) -> Result:
    """Run long work in a thread. If this is cancelled, it waits for the work to end, so that its files are free."""
    cancelled = threading.Event()

    def check_cancelled() -> None:
        if cancelled.is_set():
            raise _Cancelled

    working = asyncio.ensure_future(asyncio.to_thread(work, check_cancelled))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait({working})
        if not working.cancelled():
            working.exception()  # retrieve it, so that asyncio does not report it
        raise
