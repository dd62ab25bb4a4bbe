"""Render a leaderboard as one HTML page: the tables, cost against score as a picture, the flags and every trial."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from youbencha import __version__
from youbencha.report.arena_loading import ArenaTrial
from youbencha.report.axis import Tick, round_step
from youbencha.report.comparison_document import overview_table, unchanged_lines
from youbencha.report.comparison_figures import IntervalsPicture
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
from youbencha.text import count, one_line, plural, usd

MOST_TRIALS = 1000
_OPEN_ROWS = 60
_MOST_LABELS = 30
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
        trials=[_trial(each, base) for each in board.trials[:MOST_TRIALS]],
        more_trials=max(0, len(board.trials) - MOST_TRIALS),
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
    total = usd(sum(each.value or 0 for each in known)) if known else UNKNOWN_CELL
    yield Tile("Cost", f"{'≥ ' if known and lower_bound else ''}{total}", "of attempts that count")
    flagged = sum(bool(trial.meta.evidence) for trial in board.trials)
    yield Tile("Integrity flags", count(sum(row.flags for row in board.agents)), f"in {plural(flagged, 'trial')}")


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
        cost=UNKNOWN_CELL if meta.total_cost_usd is None else partial + usd(meta.total_cost_usd),
        tokens=UNKNOWN_CELL if meta.total_tokens is None else partial + count(meta.total_tokens),
        time=format_seconds(meta.duration_s),
        reason=one_line(meta.reason or "", 200),
        flags=len(meta.evidence),
        links=tuple((name, f"{where}/{name}") for name in names),
    )


@dataclass(frozen=True)
class Point:
    label: str
    on_frontier: bool
    x: float
    y: float
    low: float
    high: float
    """Where the interval begins and ends; without one, `y`."""
    label_x: float
    label_y: float
    anchor: str
    description: str


@dataclass(frozen=True)
class Chart:
    """Coordinates of a picture: cost per trial to the right, mean score upwards."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    points: tuple[Point, ...]
    frontier: str
    """The points of a line."""
    log_scale: bool
    left_out: tuple[str, ...]
    """Agents whose cost or score is not known."""


_FRAME = Chart(
    width=760,
    height=400,
    left=52,
    right=736,
    top=16,
    bottom=350,
    x_ticks=(),
    y_ticks=(),
    points=(),
    frontier="",
    log_scale=False,
    left_out=(),
)
_LABEL_HEIGHT = 16
_CHARACTER = 7.0
"""About the width of a character, to keep labels apart."""
_LOG_FROM = 30
"""If the most expensive agent costs this many times as much as the cheapest, a linear scale hides the cheap ones."""


def frontier_chart(agents: Iterable[Row]) -> Chart | None:
    """Lay out the picture; None if there is no agent whose cost and score are known."""
    rows = list(agents)
    known = [(row, row.cost_per_trial_usd, row.score.mean) for row in rows]
    placed = [(row, cost, score) for row, cost, score in known if cost is not None and score is not None]
    if not placed:
        return None
    costs = [cost for _, cost, _ in placed]
    scale = _Scale.of(costs)
    points = [_point(row, scale(cost), score) for row, cost, score in placed]
    on_it = sorted((point for point in points if point.on_frontier), key=lambda point: point.x)
    return replace(
        _FRAME,
        x_ticks=tuple(Tick(scale(value), usd(value)) for value in scale.ticks()),
        y_ticks=tuple(Tick(_height_of(value), f"{value:.2f}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)),
        points=tuple(_apart(points)),
        frontier=" ".join(f"{point.x:.1f},{point.y:.1f}" for point in on_it),
        log_scale=scale.log,
        left_out=tuple(one_line(row.agent, 60) for row, cost, score in known if cost is None or score is None),
    )


def _height_of(score: float) -> float:
    return _FRAME.bottom - score * (_FRAME.bottom - _FRAME.top)


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, costs: Sequence[float]) -> _Scale:
        least, most = min(costs), max(costs)
        if least > 0 and most / least >= _LOG_FROM:
            return cls(10 ** math.floor(math.log10(least)), 10 ** math.ceil(math.log10(most)), True)
        return cls(0.0, most * 1.12 or 1.0, False)

    def __call__(self, cost: float) -> float:
        share = (cost - self.low) / (self.high - self.low)
        if self.log:
            share = math.log(cost / self.low) / math.log(self.high / self.low)
        return _FRAME.left + share * (_FRAME.right - _FRAME.left)

    def ticks(self) -> list[float]:
        if self.log:
            decades = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            return [10.0**each for each in decades]
        step = round_step(self.high, most=6)
        return [step * number for number in range(int(self.high / step) + 1)]


def _point(row: Row, x: float, score: float) -> Point:
    label = one_line(row.agent, 32)
    to_the_left = x + 10 + len(label) * _CHARACTER > _FRAME.right
    y = _height_of(score)
    return Point(
        label=label,
        on_frontier=row.on_frontier,
        x=x,
        y=y,
        low=y if row.score.low is None else _height_of(row.score.low),
        high=y if row.score.high is None else _height_of(row.score.high),
        label_x=x - 10 if to_the_left else x + 10,
        label_y=y - 10,  # above the line of the frontier
        anchor="end" if to_the_left else "start",
        description=f"{label}: score {score:.3f}, {usd(row.cost_per_trial_usd)} per trial",
    )


def _apart(points: Sequence[Point]) -> Iterator[Point]:
    """Move labels down until none covers another. Agents beyond the first have no label, only a description."""
    placed: list[tuple[float, float, float]] = []
    labelled = sorted(points, key=lambda point: not point.on_frontier)[:_MOST_LABELS]
    for point in sorted(points, key=lambda point: point.y):
        if point not in labelled:
            yield replace(point, label="")
            continue
        length = len(point.label) * _CHARACTER
        start = point.label_x - (length if point.anchor == "end" else 0)
        y = max(point.label_y, _FRAME.top + 4.0)
        while clash := [at for s, e, at in placed if s < start + length and start < e and abs(at - y) < _LABEL_HEIGHT]:
            y = max(clash) + _LABEL_HEIGHT + 0.1  # more than rounding takes away, or it would never end
        placed.append((start, start + length, y))
        yield replace(point, label_y=y)
