"""All evaluators of a run, side by side. One that fails disturbs no other, and is not taken for a verdict."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.evaluators import EvaluationContext, get_evaluator
from youbencha.evaluators.base import OpensSandbox
from youbencha.log import EvaluationError, EvaluationResult, YouBenchaLog, iso_time
from youbencha.spec import AgentSpec, NamedEvaluator
from youbencha.workspace import Changes

if TYPE_CHECKING:
    from youbencha.gateway.access import GatewayAccess
    from youbencha.trial.gateway.way import WayToModel

Finished = Callable[[int, EvaluationResult], None]


class Evidence(NamedTuple):
    """What all evaluators of a run look at."""

    directory: Path
    expected_dir: Path | None
    changes: Changes | None
    log: YouBenchaLog | None
    agent: AgentSpec | None
    env: dict[str, str]
    artifacts_dir: Path
    scratch_dir: Path
    agent_scratch_dir: Path
    """For adapters of judges."""
    left_out: tuple[Path, ...] = ()
    way: WayToModel | None = None
    """To a model, for evaluators that ask one."""
    open_sandbox: OpensSandbox | None = None
    """For evaluators that run what the agent wrote."""


async def evaluate_all(
    evaluators: Sequence[NamedEvaluator], evidence: Evidence, *, at_once: int, finished: Finished
) -> None:
    """Run them, at most `at_once` at a time. `finished` is told each result as soon as there is one."""
    free = asyncio.Semaphore(at_once)
    names = unique_names([evaluator.name for evaluator in evaluators])

    async def one(place: int) -> None:
        async with free:
            finished(place, await _evaluate(evaluators[place], evidence, names[place]))

    async with asyncio.TaskGroup() as group:
        for place in range(len(evaluators)):
            group.create_task(one(place))


def unique_names(names: Sequence[str]) -> list[str]:
    """A directory's name for each, also where two evaluators have the same name."""
    taken: set[str] = set()
    unique = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._-]", "-", name).strip(".") or "evaluator"
        number, candidate = 1, plain
        while candidate.lower() in taken:
            number += 1
            candidate = f"{plain}-{number}"
        taken.add(candidate.lower())
        unique.append(candidate)
    return unique


async def _evaluate(evaluator: NamedEvaluator, evidence: Evidence, directory_name: str) -> EvaluationResult:
    started = time.time()
    try:
        result = await _judge(evaluator, evidence, directory_name)
    except Exception as error:  # noqa: BLE001 (whatever a verifier does wrong, it is no verdict on the agent)
        return _not_judged(evaluator.name, error, started)
    finally:
        _remove_if_empty(evidence.artifacts_dir / "evaluators" / directory_name)
    return result


async def _judge(evaluator: NamedEvaluator, evidence: Evidence, directory_name: str) -> EvaluationResult:
    """Whoever asks a model does so through the gateway, if there is one, and has a key of its own."""
    found = get_evaluator(evaluator.name)
    if evidence.way is None:
        return await found.evaluate(_context(evaluator, evidence, directory_name))
    async with evidence.way.open_for(directory_name) as seat:
        result = await found.evaluate(_context(evaluator, evidence, directory_name, seat.access))
    return result if seat.usage is None else result.model_copy(update={"usage": seat.usage})


def _context(
    evaluator: NamedEvaluator, evidence: Evidence, directory_name: str, access: GatewayAccess | None = None
) -> EvaluationContext:
    artifacts = evidence.artifacts_dir / "evaluators" / directory_name
    scratch = evidence.scratch_dir / directory_name
    for directory in (artifacts, scratch):
        directory.mkdir(parents=True, exist_ok=True)
    return EvaluationContext(
        name=evaluator.name,
        config=evaluator.config,
        directory=evidence.directory,
        artifacts_dir=artifacts,
        config_dir=evaluator.config_dir,
        changes=evidence.changes,
        expected_dir=evidence.expected_dir,
        log=evidence.log,
        agent=evidence.agent,
        env=evidence.env,
        scratch_dir=scratch,
        agent_scratch_dir=evidence.agent_scratch_dir,
        left_out=evidence.left_out,
        gateway=access,
        open_sandbox=evidence.open_sandbox,
    )


def _not_judged(name: str, error: Exception, started: float) -> EvaluationResult:
    if isinstance(error, YouBenchaError):
        told = EvaluationError(message=error.message, code=error.code, hint=error.hint)
    else:
        import traceback

        trace = "".join(traceback.format_exception(error))
        told = EvaluationError(message=f"{type(error).__name__}: {error}", code="EVALUATOR_FAILED", stack_trace=trace)
    return EvaluationResult(
        evaluator=name,
        status="skipped",
        message=f"could not be judged: {told.message}",
        duration_ms=round((time.time() - started) * 1000),
        timestamp=iso_time(started),
        error=told,
        **_spent(error),
    )


def _spent(error: Exception) -> dict[str, Any]:
    """What a verifier left and used up before it failed: a judge's tokens are paid for all the same."""
    context = error.context if isinstance(error, YouBenchaError) else {}
    return {name: context[name] for name in ("usage", "artifacts") if name in context}


def _remove_if_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        return
