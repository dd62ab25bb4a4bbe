"""Render a comparison in one of its formats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from youbencha.report.comparison_document import comparison_document, verdict_sentence
from youbencha.report.comparison_html import render_comparison_html
from youbencha.report.comparison_model import (
    ComparedAgent,
    ComparisonReport,
    PairComparison,
    TaskResult,
)
from youbencha.report.document import render_terminal
from youbencha.report.gate import GateResult, Measure, judge
from youbencha.report.junit import JunitCase, JunitSuite, junit_xml, suite_start_time
from youbencha.report.leaderboard import capped_score
from youbencha.report.markdown import render_markdown
from youbencha.stats.model import Bound, Difference, MissingBounds, ValueDifference
from youbencha.store.read import ArenaTrial
from youbencha.text import one_line, visible

JSON_VERSION = "1.0.0"


class ComparisonFormat(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


def render_comparison(report: ComparisonReport, form: ComparisonFormat, *, width: int, base: Path) -> str:
    """`width` is the terminal's; links and paths are relative to `base`."""
    match form:
        case ComparisonFormat.TABLE:
            return render_terminal(comparison_document(report, base, details=False), width)
        case ComparisonFormat.MARKDOWN:
            return render_markdown(comparison_document(report, base, details=True))
        case ComparisonFormat.JSON:
            return render_comparison_json(report, base)
        case ComparisonFormat.HTML:
            return render_comparison_html(report, base)


def render_comparison_json(report: ComparisonReport, base: Path) -> str:
    """Render everything; paths are relative to `base`.

    A single pair is the document itself; several pairs of a run are a list in it.
    """
    pairs = [_pair(comparison, report.margin, base) for comparison in report.comparisons]
    document = {
        "version": JSON_VERSION,
        **(pairs[0] if report.one_pair else {"comparisons": pairs}),
        "more_trials_command": report.more_trials_command,
        "margin": report.margin,
        "confidence": report.confidence,
        "runs": [visible(run) for run in report.runs],
        "exclusions": report.exclusions,
        "superseded": report.superseded,
        "unreadable": [{"path": one_line(str(path), 4096), "reason": reason} for path, reason in report.unreadable],
        "notes": report.notes,
    }
    return orjson.dumps(document, default=list, option=orjson.OPT_INDENT_2).decode() + "\n"  # intervals are lists


def _pair(pair: PairComparison, margin: float, base: Path) -> dict[str, Any]:
    both = pair.first.coverage, pair.second.coverage
    difference = pair.difference
    return {
        "verdict": pair.verdict,
        "verdict_on_tasks_like_these": difference.verdict_on_tasks_like_these,
        "verdicts": {str(measure): judge(pair, measure, margin).verdict for measure in Measure},
        "sentence": verdict_sentence(pair, margin),
        "difference": difference.estimate,
        "interval_on_these_tasks": difference.on_these_tasks,
        "interval_on_tasks_like_these": difference.on_tasks_like_these,
        "tasks": difference.tasks,
        "trials": sum(coverage.finished for coverage in both),
        "valid": sum(coverage.valid for coverage in both),
        "more_trials_needed": difference.more_trials,
        "more_trials_cost_usd": pair.more_trials_cost_usd,
        "detectable_difference": difference.detectable,
        "p_value": difference.p_value,
        "p_adjusted": pair.p_adjusted,
        "reason": difference.reason,
        "bounds": difference.bounds and _bounds(difference.bounds, overturned=difference.overturned),
        "decided_early": pair.decided_early,
        "first": _agent(pair.first),
        "second": _agent(pair.second),
        "pass_rate": _difference(pair.pass_rate) | {"detectable_difference": pair.pass_rate.detectable},
        "cost_usd": _values(pair.cost_usd),
        "duration_s": _values(pair.duration_s),
        "tokens": _values(pair.tokens),
        "by_task": [
            {
                "task": visible(task.task),
                "difference": task.difference,
                "first": _task_result(task.first, base),
                "second": _task_result(task.second, base),
            }
            for task in pair.tasks
        ],
        "flaky_tasks": [visible(task.task) for task in pair.flaky],
        "only_first": [visible(task) for task in pair.only_first],
        "only_second": [visible(task) for task in pair.only_second],
        "unchanged": pair.unchanged,
        "warnings": pair.warnings,
    }


def _bounds(bounds: MissingBounds, *, overturned: bool) -> dict[str, Any]:
    return {
        "of": "first" if bounds.of_first else "second",
        "missing": bounds.missing,
        "retried": bounds.retried,
        "trials": bounds.trials,
        "overturned": overturned,
        "if_failed": _difference(bounds.if_failed),
        "if_solved": _difference(bounds.if_solved),
    }


def _difference(difference: Difference | Bound) -> dict[str, Any]:
    return {
        "difference": difference.estimate,
        "interval_on_these_tasks": difference.on_these_tasks,
        "interval_on_tasks_like_these": difference.on_tasks_like_these,
    }


def _agent(agent: ComparedAgent) -> dict[str, Any]:
    figures = agent.figures
    return {
        "name": visible(agent.name),
        "orchestrator": visible(agent.orchestrator),
        "runs": [visible(run) for run in agent.runs],
        "trials": agent.coverage,
        "score": figures.score,
        "pass_rate": figures.pass_rate,
        "pass_of_k": [{"k": passes.k, "pass_at_k": passes.any, "pass_hat_k": passes.all} for passes in agent.passes],
        "outcomes": figures.outcomes,
        "cost_usd": figures.cost_usd,
        "cost_per_trial_usd": figures.cost_per_trial_usd,
        "cost_per_solved_usd": figures.cost_per_solved_usd,
        "total_tokens": figures.tokens,
        "median_duration_s": figures.median_duration_s,
        "versions": [visible(version) for version in agent.versions],
        "models": [visible(model) for model in agent.models],
    }


def _values(values: ValueDifference) -> dict[str, Any]:
    return {
        "first": values.first,
        "second": values.second,
        "difference": values.difference,
        "interval_on_tasks_like_these": values.interval,
        "ratio": values.ratio,
        "ratio_interval": values.ratio_interval,
        "tasks": values.tasks,
        "reason": values.reason,
    }


def _task_result(result: TaskResult, base: Path) -> dict[str, Any]:
    return {
        "score": result.score,
        "scored": result.scored,
        "judged": result.judged,
        "solved": result.solved,
        "flaky": result.flaky,
        "trials": [_trial(trial, base) for trial in result.trials],
    }


def _trial(trial: ArenaTrial, base: Path) -> dict[str, Any]:
    return {
        "run": visible(trial.run),
        "trial": trial.meta.trial,
        "directory": _relative(trial.directory, base),
        "outcome": trial.meta.outcome,
        "valid": trial.meta.valid,
        "score": capped_score(trial.meta),
        "diff": trial.diff and _relative(trial.diff, base),
        "transcript": trial.log and _relative(trial.log, base),
    }


def _relative(path: str | Path, base: Path) -> str:
    return visible(os.path.relpath(path, base))


def render_comparison_junit(report: ComparisonReport, gate: GateResult | None) -> str:
    """Render JUnit XML for CI systems: a test case for each comparison, which fails if the gate does."""
    return junit_xml(
        [
            JunitSuite(
                name="youbencha.compare",
                started_at=suite_start_time((trial.meta.started_at for trial in _list_trials(pair)), report.runs),
                duration_ms=0,
                properties=list(_junit_properties(pair, report.margin)),
                cases=[_junit_case(pair, report.margin, gate)],
            )
            for pair in report.comparisons
        ]
    )


def _list_trials(pair: PairComparison) -> Iterator[ArenaTrial]:
    for task in pair.tasks:
        yield from (*task.first.trials, *task.second.trials)


def _junit_case(pair: PairComparison, margin: float, gate: GateResult | None) -> JunitCase:
    name, sentence = f"{pair.first.name} against {pair.second.name}", verdict_sentence(pair, margin)
    gated = None if gate is None else gate.find(pair)
    lines = [sentence, *([str(gated)] if gated else []), *(f"warning: {warning}" for warning in pair.warnings)]
    detail = "\n".join(lines)
    if pair.difference.estimate is None or (gated and gated.unknown):
        return JunitCase(name, 0, "error", "not comparable", lines[0], detail)
    if gated is None or not gated.failed:
        return JunitCase(name, 0, "passed", pair.verdict, sentence, detail)
    return JunitCase(name, 0, "failure", " ".join(gated.decisive) or str(gated.gate), str(gated), detail)


def _junit_properties(pair: PairComparison, margin: float) -> Iterator[tuple[str, str]]:
    """With unformatted numbers. Unknown values are left out."""
    for name, value in _pair(pair, margin, Path()).items():
        if isinstance(value, int | float | str) and name != "sentence":
            yield name, str(value)
