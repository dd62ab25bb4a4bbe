"""Render a leaderboard in one of its formats."""

from __future__ import annotations

import csv
import io
import os
from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from youbencha.report.comparison_model import PairComparison
from youbencha.report.document import render_terminal
from youbencha.report.formatting import describe_exclusion
from youbencha.report.junit import JunitCase, JunitSuite, Result, junit_xml, suite_start_time
from youbencha.report.leaderboard import Leaderboard, Row
from youbencha.report.leaderboard_document import (
    FLAG_SECTIONS,
    MAX_EVIDENCE,
    Grouping,
    format_outcomes,
    leaderboard_document,
    select_rows,
    trial_name,
)
from youbencha.report.leaderboard_html import render_leaderboard_html
from youbencha.report.markdown import render_markdown
from youbencha.stats.model import CONFIDENCE
from youbencha.store.arena import FlagSeverity
from youbencha.store.read import ArenaTrial
from youbencha.text import one_line, visible

JSON_VERSION = "1.0.0"
_MAX_CELL = 32_000
"""The length of a cell that a spreadsheet can load."""


class ArenaFormat(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"
    CSV = "csv"
    HTML = "html"
    JUNIT = "junit"


def render_leaderboard(
    board: Leaderboard, form: ArenaFormat, by: Grouping = Grouping.AGENT, *, width: int, base: Path
) -> str:
    """`width` is the terminal's; links in HTML and paths in JSON are relative to `base`."""
    match form:
        case ArenaFormat.TABLE:
            return render_terminal(leaderboard_document(board, by), width)
        case ArenaFormat.MARKDOWN:
            return render_markdown(leaderboard_document(board, by))
        case ArenaFormat.JSON:
            return render_json(board, base)
        case ArenaFormat.CSV:
            return render_csv(board, by)
        case ArenaFormat.HTML:
            return render_leaderboard_html(board, base)
        case ArenaFormat.JUNIT:
            return render_leaderboard_junit(board)


def render_csv(board: Leaderboard, by: Grouping) -> str:
    """One row for each agent, cell or suite, with unformatted numbers. Unknown is empty.

    What is about all of them is repeated in each row: rules that exclude trials, and notes.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    texts = {
        "exclusions": "; ".join(f"{exclusion.rule}: {describe_exclusion(exclusion)}" for exclusion in board.exclusions),
        "notes": " ".join(board.notes),
    }
    evidence, notes = (_flags_by_row(board, by, severity) for severity in FLAG_SECTIONS)
    writer.writerow(CSV_COLUMNS)
    for row in select_rows(board, by):
        place = row.agent, row.task, row.suite
        texts |= {
            "outcomes": format_outcomes(row.outcomes),
            "flag_evidence": "; ".join(evidence[place]),
            "flag_note_texts": "; ".join(notes[place]),
        }
        values = (_value(row, path) if path else texts[column] for column, path in CSV_COLUMNS.items())
        writer.writerow([_cell(value) for value in values])
    return out.getvalue()


def _flags_by_row(
    board: Leaderboard, by: Grouping, severity: FlagSeverity
) -> dict[tuple[str, str | None, str | None], list[str]]:
    lines: dict[tuple[str, str | None, str | None], list[str]] = defaultdict(list)
    for trial in board.trials:
        meta = trial.meta
        task = meta.task if by is Grouping.TASK else None
        suite = None if by is Grouping.AGENT else board.suite_of_task[meta.task]
        lines[meta.orchestrator, task, suite] += [
            f"{trial_name(trial)}: {flag.kind}: {one_line(flag.evidence, MAX_EVIDENCE)}"
            for flag in meta.flags
            if flag.severity == severity
        ]
    return lines


CSV_COLUMNS = {
    "agent": "agent",
    "task": "task",
    "suite": "suite",
    "planned": "trials.planned",
    "finished": "trials.finished",
    "valid": "trials.valid",
    "validity_unknown": "trials.validity_unknown",
    "scored": "trials.scored",
    "outcomes": "",
    "score": "score.mean",
    "score_low": "score.low",
    "score_high": "score.high",
    "score_unit": "score.unit",
    "score_n": "score.n",
    "score_if_failed": "bounds.if_failed.mean",
    "score_if_solved": "bounds.if_solved.mean",
    "best_rank": "bounds.best_rank",
    "worst_rank": "bounds.worst_rank",
    "calibrated": "calibrated.mean",
    "calibrated_low": "calibrated.low",
    "calibrated_high": "calibrated.high",
    "retried": "trials.retried",
    "pass_rate": "pass_rate.mean",
    "pass_rate_low": "pass_rate.low",
    "pass_rate_high": "pass_rate.high",
    "pass_rate_unit": "pass_rate.unit",
    "tokens": "tokens.value",
    "tokens_partial": "tokens.partial",
    "cost_usd": "cost_usd.value",
    "cost_partial": "cost_usd.partial",
    "cost_unknown_trials": "cost_usd.unknown",
    "cost_per_trial_usd": "cost_per_trial_usd",
    "cost_per_solved_usd": "cost_per_solved_usd",
    "uncounted_cost_usd": "uncounted_cost_usd.value",
    "uncounted_cost_partial": "uncounted_cost_usd.partial",
    "median_duration_s": "median_duration_s",
    "on_frontier": "on_frontier",
    "flags": "flags",
    "flag_evidence": "",
    "flag_notes": "flag_notes",
    "flag_note_texts": "",
    "exclusions": "",
    "notes": "",
}
"""Where the value of each column is in a row. Those without a place are texts."""


def _value(row: Row, place: str) -> Any:
    value: Any = row
    for name in place.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _cell(value: Any) -> str:
    """A text that a spreadsheet would run as a formula begins with an apostrophe."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            text = one_line(value, _MAX_CELL)
            return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return repr(value)


def render_json(board: Leaderboard, base: Path) -> str:
    """Render everything, by agent, task, suite and trial. Paths are relative to `base`."""
    document = {
        "version": JSON_VERSION,
        "interval": {"confidence": CONFIDENCE, "unit": "task"},
        "runs": [visible(run) for run in board.runs],
        "coverage": board.coverage,
        "agents": board.agents,
        "tasks": board.tasks,
        "suites": board.suites,
        "frontier": [row.agent for row in board.agents if row.on_frontier],
        "trials": [_trial(trial, base) for trial in board.trials],
        "unfinished": [trial._asdict() | {"run": visible(trial.run)} for trial in board.unfinished],
        "exclusions": board.exclusions,
        "superseded": board.superseded,
        "unreadable": [{"path": one_line(str(path), 4096), "reason": reason} for path, reason in board.unreadable],
        "notes": board.notes,
    }
    if board.compared is not None:
        document["comparisons"] = [_comparison(comparison) for comparison in board.compared.comparisons]
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _comparison(pair: PairComparison) -> dict[str, Any]:
    """One with a baseline. `yb compare --format json` has more."""
    difference = pair.difference
    return {
        "first": visible(pair.first.name),
        "second": visible(pair.second.name),
        "verdict": pair.verdict,
        "verdict_on_tasks_like_these": difference.verdict_on_tasks_like_these,
        "difference": difference.estimate,
        "interval_on_these_tasks": difference.on_these_tasks and list(difference.on_these_tasks),
        "interval_on_tasks_like_these": difference.on_tasks_like_these and list(difference.on_tasks_like_these),
        "tasks": difference.tasks,
        "more_trials_needed": difference.more_trials,
        "reason": difference.reason,
    }


_OF_A_TRIAL = {
    *("orchestrator", "task", "trial", "category", "outcome", "valid", "exit_reason", "reason", "composite_score"),
    *("scores", "duration_s", "total_tokens", "total_cost_usd", "usage_partial", "flags"),
    *("all_attempts_cost_usd", "attempts"),
}


def _trial(trial: ArenaTrial, base: Path) -> dict[str, Any]:
    where = {"run": visible(trial.run), "directory": visible(os.path.relpath(trial.directory, base))}
    return where | trial.meta.model_dump(include=_OF_A_TRIAL)


_JUNIT: dict[str, Result] = {
    "solved": "passed",
    "unsolved": "failure",
    "limit": "failure",
    "refused": "failure",
    "agent_error": "failure",
}
"""Trials with other outcomes are not valid, and are errors."""


def render_leaderboard_junit(board: Leaderboard) -> str:
    """Render JUnit XML for CI systems: a suite for each agent, a test case for each trial."""
    suites = []
    for row in sorted(board.agents, key=lambda row: row.agent):
        trials = [trial for trial in board.trials if trial.meta.orchestrator == row.agent]
        missing = [trial for trial in board.unfinished if trial.orchestrator == row.agent]
        cases = [_junit_case(trial) for trial in trials]
        cases += [
            JunitCase(f"{trial.task} trial {trial.trial}", 0, "error", "unfinished", "The trial is not finished.")
            for trial in missing
        ]
        suites.append(
            JunitSuite(
                name=f"youbencha.{row.agent}",
                started_at=suite_start_time((trial.meta.started_at for trial in trials), board.runs),
                duration_ms=sum(case.duration_ms for case in cases),
                properties=list(_junit_properties(board, row)),
                cases=cases,
            )
        )
    return junit_xml(suites)


def _junit_case(trial: ArenaTrial) -> JunitCase:
    meta = trial.meta
    name, spent = f"{meta.task} trial {meta.trial}", round((meta.duration_s or 0) * 1000)
    if meta.outcome is None:
        return JunitCase(name, spent, "skipped", message="Whether it was solved is not known.")
    score = "no score" if meta.composite_score is None else f"score {meta.composite_score:.3f}"
    message = f"{meta.reason or meta.outcome} ({score})"
    result = "error" if meta.valid is False else _JUNIT.get(meta.outcome, "error")
    flags = "\n".join(f"{FLAG_SECTIONS[flag.severity][0]}: {flag.kind}: {flag.evidence}" for flag in meta.flags)
    return JunitCase(name, spent, result, meta.outcome, message, f"{message}\n{flags}".strip())


def _junit_properties(board: Leaderboard, row: Row) -> Iterator[tuple[str, str]]:
    """Properties of a suite, with unformatted numbers. Unknown values are left out."""
    values = {
        "score": row.score.mean,
        "score_low": row.score.low,
        "score_high": row.score.high,
        "score_unit": row.score.unit,
        "trials_valid": row.trials.valid,
        "trials_finished": row.trials.finished,
        "trials_planned": row.trials.planned,
        "cost_usd": row.cost_usd.value,
        "total_tokens": row.tokens.value,
    }
    yield from ((name, str(value)) for name, value in values.items() if value is not None)
    yield from (("excluded", f"{exclusion.rule}: {describe_exclusion(exclusion)}") for exclusion in board.exclusions)
    for trial in board.trials:
        if trial.meta.orchestrator == row.agent:
            name = f"{trial.meta.task} trial {trial.meta.trial}"
            for flag in trial.meta.flags:
                yield (
                    FLAG_SECTIONS[flag.severity][0].replace(" ", "_"),
                    f"{name}: {flag.kind}: {one_line(flag.evidence)}",
                )
