"""Turn the measurements of a validation into scores, flags and a sentence. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from youbencha.evaluators.base import printable
from youbencha.evaluators.validation.config import ValidationConfig
from youbencha.evaluators.validation.counting import NOBODY, ExpectedTests, tally
from youbencha.evaluators.validation.measure import Baseline, Measurement
from youbencha.scoring.code_metrics import code_metrics_score
from youbencha.scoring.composite import composite
from youbencha.scoring.lint import lint_score
from youbencha.spec.arena import GreenWeights, Weights
from youbencha.store.arena import IntegrityFlag, Scores
from youbencha.text import plural

_MAX_NAMED = 5


class FinalScore(NamedTuple):
    scores: Scores
    composite_score: float | None


def with_rubric(metrics: Mapping[str, Any], rubric: float | None) -> FinalScore:
    """Add the judges' score to the metrics of a validation."""
    scores = Scores.model_validate({**metrics["scores"], "rubric": rubric})
    weights = (GreenWeights if metrics["greenfield"] else Weights).model_validate(metrics["weights"])
    return FinalScore(scores, composite(scores, weights))


def scores_of(config: ValidationConfig, measured: Measurement, baseline: Baseline) -> Scores:
    """The scores; null is what was not measured."""
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
    """The score that decides whether the task is solved. None: it could not be measured."""
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


def flags_of_tests(measured: Measurement, baseline: Baseline) -> Iterator[IntegrityFlag]:
    """What people should know about the test run that counts."""
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
    """One sentence about the tests, and what else went wrong."""
    parts = [_tests(measured, baseline)]
    for name in ("install", "build"):
        step = measured.steps.get(name)
        if step is not None and not step.succeeded:
            parts.append(f"{name} failed: {step.failure}")
    step = measured.steps[measured.counting_step]
    if step.timed_out:
        parts.append(f"the tests timed out after {step.duration_ms / 1000:.0f} s")
    elif step.ended_by is not None:
        parts.append(f"the tests were ended by {step.ended_by}")
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
