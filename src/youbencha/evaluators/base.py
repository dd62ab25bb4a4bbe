"""The contract between a trial and its evaluators, and what evaluators share. An evaluator keeps no state."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ValidationError

from youbencha.errors import ConfigError, Problem
from youbencha.events import EventSink
from youbencha.gateway.api import GatewayAccess
from youbencha.process import Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.spec import AgentSpec, problems_of
from youbencha.workspace import Changes

if TYPE_CHECKING:
    from youbencha.log import Artifact, AssertionResult, EvaluationResult, EvaluationStatus, Usage, YouBenchaLog


Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")

Contradictions = Callable[[Model], Iterable[Problem]]
"""Problems between fields that are each valid. A validator of the model could report only the first."""

CheckCancelled = Callable[[], None]
"""Called now and then by work in a thread; raises when its result is no longer wanted."""


class EvaluatorSandbox(NamedTuple):
    """Where an evaluator runs what an agent wrote, or a judge that reads it."""

    sandbox: Sandbox
    gateway: GatewayAccess | None = None
    """As it is reached from inside."""


class SandboxFactory(Protocol):
    def __call__(
        self, tree: Path, gateway: GatewayAccess | None = None
    ) -> AbstractAsyncContextManager[EvaluatorSandbox]:
        """A new sandbox with that directory as its workspace. It reaches the gateway, if one is given, or nothing."""
        ...


@dataclass(frozen=True, kw_only=True)
class EvaluationContext:
    """What an evaluator works with. Nothing in `directory` or `expected_dir` may be written to.

    The context that all evaluators of a trial share has no name and no configuration, and its `artifacts_dir` and
    `scratch_dir` are the trial's: `trial.evaluation.evaluate_all` makes each evaluator its own from it.
    """

    name: str = ""
    """As the person wrote it: two judges are `agentic-judge-docs` and `agentic-judge:tests`."""
    config: Mapping[str, Any] = field(default_factory=dict)
    directory: Path
    """The tree as the agent left it."""
    artifacts_dir: Path
    """This evaluator's own, and it exists. Put the paths of what you leave there into the result."""
    config_dir: Path
    """Where the file lies that holds `config`; relative paths start there."""
    changes: Changes | None
    """What the agent changed. None if there is no start to compare with (`yb eval` outside of git)."""
    expected_dir: Path | None = None
    left_out: tuple[Path, ...] = ()
    """Directories in `directory` that are not part of the work: the results of `yb eval`."""
    log: YouBenchaLog | None = None
    """None in `yb eval`."""
    agent: AgentSpec | None = None
    """The agent that did the work: what a judge is, too, unless its configuration says otherwise."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The environment of the test case's agent, references resolved (for a judge)."""
    harness_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment that youBencha runs in."""
    redactor: Redactor = field(default_factory=Redactor, repr=False)
    """Knows the secrets of the trial."""
    gateway: GatewayAccess | None = None
    """Access to a model with a key of this evaluator's own (for a judge), which then gets no other credentials."""
    scratch_dir: Path
    """Exists, is empty, is removed afterwards: for a copy of the tree that may be written to."""
    agent_scratch_dir: Path | None = None
    """For what an adapter lays beside the tree (of a judge): found again even after a kill. None: where temporary
    files go."""
    open_sandbox: SandboxFactory | None = None
    """Where the agent ran in a container, what runs its code, or reads it with tools, does so in one too."""
    on_event: EventSink | None = None


@runtime_checkable
class UsesModel(Protocol):
    """An evaluator that asks a model, or lets an agent do so."""

    def bypasses_gateway(
        self, config: Mapping[str, Any], config_dir: Path, agent: AgentSpec | None, env: Mapping[str, str]
    ) -> str | None:
        """The agent that would reach a model without the gateway, or None. `env` is that of the test case's agent.

        The configuration has been checked before."""
        ...


@runtime_checkable
class ReadsEnvironment(Protocol):
    """An evaluator whose configuration may refer to variables of the environment that youBencha runs in."""

    def check_environment(self, config: Mapping[str, Any], env: Mapping[str, str]) -> Sequence[Problem]:
        """References to variables that are not set. Paths are relative to `config`, which need not be valid."""
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


def config_problems(
    model: type[Model], config: Mapping[str, Any], contradictions: Contradictions[Model] | None = None
) -> list[Problem]:
    """Everything that is wrong, for `check_config`."""
    try:
        read = model.model_validate(dict(config))
    except ValidationError as error:
        return problems_of(error, model)
    return list(contradictions(read)) if contradictions else []


def read_config(
    model: type[Model],
    config: Mapping[str, Any],
    evaluator: str,
    contradictions: Contradictions[Model] | None = None,
) -> Model:
    """The configuration, or one error with every problem: `evaluate` may be called without `check_config`."""
    problems = config_problems(model, config, contradictions)
    if problems:
        raise ConfigError("EVALUATOR_CONFIG_INVALID", f"The configuration of {evaluator}", problems)
    return model.model_validate(dict(config))


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
    """The result of an evaluator that began at `started`, a value of `time.monotonic()`."""
    from youbencha.log import EvaluationResult, iso_time

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
    """The trial's directory of artifacts; an evaluator's own is `evaluators/NAME` in it."""
    return context.artifacts_dir.parent.parent


def artifact(context: EvaluationContext, kind: str, path: Path, description: str) -> Artifact:
    """A file for a result, where every path is relative to the trial's directory of artifacts."""
    from youbencha.log import Artifact

    relative = os.path.relpath(path, artifacts_root(context))
    return Artifact(type=kind, path=Path(relative).as_posix(), description=description)


def printable(path: str) -> str:
    """A path for a result. Bytes that are not UTF-8 are shown as `\\xff`, since JSON cannot hold them."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def counted(number: int, thing: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def limit_results(limits: Mapping[str, float], metrics: Mapping[str, Any]) -> Iterator[AssertionResult]:
    """Hold `min_NAME` and `max_NAME` against metrics. An unknown metric passes neither."""
    from youbencha.log import AssertionResult

    for name, limit in limits.items():
        end, _, metric = name.partition("_")
        actual = metrics.get(metric)
        passed = actual is not None and (actual >= limit if end == "min" else actual <= limit)
        message = "" if passed else f"{metric} {_wrong(end, actual, limit)}"
        yield AssertionResult(name=name, passed=passed, expected=limit, actual=actual, message=message)


def _wrong(end: str, actual: float | None, limit: float) -> str:
    if actual is None:
        return "is not known"
    return f"is {_number(actual)}, {'less' if end == 'min' else 'more'} than {_number(limit)}"


def _number(value: float) -> str:
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < 1e15)
    return f"{int(value):,}" if whole else f"{value:.4g}"


class _Cancelled(Exception):
    pass


async def in_thread(work: Callable[[CheckCancelled], Result]) -> Result:
    """Run long work in a thread. If this call is cancelled, it returns when the work has ended: its files are free."""
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
            working.exception()  # retrieved, so that asyncio does not report it
        raise
