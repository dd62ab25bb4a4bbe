"""Render a comparison as one HTML page: the verdict, the differences as pictures, and every task with its trials."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from youbencha import __version__
from youbencha.report.charts import (
    SCORES,
    IntervalsPicture,
    Measured,
    RoundsPicture,
    TaskPicture,
    intervals_picture,
    rounds_picture,
    task_picture,
)
from youbencha.report.comparison_document import (
    FigureRow,
    certainty_lines,
    figure_rows,
    pair_remarks,
    shown_name,
    signed,
    verdict_sentence,
)
from youbencha.report.comparison_model import ComparisonReport, PairComparison, TaskComparison
from youbencha.report.formatting import remarks
from youbencha.report.html import Tile, render_page
from youbencha.report.leaderboard import SOLVED, capped_score
from youbencha.stats.model import Verdict
from youbencha.store.read import ArenaTrial
from youbencha.text import format_count, format_usd, one_line, plural

MAX_TRIALS = 20
"""Trials of one agent on one task that are shown; the JSON format has all of them."""
MAX_TASKS = 40
"""With more, only those with the largest differences are shown unfolded."""
_LOOKS: dict[Verdict, str] = {"better": "passed", "worse": "failed", "equivalent": "same", "undecided": "partial"}
_ICONS = {"passed": "#1a7f37", "failed": "#cf222e", "same": "#0a58ca", "partial": "#9a6700"}
_SEVERAL = "#57606a"


class _TrialRow(NamedTuple):
    agent: str
    trial: int
    outcome: str
    look: str
    """The class of the outcome's colours."""
    score: str
    links: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Task:
    name: str
    flaky: str
    """Who both solved and failed it."""
    first: str
    second: str
    difference: str
    look: str
    picture: TaskPicture
    trials: tuple[_TrialRow, ...]
    more_trials: int


@dataclass(frozen=True)
class _Tasks:
    """Sorted by difference. If there are many, those in the middle are folded."""

    top: tuple[_Task, ...]
    middle: tuple[_Task, ...] = ()
    bottom: tuple[_Task, ...] = ()


@dataclass(frozen=True)
class _Comparison:
    pair: PairComparison
    first: str
    second: str
    sentence: str
    look: str
    tiles: list[Tile]
    scores: IntervalsPicture
    values: list[IntervalsPicture]
    rounds: RoundsPicture | None
    tasks: _Tasks
    figures: list[FigureRow]
    certainty: list[str]
    remarks: list[str]


def render_comparison_html(report: ComparisonReport, base: Path) -> str:
    """Links to the files of a trial are relative to `base`."""
    shown = [_comparison(pair, report, base) for pair in report.comparisons]
    return render_page(
        "comparison.html",
        icon=_ICONS[shown[0].look] if len(shown) == 1 else _SEVERAL,
        report=report,
        runs=[one_line(run, 100) for run in report.runs],
        comparisons=shown,
        overview=overview_picture(report),
        score_ticks=SCORES.ticks(),
        remarks=[*remarks(report, max_listed=None), *_more_trials(report)],
        version=__version__,
    )


def _more_trials(report: ComparisonReport) -> list[str]:
    return [f"More trials: {report.more_trials_command}"] if report.more_trials_command else []


def _comparison(pair: PairComparison, report: ComparisonReport, base: Path) -> _Comparison:
    early, figures = pair.decided_early, list(figure_rows(pair))
    written = {row.label: row for row in figures}
    return _Comparison(
        pair=pair,
        first=shown_name(pair.first.name),
        second=shown_name(pair.second.name),
        sentence=verdict_sentence(pair, report.margin),
        look=_LOOKS[pair.verdict],
        tiles=list(_tiles(pair)),
        scores=intervals_picture(list(_both_intervals(pair, written)), report.margin),
        values=list(_values(pair, written)),
        rounds=rounds_picture(early.intervals, report.margin) if early and early.intervals else None,
        tasks=_tasks(pair, base),
        figures=figures,
        certainty=list(certainty_lines(pair, report)),
        remarks=list(pair_remarks(pair)),
    )


def overview_picture(report: ComparisonReport) -> IntervalsPicture:
    """All comparisons on one axis, each with its interval on these tasks."""
    return intervals_picture([_overview(comparison) for comparison in report.comparisons], report.margin)


def _overview(pair: PairComparison) -> Measured:
    difference, text = pair.difference, next(figure_rows(pair)).difference
    label = f"{shown_name(pair.first.name)} and {shown_name(pair.second.name)}"
    return Measured(label, difference.estimate, difference.on_these_tasks, text, pair.verdict)


def _both_intervals(pair: PairComparison, written: Mapping[str, FigureRow]) -> Iterator[Measured]:
    difference = pair.difference
    for name, interval, verdict in (
        ("on these tasks", difference.on_these_tasks, pair.verdict),
        ("on tasks like these", difference.on_tasks_like_these, difference.verdict_on_tasks_like_these),
    ):
        note = verdict if interval else f"no interval: {difference.reason or 'not known'}"
        yield Measured(name.capitalize(), difference.estimate, interval, written[f"Score {name}"].difference, note)


def _values(pair: PairComparison, written: Mapping[str, FigureRow]) -> Iterator[IntervalsPicture]:
    """Cost, time and tokens, each on its own axis; without those that are not known."""
    for label, values, unit in (
        ("Cost per trial", pair.cost_usd, "${}"),
        ("Time per trial", pair.duration_s, "{} s"),
        ("Tokens per trial", pair.tokens, "{}"),
    ):
        if values.difference is not None:
            row = written[label]
            note = ". ".join(filter(None, (f"{row.first} and {row.second}", values.reason)))
            measured = Measured(label, values.difference, values.interval, row.difference, note)
            yield intervals_picture([measured], unit=unit)


def _tiles(pair: PairComparison) -> Iterator[Tile]:
    difference, early = pair.difference, pair.decided_early
    yield Tile("Difference of scores", "unknown" if difference.estimate is None else signed(difference.estimate))
    lacking = len(pair.only_first) + len(pair.only_second)
    yield Tile(
        "Tasks compared",
        format_count(difference.tasks),
        f"{format_count(lacking)} more have one score only" if lacking else "",
    )
    one, two = pair.first.coverage, pair.second.coverage
    finished = f"of {format_count(one.finished)} + {format_count(two.finished)} finished"
    yield Tile("Valid trials", f"{format_count(one.valid)} + {format_count(two.valid)}", finished)
    if early is not None:
        note = f"after {plural(early.rounds, 'round')}"
        yield Tile("Trials saved", f"{format_count(early.saved)} of {format_count(early.max_trials)}", note)
    if difference.more_trials is not None:
        cost = pair.more_trials_cost_usd
        note = "" if cost is None else f"for about {format_usd(cost)}"
        yield Tile("More trials needed", f"about {format_count(difference.more_trials)}", note)


def _tasks(pair: PairComparison, base: Path) -> _Tasks:
    ordered = sorted(pair.tasks, key=lambda task: (-task.difference, task.task))
    listed = tuple(_task(task, pair, base) for task in ordered)
    if len(listed) <= MAX_TASKS:
        return _Tasks(listed)
    half = MAX_TASKS // 2
    return _Tasks(listed[:half], listed[half:-half], listed[-half:])


def _task(task: TaskComparison, pair: PairComparison, base: Path) -> _Task:
    sides = [(shown_name(pair.first.name), task.first), (shown_name(pair.second.name), task.second)]
    return _Task(
        name=shown_name(task.task),
        flaky=" and ".join(name for name, result in sides if result.flaky),
        first=f"{task.first.score:.2f}",
        second=f"{task.second.score:.2f}",
        difference=signed(task.difference),
        look="good" if task.difference > 0 else "bad" if task.difference < 0 else "dim",
        picture=task_picture(task),
        trials=tuple(_trial(name, trial, base) for name, result in sides for trial in result.trials[:MAX_TRIALS]),
        more_trials=sum(max(0, len(result.trials) - MAX_TRIALS) for _, result in sides),
    )


def _trial(agent: str, trial: ArenaTrial, base: Path) -> _TrialRow:
    meta, score = trial.meta, capped_score(trial.meta)
    outcome = meta.outcome or "unknown"
    look = "passed" if outcome == SOLVED else "partial" if meta.valid is False else "failed"
    files = (("diff", trial.diff), ("transcript", trial.log))
    return _TrialRow(
        agent=agent,
        trial=meta.trial,
        outcome=one_line(outcome.replace("_", " "), 30),
        look="" if meta.outcome is None else look,
        score="-" if score is None else f"{score:.3f}",
        links=tuple((name, os.path.relpath(path, base)) for name, path in files if path is not None),
    )
