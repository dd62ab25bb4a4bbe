"""`yb eval`: judge a directory as it is. No agent is run, and nothing in the directory is touched."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import Problem
from youbencha.events import EvaluatorFinished, EventSink, PhaseStarted
from youbencha.log import EvaluationResult, TestCaseInfo
from youbencha.process import Redactor
from youbencha.spec import EvalConfig, Loaded, load_eval_config
from youbencha.spec.settings import LoadedSettings
from youbencha.trial.bundle import DIFF_FILE, Record
from youbencha.trial.checks import check_parts
from youbencha.trial.evaluation import Evidence, evaluate_all
from youbencha.trial.files import ResultFiles
from youbencha.trial.finished import Finished
from youbencha.workspace import RunDirectory, changes_in_repository


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
            problems.append(loaded.source.problem((key,), f"there is no directory {path}"))
        return path

    directory = existing("directory", case.directory)
    expected = existing("expected_directory", case.expected_directory)
    if problems or directory is None:
        raise loaded.source.error(problems)
    output = case.output_dir and loaded.directory / Path(case.output_dir).expanduser()
    return EvalPlan(
        loaded=loaded,
        directory=directory,
        expected_dir=expected,
        output_dir=output or settings.output_dir,
        cache_dir=settings.cache_dir,
        max_concurrent=settings.settings.evaluators.max_concurrent,
    )


async def evaluate_directory(plan: EvalPlan, *, on_event: EventSink) -> Finished:
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
        return Finished(bundle, place)


def _record(plan: EvalPlan, place: RunDirectory) -> Record:
    case = plan.loaded.case
    return Record(
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
