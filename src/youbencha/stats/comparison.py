"""Compare two agents by what they did on the same tasks: by how much they differ, and whether that is real."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple

from youbencha.stats.intervals import CONFIDENCE
from youbencha.stats.significance import sign_flip_test
from youbencha.stats.spread import TIE, Quantiles, Spread, discreteness, sample_variance, tied_share

Verdict = Literal["better", "worse", "equivalent", "undecided"]
"""Of the first compared with the second."""
MARGIN = 0.05
_MAX_TRIALS = 1_000_000
"""For each task and agent. If more are needed, their number is not known."""
_PSEUDO_PAIRS = 3
"""To add, half with a positive difference and half with a negative one. Bonett and Price (2012) add 2: with these, 95 %
intervals for rates near 0 or 1 held the truth in only 92 to 94 % of simulated comparisons."""
_DIGITS = 6
"""Further ones differ between computers, and say nothing."""

NO_TASK = "no task has a score of both"
ONE_TASK = "there is only one task"


class TaskScores(NamedTuple):
    """The scores of the valid trials of both on one task, each from 0 to 1; or other figures that are at least 0."""

    task: str
    first: tuple[float, ...]
    second: tuple[float, ...]


class DifferenceInterval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What the difference would be if every missing or retried trial of one agent had the same score."""

    estimate: float
    on_these_tasks: DifferenceInterval
    on_tasks_like_these: DifferenceInterval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingBounds:
    """How far the missing and retried trials of an agent could change a difference."""

    of_first: bool
    """Whether the agent is the first; else the second."""
    missing: int
    """The number of planned trials without a valid result."""
    retried: int = 0
    """The number of trials that are valid only after an attempt that was not."""
    trials: int
    """All trials of the agent, the missing ones included."""
    if_failed: Bound
    if_solved: Bound

    @property
    def uncertain(self) -> int:
        return self.missing + self.retried

    @property
    def both(self) -> tuple[Bound, Bound]:
        return self.if_failed, self.if_solved


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first's mean score less the second's, over the tasks that both have scores for."""

    estimate: float | None
    on_these_tasks: DifferenceInterval | None
    """If the same tasks were run again, without end."""
    on_tasks_like_these: DifferenceInterval | None
    """If other tasks of the same kind were run: the tasks are a sample, too."""
    p_value: float | None
    """Of the exact sign-flip test over tasks."""
    tasks: int
    verdict: Verdict
    """On these tasks."""
    verdict_on_tasks_like_these: Verdict
    more_trials: int | None
    """About how many more trials, of both together, would decide on these tasks. None: it is decided, or not known."""
    detectable: float | None
    """The smallest difference that this many trials find in 80 of 100 cases. None: not even 1."""
    reason: str | None = None
    """Why there is no estimate or no interval."""
    bounds: MissingBounds | None = None
    """The bounds of the agent whose missing trials count most against the verdict. None: no trial is missing."""
    overturned: bool = False
    """Whether it would be decided if no trial were missing or retried, and is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifference:
    """Of a figure such as cost or time: the first's mean less the second's, over the tasks for which both are known."""

    first: float | None
    second: float | None
    difference: float | None
    interval: DifferenceInterval | None
    """On tasks like these."""
    ratio: float | None
    """The first's mean divided by the second's. None: not known, or the second's is 0."""
    ratio_interval: DifferenceInterval | None
    tasks: int
    reason: str | None = None
    """Why there is no difference or no interval."""


def verdict_of(interval: DifferenceInterval | None, margin: float) -> Verdict:
    """Judge a difference by its interval."""
    if interval is None:
        return "undecided"
    if -margin <= interval.low and interval.high <= margin:
        return "equivalent"
    return "better" if interval.low > 0 else "worse" if interval.high < 0 else "undecided"


def compare_scores(
    tasks: Sequence[TaskScores], *, margin: float = MARGIN, confidence: float = CONFIDENCE
) -> Difference:
    """Compare two agents. Tasks for which one of them has no score are left out."""
    common = _common(tasks)
    if not common:
        return Difference(
            estimate=None,
            on_these_tasks=None,
            on_tasks_like_these=None,
            p_value=None,
            tasks=0,
            verdict="undecided",
            verdict_on_tasks_like_these="undecided",
            more_trials=None,
            detectable=None,
            reason=NO_TASK,
        )
    quantiles = Quantiles.of(confidence)
    means = _differences(common)
    spread = _spread_on_these_tasks(common, quantiles)
    estimate, these, like_these = fmean(means), *_intervals(common, spread, quantiles)
    verdict = verdict_of(these, margin)
    detectable = quantiles.with_power * spread.error()
    return Difference(
        estimate=estimate,
        on_these_tasks=these,
        on_tasks_like_these=like_these,
        p_value=sign_flip_test(means),
        tasks=len(common),
        verdict=verdict,
        verdict_on_tasks_like_these=verdict_of(like_these, margin),
        more_trials=_more_trials(common, spread, estimate, margin, quantiles) if verdict == "undecided" else None,
        detectable=detectable if detectable <= 1 else None,
        reason=None if like_these else ONE_TASK,
    )


def estimate_difference(tasks: Sequence[TaskScores], *, confidence: float = CONFIDENCE) -> Bound:
    """Return the difference with its intervals only. There must be a task with scores of both."""
    common, quantiles = _common(tasks), Quantiles.of(confidence)
    these, like_these = _intervals(common, _spread_on_these_tasks(common, quantiles), quantiles)
    return Bound(estimate=fmean(_differences(common)), on_these_tasks=these, on_tasks_like_these=like_these)


def compare_values(tasks: Sequence[TaskScores], *, confidence: float = CONFIDENCE) -> ValueDifference:
    """Compare two agents by a figure that has no upper limit. What is not known is not among the figures."""
    import numpy as np

    from youbencha.stats.resampling import resample

    common = _common(tasks)
    if not common:
        return ValueDifference(
            first=None, second=None, difference=None, interval=None, ratio=None, ratio_interval=None, tasks=0,
            reason="not known for any task of both",
        )  # fmt: skip
    firsts, seconds = ([fmean(scores) for scores in side] for side in _both(common))
    first, second = fmean(firsts), fmean(seconds)
    ratio = first / second if second else None
    interval = ratio_interval = None
    if len(common) > 1:
        quantiles = Quantiles.of(confidence)
        drawn = resample(*_both(common))
        differences = np.asarray(firsts) - seconds
        half = quantiles.of_t(len(common) - 1) * math.sqrt(differences.var(ddof=1) / len(common))
        low, high = quantiles.percentiles(drawn.first - drawn.second)
        interval = _rounded(min(low, first - second - half), max(high, first - second + half))
        if ratio and drawn.second.min() > 0 and drawn.first.min() > 0:
            # The logarithm of a ratio is nearer to a normal distribution than the ratio.
            relative = np.asarray(firsts) / first - np.asarray(seconds) / second
            factor = math.exp(quantiles.of_t(len(common) - 1) * math.sqrt(relative.var(ddof=1) / len(common)))
            low, high = quantiles.percentiles(drawn.first / drawn.second)
            ratio_interval = _rounded(min(low, ratio / factor), max(high, ratio * factor))
    return ValueDifference(
        first=first,
        second=second,
        difference=first - second,
        interval=interval,
        ratio=ratio,
        ratio_interval=ratio_interval,
        tasks=len(common),
        reason=None if interval else ONE_TASK,
    )


def _differences(common: Sequence[TaskScores]) -> list[float]:
    return [fmean(task.first) - fmean(task.second) for task in common]


def _intervals(
    common: Sequence[TaskScores], spread: Spread, quantiles: Quantiles
) -> tuple[DifferenceInterval, DifferenceInterval | None]:
    """Return the intervals on these tasks and on tasks like these."""
    these = _rounded(*spread.interval(fmean(_differences(common)), quantiles))
    return these, _on_tasks_like_these(common, these, quantiles)


def _spread_on_these_tasks(common: Sequence[TaskScores], quantiles: Quantiles) -> Spread:
    """The tasks are fixed: only trials vary, within each task and agent.

    One trial of a task does not say how its trials vary. For such a task, the distance of its difference from the mean
    over tasks is used. That includes how tasks differ: it is too much, never too little.
    """
    tasks = len(common)
    differences = _differences(common)
    mean = fmean(differences)
    within = between = by_degrees = 0.0
    single = 0
    for task, difference in zip(common, differences, strict=True):
        if min(len(task.first), len(task.second)) == 1:
            single += 1
            between += (difference - mean) ** 2 * tasks / max(1, tasks - 1)
            continue
        for scores in (task.first, task.second):
            variance = sample_variance(scores) / len(scores)
            within += variance
            by_degrees += variance**2 / (len(scores) - 1)
    by_degrees += between**2 / max(1, single - 1)
    pairs = _least_pairs(common, quantiles)
    discrete = discreteness(_extreme_share(common), _tied_trials(common, differences))
    return Spread(pairs, (within + between) / tasks**2, by_degrees / tasks**4, discrete, _PSEUDO_PAIRS)


def _extreme_share(common: Sequence[TaskScores]) -> float:
    """Return the share of pairs of trials that differ by nothing, or by all that scores can differ."""
    return fmean(fmean(_extreme(first, task.second) for first in task.first) / len(task.second) for task in common)


def _extreme(score: float, others: Sequence[float]) -> int:
    """Count those of the sorted scores that are as good as equal to one, or at the other end."""
    equal = bisect_left(others, score + TIE) - bisect_right(others, score - TIE)
    opposite = bisect_left(others, score - 1 + TIE) + len(others) - bisect_right(others, score + 1 - TIE)
    return equal + opposite


def _tied_trials(common: Sequence[TaskScores], differences: Sequence[float]) -> float:
    """Return the share of tied trials of the same task and agent; of single trials, that of tied differences."""
    cells = [scores for task in common for scores in (task.first, task.second) if len(scores) > 1]
    return fmean(map(tied_share, cells)) if cells else tied_share(differences)


def _least_pairs(common: Sequence[TaskScores], quantiles: Quantiles) -> float:
    """Return how many pairs of trials there are. If tasks have different numbers, those with fewer count for more.

    What was not seen is likeliest to be where least was looked: the weight of a pair is that of the first few pairs
    if the tasks with the fewest come first.
    """
    wanted = left = quantiles.of_normal * math.sqrt(_PSEUDO_PAIRS)
    sizes = sorted(min(len(task.first), len(task.second)) for task in common)
    weights = 0.0
    for size in sizes:
        taken = min(left, size)
        weights += taken / size
        left -= taken
    return wanted * len(common) / (weights + left / sizes[-1])


def _on_tasks_like_these(
    common: Sequence[TaskScores], on_these: DifferenceInterval, quantiles: Quantiles
) -> DifferenceInterval | None:
    """The tasks are a sample, too. What is not known about these tasks is not known about others."""
    tasks = len(common)
    if tasks == 1:
        return None
    differences = _differences(common)
    variance = sample_variance(differences) / tasks
    discrete = discreteness(_extreme_share(common), tied_share(differences))
    spread = Spread(tasks, variance, variance**2 / (tasks - 1), discrete, _PSEUDO_PAIRS)
    low, high = spread.interval(fmean(differences), quantiles)
    return _rounded(min(low, on_these.low), max(high, on_these.high))


def _more_trials(
    common: Sequence[TaskScores], spread: Spread, estimate: float, margin: float, quantiles: Quantiles
) -> int | None:
    """Return how many trials would probably decide, the same number for each task and agent, if the estimate is right.

    The difference is then far enough from 0, or far enough from the margin.
    """
    target = max(abs(estimate), margin - abs(estimate))
    trials, one_each = sum(len(task.first) + len(task.second) for task in common), 2 * len(common)

    def is_enough(more: int) -> bool:
        return spread.error(1 + more * one_each / trials) * quantiles.with_power <= target

    return (1 + bisect_left(range(1, _MAX_TRIALS), True, key=is_enough)) * one_each if is_enough(_MAX_TRIALS) else None


def _common(tasks: Sequence[TaskScores]) -> list[TaskScores]:
    """Sorted in every respect, so that no order matters."""
    return [
        TaskScores(task.task, tuple(sorted(task.first)), tuple(sorted(task.second)))
        for task in sorted(tasks)
        if task.first and task.second
    ]


def _both(common: Sequence[TaskScores]) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    return [task.first for task in common], [task.second for task in common]


def _rounded(low: float, high: float) -> DifferenceInterval:
    return DifferenceInterval(round(low, _DIGITS), round(high, _DIGITS))
