"""Render a leaderboard in one of its formats. Only that format's code is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.report.arena_tables import (
    FLAG_SECTIONS,
    Grouping,
    dropped_trials,
    render_csv,
    render_json,
    render_markdown,
    render_table,
)
from youbencha.text import one_line

if TYPE_CHECKING:
    from youbencha.report.arena_loading import ArenaTrial
    from youbencha.report.junit import JunitCase, Result
    from youbencha.report.leaderboard import Leaderboard, Row


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
            return render_table(board, by, width) + _baselines(board, width)
        case ArenaFormat.MARKDOWN:
            return render_markdown(board, by) + _baselines(board)
        case ArenaFormat.JSON:
            return render_json(board, base)
        case ArenaFormat.CSV:
            return render_csv(board, by)
        case ArenaFormat.HTML:
            from youbencha.report.arena_html import render_leaderboard_html

            return render_leaderboard_html(board, base)
        case ArenaFormat.JUNIT:
            return render_leaderboard_junit(board)


def _baselines(board: Leaderboard, width: int | None = None) -> str:
    """Render how agents compare with their baselines, for a terminal of this width or as Markdown."""
    if board.compared is None:
        return ""
    from youbencha.report.comparison_tables import render_baselines_markdown, render_baselines_table

    compared = board.compared
    return render_baselines_markdown(compared) if width is None else render_baselines_table(compared, width)


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
    from youbencha.report.junit import JunitCase, JunitSuite, junit_xml, suite_start_time

    suites = []
    for row in sorted(board.agents, key=lambda each: each.agent):
        trials = [each for each in board.trials if each.meta.orchestrator == row.agent]
        missing = [each for each in board.unfinished if each.orchestrator == row.agent]
        cases = [_junit_case(each) for each in trials]
        cases += [
            JunitCase(f"{each.task} trial {each.trial}", 0, "error", "unfinished", "The trial is not finished.")
            for each in missing
        ]
        suites.append(
            JunitSuite(
                name=f"youbencha.{row.agent}",
                started_at=suite_start_time((each.meta.started_at for each in trials), board.runs),
                duration_ms=sum(case.duration_ms for case in cases),
                properties=list(_junit_properties(board, row)),
                cases=cases,
            )
        )
    return junit_xml(suites)


def _junit_case(trial: ArenaTrial) -> JunitCase:
    from youbencha.report.junit import JunitCase

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
    yield from (("excluded", f"{each.rule}: {dropped_trials(each)}") for each in board.exclusions)
    for trial in board.trials:
        if trial.meta.orchestrator == row.agent:
            name = f"{trial.meta.task} trial {trial.meta.trial}"
            for flag in trial.meta.flags:
                yield (
                    FLAG_SECTIONS[flag.severity][0].replace(" ", "_"),
                    f"{name}: {flag.kind}: {one_line(flag.evidence)}",
                )
