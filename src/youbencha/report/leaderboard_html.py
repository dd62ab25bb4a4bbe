"""Render a leaderboard as one HTML page: the tables, cost against score as a picture, the flags and every trial."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha import __version__
from youbencha.report.charts import IntervalsPicture, frontier_chart
from youbencha.report.comparison_document import overview_table, unchanged_lines
from youbencha.report.comparison_html import overview_picture
from youbencha.report.comparison_model import ComparisonReport
from youbencha.report.document import Table
from youbencha.report.formatting import UNKNOWN_CELL, format_coverage, format_seconds
from youbencha.report.html import Tile, render_page
from youbencha.report.leaderboard import SOLVED, Leaderboard, Row
from youbencha.report.leaderboard_document import (
    FLAG_SECTIONS,
    Grouping,
    leaderboard_remarks,
    leaderboard_table,
    list_flags,
    select_rows,
)
from youbencha.store.layout import META_FILE, PATCH_FILE
from youbencha.store.read import ArenaTrial
from youbencha.text import format_count, format_usd, one_line, plural

MAX_TRIALS = 1000
_OPEN_ROWS = 60
_ICON = "#0a58ca"
_MEASURED = frozenset({"unsolved", "limit", "refused", "agent_error"})


class _Section(NamedTuple):
    name: str
    title: str
    table: Table
    rows: Sequence[Row]
    """The figures behind the table's rows."""
    opened: bool


class _Baselines(NamedTuple):
    """How agents compare with their baselines."""

    picture: IntervalsPicture
    table: Table
    warnings: Sequence[str]


class _TrialRow(NamedTuple):
    agent: str
    task: str
    trial: int
    run: str
    outcome: str
    look: str
    """The class of the outcome's colours."""
    score: str
    cost: str
    tokens: str
    time: str
    reason: str
    flags: int
    links: tuple[tuple[str, str], ...]


def render_leaderboard_html(board: Leaderboard, base: Path) -> str:
    """Links to the files of a trial are relative to `base`."""
    return render_page(
        "arena.html",
        icon=_ICON,
        runs=[one_line(run, 100) for run in board.runs],
        tiles=list(_tiles(board)),
        sections=[_section(board, by) for by in Grouping],
        compared=board.compared and _baselines(board.compared),
        chart=frontier_chart(board.agents),
        flags=[(heading, list(list_flags(board, severity))) for severity, (_, heading) in FLAG_SECTIONS.items()],
        trials=[_trial(trial, base) for trial in board.trials[:MAX_TRIALS]],
        more_trials=max(0, len(board.trials) - MAX_TRIALS),
        remarks=list(leaderboard_remarks(board, max_listed=None)),
        notes=board.notes,
        version=__version__,
    )


def _baselines(report: ComparisonReport) -> _Baselines:
    return _Baselines(overview_picture(report), overview_table(report), unchanged_lines(report))


def _section(board: Leaderboard, by: Grouping) -> _Section:
    rows = select_rows(board, by)
    titles = {Grouping.AGENT: "Agents", Grouping.TASK: "Tasks", Grouping.SUITE: "Suites"}
    return _Section(by.value, titles[by], leaderboard_table(board, by), rows, len(rows) <= _OPEN_ROWS)


def _tiles(board: Leaderboard) -> Iterator[Tile]:
    best = board.agents[0] if board.agents and board.agents[0].score.mean is not None else None
    if best is not None and best.score.mean is not None:
        yield Tile("Best mean score", f"{best.score.mean:.3f}", one_line(best.agent, 60))
    yield Tile("Agents and tasks", f"{len(board.agents)} × {len(board.suite_of_task)}")
    yield Tile("Trials", format_coverage(board.coverage), "valid / finished / planned")
    known = [row.cost_usd for row in board.agents if row.cost_usd.value is not None]
    lower_bound = any(row.cost_usd.partial or row.cost_usd.unknown for row in board.agents)
    total = format_usd(sum(total.value or 0 for total in known)) if known else UNKNOWN_CELL
    yield Tile("Cost", f"{'≥ ' if known and lower_bound else ''}{total}", "of attempts that count")
    flagged = sum(bool(trial.meta.evidence) for trial in board.trials)
    yield Tile(
        "Integrity flags", format_count(sum(row.flags for row in board.agents)), f"in {plural(flagged, 'trial')}"
    )


def _trial(trial: ArenaTrial, base: Path) -> _TrialRow:
    meta = trial.meta
    outcome = meta.outcome or meta.exit_reason or "unknown"
    look = "passed" if outcome == SOLVED else "failed" if outcome in _MEASURED else "partial"
    partial = "≥ " if meta.usage_partial else ""
    names = [name for name in (PATCH_FILE, META_FILE) if os.path.lexists(f"{trial.directory}/{name}")]
    where = os.path.relpath(trial.directory, base)
    return _TrialRow(
        agent=one_line(meta.orchestrator, 60),
        task=one_line(meta.task, 60),
        trial=meta.trial,
        run=one_line(trial.run, 60),
        outcome=one_line(outcome.replace("_", " "), 30),
        look="" if meta.outcome is None else look,
        score=UNKNOWN_CELL if meta.composite_score is None else f"{meta.composite_score:.3f}",
        cost=UNKNOWN_CELL if meta.total_cost_usd is None else partial + format_usd(meta.total_cost_usd),
        tokens=UNKNOWN_CELL if meta.total_tokens is None else partial + format_count(meta.total_tokens),
        time=format_seconds(meta.duration_s),
        reason=one_line(meta.reason or "", 200),
        flags=len(meta.evidence),
        links=tuple((name, f"{where}/{name}") for name in names),
    )
