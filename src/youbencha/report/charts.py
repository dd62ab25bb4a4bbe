"""Lay out charts: intervals, tasks and rounds of a comparison, and cost against score of a leaderboard.

Places along an axis are percentages of the width, so that a chart fits a phone, with text of the usual size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from youbencha.report.comparison_model import TaskComparison
from youbencha.report.leaderboard import Row, capped_score, is_scored
from youbencha.stats.model import DifferenceInterval
from youbencha.store.read import ArenaTrial
from youbencha.text import first_few, format_usd, one_line, plural

_ROOM = 0.06
"""Left free at both ends, as a share of the values' range."""


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`. Places on it are percentages: a picture of any width uses the same ones."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float]) -> Axis:
        """Return an axis on which zero and all of these values are."""
        listed = [0.0, *values]
        room = (max(listed) - min(listed)) * _ROOM or 1.0
        return cls(min(listed) - room, max(listed) + room)

    def at(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low) * 100

    def ticks(self, unit: str = "{}", *, signed: bool = False, most: int = 7) -> tuple[Tick, ...]:
        """Return at most about so many round numbers. `unit` is what to write around them."""
        step = round_step(self.high - self.low, most)
        numbers = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        return tuple(Tick(self.at(number * step), _label(number * step, unit, signed)) for number in numbers)


def _label(value: float, unit: str, signed: bool) -> str:
    sign = "-" if value < 0 else "+" if value > 0 and signed else ""
    return sign + unit.format(f"{abs(value):,.10g}")


def round_step(length: float, most: int) -> float:
    """Return 1, 2 or 5 times a power of ten, so that a length has at most so many steps."""
    step: float = 10 ** math.floor(math.log10(length / most))
    return next(step * factor for factor in (1, 2, 5, 10) if length / (step * factor) <= most)


_MAX_LABELS = 30
_MANY_ROUNDS = 400
"""A picture has no room for more points."""
_MAX_RADIUS = 7.0


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


def _dots(trials: Sequence[ArenaTrial]) -> Iterator[Dot]:
    counted = Counter(round(score, 3) for score in _valid_scores(trials))
    for score, number in sorted(counted.items()):
        radius = min(2.6 * math.sqrt(number), _MAX_RADIUS)
        yield Dot(SCORES.at(score), round(radius, 1), f"{plural(number, 'trial')} with {score:.3f}")


def _scores(trials: Sequence[ArenaTrial]) -> str:
    return first_few([f"{score:.2f}" for score in _valid_scores(trials)])


def _valid_scores(trials: Sequence[ArenaTrial]) -> list[float]:
    return [capped_score(trial.meta) or 0.0 for trial in trials if is_scored(trial.meta)]


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
        x_ticks=tuple(Tick(scale(value), format_usd(value)) for value in scale.ticks()),
        y_ticks=tuple(Tick(_score_height(value), f"{value:.2f}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)),
        points=tuple(_apart(points)),
        frontier=" ".join(f"{point.x:.1f},{point.y:.1f}" for point in on_it),
        log_scale=scale.log,
        left_out=tuple(one_line(row.agent, 60) for row, cost, score in known if cost is None or score is None),
    )


def _score_height(score: float) -> float:
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
            return [10.0**decade for decade in decades]
        step = round_step(self.high, most=6)
        return [step * number for number in range(int(self.high / step) + 1)]


def _point(row: Row, x: float, score: float) -> Point:
    label = one_line(row.agent, 32)
    to_the_left = x + 10 + len(label) * _CHARACTER > _FRAME.right
    y = _score_height(score)
    return Point(
        label=label,
        on_frontier=row.on_frontier,
        x=x,
        y=y,
        low=y if row.score.low is None else _score_height(row.score.low),
        high=y if row.score.high is None else _score_height(row.score.high),
        label_x=x - 10 if to_the_left else x + 10,
        label_y=y - 10,  # above the line of the frontier
        anchor="end" if to_the_left else "start",
        description=f"{label}: score {score:.3f}, {format_usd(row.cost_per_trial_usd)} per trial",
    )


def _apart(points: Sequence[Point]) -> Iterator[Point]:
    """Move labels down until none covers another. Agents beyond the first have no label, only a description."""
    placed: list[tuple[float, float, float]] = []
    labelled = sorted(points, key=lambda point: not point.on_frontier)[:_MAX_LABELS]
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
