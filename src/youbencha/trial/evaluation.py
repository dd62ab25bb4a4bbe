"""Run evaluators concurrently: after an agent, or on an existing directory (`yb eval`)."""

from __future__ import annotations

import asyncio
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators import EvaluationContext, get_evaluator
from youbencha.events import EvaluatorFinished, EventSink, PhaseStarted
from youbencha.process import Redactor
from youbencha.spec.loader import LoadedCase, NamedEvaluator, load_eval_config
from youbencha.spec.testcase import EvalConfig
from youbencha.store.bundle import EvaluationError, EvaluationResult, Outcome, TestCaseInfo
from youbencha.store.layout import DIFF_FILE
from youbencha.text import iso_time
from youbencha.trial.checks import check_parts
from youbencha.trial.context import Host
from youbencha.trial.results import TrialRecord, TrialResult
from youbencha.workspace import RunDirectory
from youbencha.workspace.working_tree import uncommitted_changes

if TYPE_CHECKING:
    from youbencha.trial.gateway_session import TrialGateway


EVALUATORS = "evaluators"
"""The directory with the evaluators' files, in a trial's artifacts."""

OnResult = Callable[[int, EvaluationResult], None]
"""Called with the index of an evaluator in the list, and its result."""


async def evaluate_all(
    evaluators: Sequence[NamedEvaluator],
    context: EvaluationContext,
    *,
    gateway: TrialGateway | None = None,
    max_concurrent: int = 4,
    on_result: OnResult = lambda _index, _result: None,
) -> list[EvaluationResult]:
    """Run evaluators, at most `max_concurrent` at a time. The results are in the order of the evaluators.

    `context` is what they share. `gateway` gives each a separate key. `on_result` gets each result as soon as it is
    known. An evaluator that fails does not affect the others; its failure is a skipped result, not a verdict.
    """
    limit = asyncio.Semaphore(max_concurrent)
    names = unique_names([evaluator.name for evaluator in evaluators])

    async def one(index: int) -> EvaluationResult:
        async with limit:
            result = await _evaluate(evaluators[index], context, names[index], gateway)
            on_result(index, result)
            return result

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(index)) for index in range(len(evaluators))]
    return [task.result() for task in tasks]


def skipped_results(evaluators: Sequence[NamedEvaluator], outcome: Outcome) -> list[EvaluationResult]:
    """Return results without a verdict, for an agent that was not measured: an untouched tree may pass some checks."""
    return [
        EvaluationResult(
            evaluator=evaluator.name,
            status="skipped",
            message=f"not judged, because of the {outcome.name.replace('_', ' ')}",
            duration_ms=0,
            timestamp=iso_time(time.time()),
            advisory=_is_advisory(evaluator),
        )
        for evaluator in evaluators
    ]


async def check_task(evaluators: Sequence[NamedEvaluator], context: EvaluationContext) -> None:
    """Let evaluators check, before an agent works on the task, that it can be judged. Raises YouBenchaError."""
    for evaluator, name in zip(evaluators, unique_names([evaluator.name for evaluator in evaluators]), strict=True):
        checker = get_evaluator(evaluator.name)
        if checker.checks_task:
            own = _own_context(evaluator, context, name)
            _make_directories(own)
            await checker.check_task(own)


def can_check_task(evaluators: Sequence[NamedEvaluator]) -> bool:
    return any(get_evaluator(evaluator.name).checks_task for evaluator in evaluators)


def unique_names(names: Sequence[str]) -> list[str]:
    """A directory name for each evaluator, unique even if two have the same name."""
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


async def _evaluate(
    evaluator: NamedEvaluator, shared: EvaluationContext, directory_name: str, gateway: TrialGateway | None
) -> EvaluationResult:
    started = time.time()
    context = _own_context(evaluator, shared, directory_name)
    try:
        _make_directories(context)
        result = await _judge(context, directory_name, gateway)
    except Exception as error:  # noqa: BLE001 (an evaluator's bug is not a verdict on the agent)
        result = _skipped(evaluator.name, error, started)
    finally:
        with suppress(OSError):  # it is not empty
            context.artifacts_dir.rmdir()
    return result.model_copy(update={"advisory": True}) if _is_advisory(evaluator) else result


def _own_context(evaluator: NamedEvaluator, shared: EvaluationContext, directory_name: str) -> EvaluationContext:
    return replace(
        shared,
        name=evaluator.name,
        config=evaluator.config,
        config_dir=evaluator.config_dir,
        artifacts_dir=shared.artifacts_dir / EVALUATORS / directory_name,
        scratch_dir=shared.scratch_dir / directory_name,
    )


def _make_directories(context: EvaluationContext) -> None:
    for directory in (context.artifacts_dir, context.scratch_dir):
        directory.mkdir(parents=True, exist_ok=True)


def _is_advisory(evaluator: NamedEvaluator) -> bool:
    with suppress(YouBenchaError):  # it cannot be loaded
        return get_evaluator(evaluator.name).is_advisory(evaluator.config)
    return False


async def _judge(context: EvaluationContext, key_name: str, gateway: TrialGateway | None) -> EvaluationResult:
    """Evaluate with a separate key for the gateway, if there is one."""
    if gateway is None:
        return await _bounded(context)
    async with gateway.key_for(key_name) as key:
        result = await _bounded(replace(context, gateway=key.access))
    return result if key.usage is None else result.model_copy(update={"usage": key.usage})


async def _bounded(context: EvaluationContext) -> EvaluationResult:
    """Evaluate, within the evaluator's time limit."""
    evaluator = get_evaluator(context.name)
    try:
        async with asyncio.timeout(evaluator.time_limit_s) as limit:
            return await evaluator.evaluate(context)
    except TimeoutError as error:
        if not limit.expired():
            raise
        message = f"The evaluator did not finish within {evaluator.time_limit_s:g} s."
        raise YouBenchaError("EVALUATOR_TIMEOUT", message) from error


def _skipped(name: str, error: Exception, started: float) -> EvaluationResult:
    context: Mapping[str, Any] = {}
    if isinstance(error, YouBenchaError):
        context = error.context
        record = EvaluationError(message=error.message, code=error.code, hint=error.hint)
    else:
        trace = "".join(traceback.format_exception(error))
        record = EvaluationError(message=f"{type(error).__name__}: {error}", code="EVALUATOR_FAILED", stack_trace=trace)
    return EvaluationResult(
        evaluator=name,
        status="skipped",
        message=f"evaluation failed: {record.message}",
        duration_ms=round((time.time() - started) * 1000),
        timestamp=iso_time(started),
        error=record,
        # A judge's tokens are paid for although it failed.
        **{key: context[key] for key in ("usage", "artifacts") if key in context},
    )


class EvalPlan(NamedTuple):
    """A checked configuration of `yb eval`, with absolute paths."""

    loaded: LoadedCase[EvalConfig]
    directory: Path
    expected_dir: Path | None
    output_dir: Path


def load_eval_plan(file: Path | str, host: Host, *, variables: Mapping[str, Any] | None = None) -> EvalPlan:
    """Read and check an eval configuration. All problems are one ConfigError."""
    known = {**host.settings.settings.variables, **(variables or {})}
    loaded = load_eval_config(file, known, check=partial(check_parts, env=host.env))
    problems: list[Problem] = []
    case = loaded.case

    def existing(key: str, value: str | None) -> Path | None:
        if value is None:
            return None
        starts = (loaded.directory, Path.cwd())
        paths = [start / Path(value).expanduser() for start in starts]
        path = next(filter(Path.is_dir, paths), paths[0])
        if not path.is_dir():
            problems.append(loaded.document.problem((key,), f"the directory {path} does not exist"))
        return path

    directory = existing("directory", case.directory)
    expected = existing("expected_directory", case.expected_directory)
    if problems or directory is None:
        raise loaded.document.error(problems)
    output = case.output_dir and loaded.directory / Path(case.output_dir).expanduser()
    return EvalPlan(loaded, directory, expected, output or host.settings.output_dir)


async def evaluate_directory(plan: EvalPlan, host: Host, *, on_event: EventSink) -> TrialResult:
    """Evaluate a directory without changing it. An interrupt leaves valid results of what was finished."""
    with RunDirectory.create(plan.output_dir, "eval", cache_dir=host.cache_dir) as run:
        redactor, started = Redactor.for_env(host.env), time.time()
        evaluators = [evaluator.named() for evaluator in plan.loaded.evaluators]
        record = TrialRecord(
            _describe_case(plan), run, redactor, expected_evaluators=len(evaluators), started_at=started
        )

        def on_result(index: int, result: EvaluationResult) -> None:
            record.add_result(index, result)
            on_event(EvaluatorFinished(evaluator=result.evaluator, status=result.status, message=result.message))

        on_event(PhaseStarted(phase="evaluation", detail=str(plan.directory)))
        try:
            changes = await uncommitted_changes(plan.directory, run.private / "start.git", run.artifacts / DIFF_FILE)
            if changes is not None:
                record.add_diff()
            context = EvaluationContext(
                directory=plan.directory,
                artifacts_dir=run.artifacts,
                config_dir=plan.loaded.directory,
                changes=changes,
                expected_dir=plan.expected_dir,
                untouched=True,
                left_out=(plan.output_dir.resolve(), run.path.resolve()),
                harness_env=host.env,
                redactor=redactor,
                scratch_dir=run.private / "scratch",
                agent_scratch_dir=run.scratch,
            )
            max_concurrent = host.settings.settings.evaluators.max_concurrent
            await evaluate_all(evaluators, context, max_concurrent=max_concurrent, on_result=on_result)
        except BaseException as error:
            record.save_results(complete=False, interrupted=isinstance(error, asyncio.CancelledError))
            raise
        record.add_phase("evaluation", time.time() - started)
        bundle = await record.finish(
            plan.loaded.case.post_evaluation,
            judged=plan.directory,
            config_dir=plan.loaded.directory,
            env=host.env,
            on_event=on_event,
        )
        run.delete_sources()  # the evaluated directory is elsewhere
        return TrialResult(bundle, run)


def _describe_case(plan: EvalPlan) -> TestCaseInfo:
    return TestCaseInfo(
        name=plan.loaded.name,
        description=plan.loaded.case.description,
        config_file=str(plan.loaded.file or ""),
        config_hash=plan.loaded.config_hash,
        directory=str(plan.directory),
        expected_directory=str(plan.expected_dir) if plan.expected_dir else None,
    )
