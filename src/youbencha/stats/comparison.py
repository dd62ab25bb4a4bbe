"""Compare two agents by what they did on the same tasks: by how much they differ, and whether that is real."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

from youbencha.stats.intervals import CONFIDENCE
from youbencha.stats.significance import sign_flip_test
from youbencha.stats.student import student_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Verdict = Literal["better", "worse", "equivalent", "undecided"]
"""Of the first compared with the second."""
MARGIN = 0.05
POWER = 0.8
"""How often a difference should be found that is there."""
_MOST_TRIALS = 1_000_000
"""For each task and agent. If more are needed, their number is not known."""
_PSEUDO_PAIRS = 3
"""To add, half with the difference 1 and half with -1. Bonett and Price (2012) add 2: with these, 95 % intervals for
rates near 0 or 1 held the truth in only 92 to 94 % of simulated comparisons."""
_DIGITS = 6
"""Further ones differ between computers, and say nothing after 10,000 resamples."""

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
    quantiles = _Quantiles.of(confidence)
    means = [fmean(each.first) - fmean(each.second) for each in common]
    estimate = fmean(means)
    spread = _spread_on_these_tasks(common, quantiles)
    these = spread.interval(estimate, quantiles)
    like_these = _on_tasks_like_these(common, these, quantiles)
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
    firsts, seconds = ([fmean(scores) for scores in some] for some in _both(common))
    first, second = fmean(firsts), fmean(seconds)
    ratio = first / second if second else None
    interval = ratio_interval = None
    if len(common) > 1:
        quantiles = _Quantiles.of(confidence)
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


class _Quantiles(NamedTuple):
    tail: float
    """On each side."""
    of_normal: float
    with_power: float
    """The difference that is found with the wanted power, in standard errors."""

    @classmethod
    def of(cls, confidence: float) -> _Quantiles:
        tail = (1 - confidence) / 2
        of_normal = NormalDist().inv_cdf(1 - tail)
        return cls(tail, of_normal, of_normal + NormalDist().inv_cdf(POWER))

    def of_t(self, degrees: float) -> float:
        return student_quantile(1 - self.tail, degrees)

    def percentiles(self, drawn: NDArray[np.float64]) -> tuple[float, float]:
        import numpy as np

        low, high = np.quantile(drawn, (self.tail, 1 - self.tail))
        return float(low), float(high)


class _Spread(NamedTuple):
    """How far an estimated difference may be from the true one."""

    pairs: float
    """What it rests on, without the pseudo-pairs."""
    variance: float
    """As observed."""
    by_degrees: float
    """The squares of the parts of the variance, each divided by its degrees of freedom."""

    def error(self, times: float = 1) -> float:
        """Return the standard error with the pseudo-pairs, of this many times as many trials."""
        pairs = self.pairs * times
        return math.sqrt(self.variance / times * pairs**2 + _PSEUDO_PAIRS) / (pairs + _PSEUDO_PAIRS)

    def interval(self, estimate: float, quantiles: _Quantiles) -> DifferenceInterval:
        """Return the interval around the estimate, extended to the one around the estimate with the pseudo-pairs."""
        kept = self.pairs / (self.pairs + _PSEUDO_PAIRS)
        error = self.error()
        # Welch and Satterthwaite; the pseudo-pairs are certain.
        degrees = (error / kept) ** 4 / self.by_degrees if self.by_degrees else math.inf
        # What happens this often is not seen in so many pairs, in 5 of 100 cases.
        unseen = 1 - (2 * quantiles.tail) ** (1 / self.pairs)
        half = max(quantiles.of_t(degrees) * error, unseen)
        low, high = min(estimate, kept * estimate) - half, max(estimate, kept * estimate) + half
        return _rounded(max(-1.0, low), min(1.0, high))


def _spread_on_these_tasks(common: Sequence[TaskScores], quantiles: _Quantiles) -> _Spread:
    """The tasks are fixed: only trials vary, within each task and agent.

    One trial of a task does not say how its trials vary. For such a task, the distance of its difference from the mean
    over tasks is used. That includes how tasks differ: it is too much, never too little.
    """
    tasks = len(common)
    differences = [fmean(each.first) - fmean(each.second) for each in common]
    mean = fmean(differences)
    within = between = by_degrees = 0.0
    single = 0
    for each, difference in zip(common, differences, strict=True):
        if min(len(each.first), len(each.second)) == 1:
            single += 1
            between += (difference - mean) ** 2 * tasks / max(1, tasks - 1)
            continue
        for scores in (each.first, each.second):
            variance = _variance(scores) / len(scores)
            within += variance
            by_degrees += variance**2 / (len(scores) - 1)
    by_degrees += between**2 / max(1, single - 1)
    return _Spread(_least_pairs(common, quantiles), (within + between) / tasks**2, by_degrees / tasks**4)


def _least_pairs(common: Sequence[TaskScores], quantiles: _Quantiles) -> float:
    """Return how many pairs of trials there are. If tasks have different numbers, those with fewer count for more.

    What was not seen is likeliest to be where least was looked: the weight of a pair is that of the first few pairs
    if the tasks with the fewest come first.
    """
    wanted = left = quantiles.of_normal * math.sqrt(_PSEUDO_PAIRS)
    sizes = sorted(min(len(each.first), len(each.second)) for each in common)
    weights = 0.0
    for size in sizes:
        taken = min(left, size)
        weights += taken / size
        left -= taken
    return wanted * len(common) / (weights + left / sizes[-1])


def _on_tasks_like_these(
    common: Sequence[TaskScores], on_these: DifferenceInterval, quantiles: _Quantiles
) -> DifferenceInterval | None:
    """The bootstrap of tasks and trials, at least as wide as the t interval with the pseudo-pairs as further tasks.

    The bootstrap alone is too narrow for few tasks: if all have the same difference, so has every resample. And what is
    not known about these tasks is not known about others.
    """
    from youbencha.stats.resampling import resample

    tasks = len(common)
    if tasks == 1:
        return None
    drawn = resample(*_both(common))
    low, high = quantiles.percentiles(drawn.first - drawn.second)
    differences = [fmean(each.first) - fmean(each.second) for each in common]
    variance = _variance(differences) / tasks
    by_t = _Spread(tasks, variance, variance**2 / (tasks - 1)).interval(fmean(differences), quantiles)
    return _rounded(min(low, by_t.low, on_these.low), max(high, by_t.high, on_these.high))


def _more_trials(
    common: Sequence[TaskScores], spread: _Spread, estimate: float, margin: float, quantiles: _Quantiles
) -> int | None:
    """Return how many trials would probably decide, the same number for each task and agent, if the estimate is right.

    The difference is then far enough from 0, or far enough from the margin.
    """
    target = max(abs(estimate), margin - abs(estimate))
    trials, one_each = sum(len(each.first) + len(each.second) for each in common), 2 * len(common)

    def found(more: int) -> bool:
        return spread.error(1 + more * one_each / trials) * quantiles.with_power <= target

    return (1 + bisect_left(range(1, _MOST_TRIALS), True, key=found)) * one_each if found(_MOST_TRIALS) else None


def _common(tasks: Sequence[TaskScores]) -> list[TaskScores]:
    """Sorted in every respect, so that no order matters."""
    return [
        TaskScores(each.task, tuple(sorted(each.first)), tuple(sorted(each.second)))
        for each in sorted(tasks)
        if each.first and each.second
    ]


def _both(common: Sequence[TaskScores]) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    return [each.first for each in common], [each.second for each in common]


def _variance(values: Sequence[float]) -> float:
    """Of a sample. Much faster than that of `statistics`, which is exact."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _rounded(low: float, high: float) -> DifferenceInterval:
    return DifferenceInterval(round(low, _DIGITS), round(high, _DIGITS))
