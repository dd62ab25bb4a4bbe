"""The evaluator `validation`: measure by programs what an agent's work is worth, and score it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import (
    VALIDATION,
    VALIDATION_BROKEN,
    EvaluationContext,
    EvaluatorBase,
    artifact,
    artifacts_root,
    evaluation_result,
    printable,
)
from youbencha.evaluators.programs import command_environment, missing_references
from youbencha.evaluators.validation.measure import (
    Baseline,
    Measurement,
    measure_baseline,
    measure_work,
    unvalidated_files,
)
from youbencha.evaluators.validation.reports import NOBODY, ExpectedTests, TestTally, tally
from youbencha.evaluators.validation.task import ValidationConfig, ValidationTask
from youbencha.files import open_nofollow
from youbencha.log.masking import without_secrets
from youbencha.process import OUTPUT_LIMIT_BYTES, Redactor
from youbencha.scoring.code_metrics import code_metrics_score
from youbencha.scoring.composite import composite
from youbencha.scoring.integrity import IntegrityContext, integrity_flags, tampering_flags
from youbencha.scoring.measures import lint_score
from youbencha.scoring.runner_results import TestResult
from youbencha.spec.arena import GreenWeights, Weights
from youbencha.store.arena import IntegrityFlag, Scores
from youbencha.store.bundle import AssertionResult, EvaluationResult
from youbencha.text import plural

_MAX_PATCH_BYTES = 8 * 1024 * 1024
"""The part of a patch that is searched for signs of cheating."""
_MAX_NAMED_RESULTS = 5_000
_MAX_FAILED_TESTS = 200
_RESULT_TEXTS = {"failures": "failed", "errors": "ended with an error", "skipped": "was skipped"}


class Validation(EvaluatorBase[ValidationConfig]):
    name = VALIDATION
    description = "Installs, builds, lints and tests the result, with hidden tests, and scores it."

    config_model = ValidationConfig
    time_limit_s = None
    checks_task = True

    def uses_agent_state(self, config: Mapping[str, Any]) -> bool:
        return config.get("mode") == "shared"

    def check_environment(self, config: Mapping[str, Any], env: Mapping[str, str]) -> Sequence[Problem]:
        return list(missing_references(config.get("env"), env))

    async def check_task(self, context: EvaluationContext) -> None:
        """Raise `VALIDATION_BROKEN` if the untouched task cannot be validated: then no agent needs to work on it."""
        await self._baseline(context, await self._task(context))

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        task = await self._task(context)
        baseline = await self._baseline(context, task)
        measured = await measure_work(context, task, baseline)
        result = _result(context, task, measured, baseline, started)
        return without_secrets(result, _redactor(context, task).text)

    async def _task(self, context: EvaluationContext) -> ValidationTask:
        return await ValidationTask.open(context, self.read_config(context))

    async def _baseline(self, context: EvaluationContext, task: ValidationTask) -> Baseline:
        """Measure it once for all trials that are validated in the same way. Each of them gets the logs."""
        commands = task.config.model_dump_json(exclude={"mode", "copy_ignored", "image", "weights", "green_weights"})
        image = task.config.image or context.agent_sandbox.image
        key = (self.name, task.repository.public_url, task.repository.commit, image, commands)

        async def measure() -> Baseline:
            return replace(await measure_baseline(context, task), logs=dict(_read_logs(context.artifacts_dir)))

        baseline = await context.shared.once(key, measure)
        for name, text in baseline.logs.items():
            if not (log := context.artifacts_dir / name).exists():
                log.write_bytes(text)
        if baseline.problem is not None:
            raise _broken(_redactor(context, task).text(baseline.problem))
        return baseline


def _redactor(context: EvaluationContext, task: ValidationTask) -> Redactor:
    return context.redactor.with_env(command_environment({}, task.config.env, context.harness_env))


def _result(
    context: EvaluationContext, task: ValidationTask, measured: Measurement, baseline: Baseline, started: float
) -> EvaluationResult:
    config = task.config
    scores = measure_scores(config, measured, baseline)
    decides = deciding_score(config, scores)
    score = composite(scores, config.score_weights)
    counted = measured.tally(baseline.expected)
    reward = measured.tests.reward
    unvalidated = unvalidated_files(context, config)
    return evaluation_result(
        context,
        started,
        "passed" if decides == 1 and measured.built is not False else "failed",
        describe(measured, baseline, unvalidated),
        metrics={
            "scores": scores.model_dump(),
            "composite_score": score,
            "tests_score": decides,
            "greenfield": config.greenfield,
            "weights": config.score_weights.model_dump(),
            "tests": counted.metrics() if counted else None,
            "expected_tests": baseline.expected.number,
            "test_results": _named_results(counted),
            "other_tests": counted.others.metrics() if counted else None,
            "own_test_files": [printable(path) for path in measured.own_test_files[:_MAX_NAMED_RESULTS]],
            "canary": baseline.canary is not None,
            "reward": dict(reward.values) if reward else None,
            "lint_issues": measured.lint_issues,
            "baseline_lint_issues": baseline.lint_issues,
            "flags": [flag.model_dump() for flag in _flags(context, task, measured, baseline)],
            "steps": {name: step.metrics() for name, step in measured.steps.items()},
            "left_out": [printable(path) for path in unvalidated],
            "validation_commit": task.validation,
        },
        assertions=list(islice(_failed_tests(counted), _MAX_FAILED_TESTS)) if reward is None else (),
        artifacts=[
            artifact(context, "log", path, f"What the step {path.stem} printed")
            for path in sorted(context.artifacts_dir.glob("*.log"))
        ],
    )


def _failed_tests(counted: TestTally | None) -> Iterator[AssertionResult]:
    for name, result in (counted.results if counted else {}).items():
        if result != "passed":
            actual = "did not run" if result is None else _RESULT_TEXTS.get(result, result)
            yield AssertionResult(name=printable(name), passed=False, expected="passed", actual=actual)


def _named_results(counted: TestTally | None) -> dict[str, TestResult | None]:
    """Return how each test that counts ended, by its name; null: it did not run."""
    results = counted.results if counted else {}
    return {printable(name): result for name, result in islice(results.items(), _MAX_NAMED_RESULTS)}


def _flags(
    context: EvaluationContext, task: ValidationTask, measured: Measurement, baseline: Baseline
) -> Iterator[IntegrityFlag]:
    config, sandbox = task.config, context.agent_sandbox
    about = IntegrityContext(
        hidden_files=frozenset(task.hidden) - task.given.keys(),
        solution_refs=tuple(filter(None, (config.validation_tag, config.reference_tag))),
        harness_paths=(str(artifacts_root(context)),) if context.open_sandbox is None else (),
        workspace=sandbox.workspace or str(context.directory),
        has_network=sandbox.has_network,
        greenfield=config.greenfield,
        protected=frozenset(task.protected),
        recipes=frozenset(change.path for change in measured.changes if Path(change.path).name in task.recipes),
        solution=task.solution,
    )
    yield from integrity_flags(context.log, measured.changes, about)
    if context.changes is not None:
        patch = context.changes.patch_file
        with open_nofollow(patch.parent, patch.name) as file:
            yield from tampering_flags(file.read(_MAX_PATCH_BYTES).decode(errors="replace"))
    yield from test_run_flags(measured, baseline)


def _read_logs(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in directory.glob("*.log"):
        with open_nofollow(directory, path.name) as file:
            yield path.name, file.read(OUTPUT_LIMIT_BYTES)


def _broken(reason: str) -> YouBenchaError:
    return YouBenchaError(
        VALIDATION_BROKEN,
        f"The validation does not work: {reason}.",
        hint="The logs are in evaluators/validation of the artifacts: fix the command, or the image that it runs in.",
    )


_MAX_NAMED = 5


class FinalScore(NamedTuple):
    scores: Scores
    composite_score: float | None


def with_rubric(metrics: Mapping[str, Any], rubric: float | None) -> FinalScore:
    """Add the judges' score to the metrics of a validation."""
    scores = Scores.model_validate({**metrics["scores"], "rubric": rubric})
    weights = (GreenWeights if metrics["greenfield"] else Weights).model_validate(metrics["weights"])
    return FinalScore(scores, composite(scores, weights))


def measure_scores(config: ValidationConfig, measured: Measurement, baseline: Baseline) -> Scores:
    """Compute the scores; null: not measured."""
    counted = _tests_score(config, measured, baseline)
    static_analysis = _static_analysis(config, measured, baseline)
    if measured.agent_tests is None:
        return Scores(tests=counted, static_analysis=static_analysis)
    agent_tests = tally(measured.agent_tests.report(frozenset()), ExpectedTests(), NOBODY)
    return Scores(
        hidden_tests=counted if config.validation_tag else None,
        agent_tests=(agent_tests and agent_tests.score) or 0.0,  # no tests score as failed ones do
        coverage=measured.coverage,
        static_analysis=static_analysis,
        code_metrics=code_metrics_score(measured.sources) if measured.changes else None,
    )


def _tests_score(config: ValidationConfig, measured: Measurement, baseline: Baseline) -> float:
    if measured.forgery is not None:
        return 0.0
    if config.reward is not None:
        return measured.tests.reward.score if measured.tests.reward else 0.0
    counted = measured.tally(baseline.expected)
    return (counted and counted.score) or 0.0


def deciding_score(config: ValidationConfig, scores: Scores) -> float | None:
    """Return the score that decides whether the task is solved. None: it could not be measured."""
    if not config.greenfield:
        return scores.tests
    return scores.hidden_tests if config.validation_tag else scores.agent_tests


def _static_analysis(config: ValidationConfig, measured: Measurement, baseline: Baseline) -> float | None:
    """Whether it builds, and what the linter finds that it did not find before. Nothing changed, nothing analysed."""
    if not measured.changes:
        return None
    if measured.built is False:
        return 0.0
    if config.lint_cmd is None:
        return 1.0 if measured.built else None
    before = baseline.lint_issues
    if before is None and config.greenfield and measured.lint_issues is not None:
        before = 0  # there was nothing to lint
    return lint_score(measured.lint_issues, before)


def test_run_flags(measured: Measurement, baseline: Baseline) -> Iterator[IntegrityFlag]:
    """Flag what people should know about the test run that counts."""
    if measured.forgery is not None:
        yield IntegrityFlag(kind="forged_report", evidence=measured.forgery, severity="evidence")
    for path in (measured.prepared.reconfigured if measured.prepared else ())[:_MAX_NAMED]:
        yield IntegrityFlag(kind="test_edit", evidence=f"{printable(path)} configured the tests, which was undone")
    for source in measured.tests.foreign_reports(baseline.expected.sources)[:_MAX_NAMED]:
        path = source.partition(":")[2]
        evidence = f"{path} was written during the tests, but not for the untouched task; it was ignored"
        yield IntegrityFlag(kind="forged_report", evidence=evidence)
    counted = measured.tally(baseline.expected)
    if counted is not None and counted.missing and measured.changes:
        code = measured.steps[measured.counting_step].exit_code
        evidence = f"{counted.missing} of {plural(counted.total, 'test')} did not run; the exit code was {code}"
        yield IntegrityFlag(kind="tests_missing", evidence=evidence)


def describe(measured: Measurement, baseline: Baseline, left_out: tuple[str, ...]) -> str:
    """Describe the tests in one sentence, and what else went wrong."""
    parts = [_tests(measured, baseline)]
    for name in ("install", "build"):
        step = measured.steps.get(name)
        if step is not None and not step.succeeded:
            parts.append(f"{name} failed: {step.failure}")
    step = measured.steps[measured.counting_step]
    if step.timed_out:
        parts.append(f"the tests timed out after {step.duration_ms / 1000:.0f} s")
    elif step.ended_by is not None:
        parts.append(f"the tests were killed by {step.ended_by}")
    if left_out:
        parts.append(f"left out, because the patch lacks them: {', '.join(left_out[:_MAX_NAMED])}")
    return f"{'; '.join(parts)}."


def _tests(measured: Measurement, baseline: Baseline) -> str:
    if measured.forgery is not None:
        return measured.forgery
    if measured.tests.reward is not None:
        return f"the reward is {measured.tests.reward.score:g}"
    counted = measured.tally(baseline.expected)
    if counted is None:
        return "no tests were reported"
    return f"{counted.counts.passed:,} of {plural(counted.total, 'test')} passed"
