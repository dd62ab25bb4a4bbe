"""Lay out the pictures of a comparison: intervals, tasks, and the confidence sequence over its rounds.

Places along an axis are percentages of the width, so that a picture fits a phone, with text of the usual size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from youbencha.report.axis import Axis, Tick
from youbencha.report.comparison_model import ComparedTrial, TaskComparison
from youbencha.stats.comparison import DifferenceInterval
from youbencha.text import first_few, plural

_MANY_ROUNDS = 400
"""A picture has no room for more points."""
_LARGEST_DOT = 7.0


@dataclass(frozen=True)
class Extent:
    """From one place to another."""

    start: float
    width: float


@dataclass(frozen=True)
class Measured:
    """A difference to draw: its name, and how it is written."""

    label: str
    estimate: float | None
    interval: DifferenceInterval | None
    text: str
    note: str = ""


@dataclass(frozen=True)
class IntervalLane:
    """A difference with its interval."""

    measured: Measured
    estimate: float | None
    interval: Extent | None


@dataclass(frozen=True)
class IntervalsPicture:
    """Differences below each other, on one axis, with the zero line and the margin."""

    lanes: tuple[IntervalLane, ...]
    zero: float
    margin: Extent | None
    ticks: tuple[Tick, ...]


def intervals_picture(rows: Sequence[Measured], margin: float | None = None, unit: str = "{}") -> IntervalsPicture:
    known = [value for row in rows for value in (row.estimate, *(row.interval or ())) if value is not None]
    axis = Axis.around([*known, *((-margin, margin) if margin is not None else ())])
    return IntervalsPicture(
        lanes=tuple(
            IntervalLane(
                row,
                None if row.estimate is None else axis.at(row.estimate),
                _span(axis, *row.interval) if row.interval else None,
            )
            for row in rows
        ),
        zero=axis.at(0),
        margin=None if margin is None else _span(axis, -margin, margin),
        ticks=axis.ticks(unit, signed=True),
    )


def _span(axis: Axis, low: float, high: float) -> Extent:
    return Extent(axis.at(low), axis.at(high) - axis.at(low))


@dataclass(frozen=True)
class Dot:
    """Trials with the same score: the more, the larger."""

    at: float
    radius: float
    description: str


@dataclass(frozen=True)
class TaskPicture:
    """Both means of a task, joined by a line, with the trials as dots: the first's above, the second's below."""

    first: float
    second: float
    first_dots: tuple[Dot, ...]
    second_dots: tuple[Dot, ...]
    description: str


SCORES = Axis(0, 1)


def task_picture(task: TaskComparison) -> TaskPicture:
    return TaskPicture(
        first=SCORES.at(task.first.score),
        second=SCORES.at(task.second.score),
        first_dots=tuple(_dots(task.first.trials)),
        second_dots=tuple(_dots(task.second.trials)),
        description=f"Scores of the trials: {_scores(task.first.trials)} and {_scores(task.second.trials)}",
    )


def _dots(trials: Sequence[ComparedTrial]) -> Iterator[Dot]:
    counted = Counter(round(score, 3) for score in _valid_scores(trials))
    for score, number in sorted(counted.items()):
        radius = min(2.6 * math.sqrt(number), _LARGEST_DOT)
        yield Dot(SCORES.at(score), round(radius, 1), f"{plural(number, 'trial')} with {score:.3f}")


def _scores(trials: Sequence[ComparedTrial]) -> str:
    return first_few([f"{score:.2f}" for score in _valid_scores(trials)])


def _valid_scores(trials: Sequence[ComparedTrial]) -> list[float]:
    return [min(each.score, 1.0) for each in trials if each.valid is not False and each.score is not None]


@dataclass(frozen=True)
class RoundsPicture:
    """The confidence sequence: the interval after each round, in coordinates from 0 to 100 in both directions."""

    area: str
    """The corners of the polygon between the lower and the upper ends."""
    low: str
    high: str
    zero: float
    margin: Extent
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def rounds_picture(intervals: Sequence[DifferenceInterval], margin: float) -> RoundsPicture:
    """Lay out the interval after each round; before the first, nothing is known, and it is from -1 to 1."""
    path = [DifferenceInterval(-1, 1), *intervals]
    every = -(-len(path) // _MANY_ROUNDS)
    shown = [*range(0, len(path) - 1, every), len(path) - 1]
    rounds, scale = Axis(0, len(intervals)), Axis(-1, 1)
    low, high = ([f"{rounds.at(at):.2f},{100 - scale.at(path[at][end]):.2f}" for at in shown] for end in (0, 1))
    return RoundsPicture(
        area=" ".join([*low, *reversed(high)]),
        low=" ".join(low),
        high=" ".join(high),
        zero=100 - scale.at(0),
        margin=Extent(100 - scale.at(margin), scale.at(margin) - scale.at(-margin)),
        x_ticks=rounds.ticks(most=min(6, len(intervals))),
        y_ticks=tuple(Tick(100 - tick.at, tick.label) for tick in scale.ticks(signed=True, most=4)),
    )
