"""All evaluators of a run, side by side. One that fails disturbs no other, and is not taken for a verdict."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators import EvaluationContext, get_evaluator
from youbencha.evaluators.base import SandboxFactory
from youbencha.events import EvaluatorFinished, EventSink, PhaseStarted
from youbencha.log import EvaluationError, EvaluationResult, TestCaseInfo, YouBenchaLog, iso_time
from youbencha.process import Redactor
from youbencha.spec import AgentSpec, EvalConfig, Loaded, NamedEvaluator, load_eval_config
from youbencha.spec.settings import LoadedSettings
from youbencha.trial.checks import check_parts
from youbencha.trial.results import DIFF_FILE, ResultFiles, RunRecord, TrialResult
from youbencha.workspace import Changes, RunDirectory
from youbencha.workspace.working_tree import changes_in_repository

if TYPE_CHECKING:
    from youbencha.gateway.api import GatewayAccess
    from youbencha.trial.gateway_session import TrialGateway


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
    gateway_session: TrialGateway | None = None
    """To a model, for evaluators that ask one."""
    open_sandbox: SandboxFactory | None = None
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
    if evidence.gateway_session is None:
        return await found.evaluate(_context(evaluator, evidence, directory_name))
    async with evidence.gateway_session.key_for(directory_name) as access:
        result = await found.evaluate(_context(evaluator, evidence, directory_name, access.access))
    return result if access.usage is None else result.model_copy(update={"usage": access.usage})


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


# `yb eval`: judge a directory as it is. No agent is run, and nothing in the directory is touched.


class EvalPlan(NamedTuple):
    loaded: Loaded[EvalConfig]
    directory: Path
    expected_dir: Path | None
    output_dir: Path
    cache_dir: Path | None
    max_concurrent: int


def make_eval_plan(file: Path, settings: LoadedSettings, *, variables: Mapping[str, Any] | None = None) -> EvalPlan:
    """Read and check an eval configuration. Whatever is wrong is one ConfigError."""
    known = {**settings.settings.variables, **(variables or {})}
    loaded = load_eval_config(file, known, check=check_parts)
    problems: list[Problem] = []
    case = loaded.case

    def existing(key: str, written: str | None) -> Path | None:
        if written is None:
            return None
        path = loaded.directory / Path(written).expanduser()
        if not path.is_dir():
            problems.append(loaded.document.problem((key,), f"there is no directory {path}"))
        return path

    directory = existing("directory", case.directory)
    expected = existing("expected_directory", case.expected_directory)
    if problems or directory is None:
        raise loaded.document.error(problems)
    output = case.output_dir and loaded.directory / Path(case.output_dir).expanduser()
    return EvalPlan(
        loaded=loaded,
        directory=directory,
        expected_dir=expected,
        output_dir=output or settings.output_dir,
        cache_dir=settings.cache_dir,
        max_concurrent=settings.settings.evaluators.max_concurrent,
    )


async def evaluate_directory(plan: EvalPlan, *, on_event: EventSink) -> TrialResult:
    with RunDirectory.create(plan.output_dir, "eval", cache_dir=plan.cache_dir) as place:
        record = _record(plan, place)
        files = ResultFiles(place.artifacts, record, Redactor.for_env(os.environ))

        def finished(at: int, result: EvaluationResult) -> None:
            record.evaluators[at] = result
            on_event(EvaluatorFinished(evaluator=result.evaluator, status=result.status, message=result.message))

        on_event(PhaseStarted(phase="evaluation", detail=str(plan.directory)))
        try:
            changes = await changes_in_repository(
                plan.directory, place.private / "start.git", place.artifacts / DIFF_FILE
            )
            if changes is not None:
                record.files.add(DIFF_FILE)
            evidence = Evidence(
                directory=plan.directory,
                expected_dir=plan.expected_dir,
                changes=changes,
                log=None,
                agent=None,
                env={},
                artifacts_dir=place.artifacts,
                scratch_dir=place.private / "scratch",
                agent_scratch_dir=place.scratch,
                left_out=(plan.output_dir.resolve(), place.path.resolve()),
            )
            await evaluate_all(plan.loaded.evaluators, evidence, at_once=plan.max_concurrent, finished=finished)
        except BaseException:
            files.save_results(complete=False, interrupted=True)
            raise
        record.phases_ms["evaluation"] = round((time.time() - record.started_at) * 1000)
        bundle = await files.conclude(
            plan.loaded.case.post_evaluation,
            judged=plan.directory,
            config_dir=plan.loaded.directory,
            on_event=on_event,
        )
        place.delete_sources()  # nothing of the judged directory is in here
        return TrialResult(bundle, place)


def _record(plan: EvalPlan, place: RunDirectory) -> RunRecord:
    case = plan.loaded.case
    return RunRecord(
        run_id=place.path.name,
        workspace_dir=place.path,
        test_case=TestCaseInfo(
            name=plan.loaded.name,
            description=case.description,
            config_file=str(plan.loaded.file),
            config_hash=plan.loaded.config_hash,
            directory=str(plan.directory),
            expected_directory=str(plan.expected_dir) if plan.expected_dir else None,
        ),
        expected_evaluators=len(plan.loaded.evaluators),
        started_at=time.time(),
    )
