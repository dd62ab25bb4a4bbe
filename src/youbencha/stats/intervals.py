"""Estimate how far a mean may be from the true one, for scores that are 0 or 1, graded, or anything between.

Student's interval is right for graded scores, and far too narrow for those that are only 0 or 1, or all the same: then
it may have no width at all. Agresti and Coull (1998), and Bonett and Price (2012) for differences, add pseudo-results
as far apart as results can be, half of them at each end. That is right for 0 and 1, and hides every difference between
graded scores. So the size of the pseudo-results depends on how discrete the results are: as large as can be if all are
0, 1 or tied; in proportion to the standard deviation if none is.

Tasks are a sample of all tasks that could be given, and trials of one task resemble each other. So the results are the
means of tasks: more trials of the same tasks do not make the interval narrow.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import comb
from statistics import NormalDist, fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from youbencha.stats.model import CONFIDENCE, Interval, PassOfK

POWER = 0.8
"""How often a true difference should be detected."""
TIE = 0.02
"""Results that differ by less are as good as equal."""
_EXACT = 1e-6
"""Small differences between graded scores are not ties: only what is the same is one."""
_DEVIATIONS = 1.75
"""The size of the pseudo-results among graded ones. With 1.5, skewed scores of 8 tasks have a coverage of 93.9%."""


class Quantiles(NamedTuple):
    tail: float
    """The probability on each side."""
    of_normal: float
    with_power: float
    """The difference that is detected with the wanted power, in standard errors."""

    @classmethod
    def of(cls, confidence: float) -> Quantiles:
        tail = (1 - confidence) / 2
        of_normal = NormalDist().inv_cdf(1 - tail)
        return cls(tail, of_normal, of_normal + NormalDist().inv_cdf(POWER))

    def of_t(self, degrees: float) -> float:
        from scipy.special import stdtrit  # type: ignore[import-untyped]  # takes 0.3 s to load

        return float(stdtrit(degrees, 1 - self.tail))

    def percentiles(self, drawn: NDArray[np.float64]) -> tuple[float, float]:
        low, high = np.quantile(drawn, (self.tail, 1 - self.tail))
        return float(low), float(high)


class Spread(NamedTuple):
    """How far an estimate, of something from -1 to 1, may be from the truth."""

    results: float
    """How many it rests on, without the pseudo-results."""
    variance: float
    """The observed variance of the estimate."""
    by_degrees: float
    """The squares of the parts of the variance, each divided by its degrees of freedom."""
    discrete: float
    """From 0, graded, to 1: all are 0, 1 or tied."""
    pseudo: float
    """How many pseudo-results to add."""
    max_degrees: float = math.inf
    """The most degrees of freedom to assume, as if the pseudo-results were not known for certain."""

    @property
    def size(self) -> float:
        """How far the pseudo-results are from 0."""
        deviation = math.sqrt(self.variance * self.results)
        return min(1.0, self.discrete + (1 - self.discrete) * _DEVIATIONS * deviation)

    def error(self, times: float = 1) -> float:
        """Return the standard error with the pseudo-results, of this many times as many trials."""
        results = self.results * times
        return math.sqrt(self.variance / times * results**2 + self.pseudo * self.size**2) / (results + self.pseudo)

    def interval(self, estimate: float, quantiles: Quantiles) -> tuple[float, float]:
        """Return the interval around the estimate, extended to the one around the estimate with the pseudo-results.

        As far as the results are graded, it is at least Student's.
        """
        kept = self.results / (self.results + self.pseudo)
        error = self.error()
        # Welch and Satterthwaite
        degrees = min((error / kept) ** 4 / self.by_degrees if self.by_degrees else math.inf, self.max_degrees)
        # What happens this often is not seen in so many results, in 5 of 100 cases.
        unseen = 1 - (2 * quantiles.tail) ** (1 / self.results)
        half = max(quantiles.of_t(degrees) * error, unseen * self.size)
        own_degrees = self.variance**2 / self.by_degrees if self.by_degrees else math.inf
        student = (1 - self.discrete) * quantiles.of_t(own_degrees or math.inf) * math.sqrt(self.variance)
        low = min(min(estimate, kept * estimate) - half, estimate - student)
        high = max(max(estimate, kept * estimate) + half, estimate + student)
        return max(-1.0, low), min(1.0, high)


def discreteness(*shares: float) -> float:
    """Return how discrete results are, by the shares of them that are 0 or 1, or tied.

    Squared: a few ties among graded scores are chance, and no reason to doubt all of them.
    """
    return max(shares) ** 2


def tied_share(results: Sequence[float], within: float = _EXACT) -> float:
    """Return the share of results that differ from the commonest one by less than this, itself not counted."""
    ordered = sorted(results)
    if len(ordered) < 2:
        return 0.0
    tied = max(bisect_left(ordered, value + within) - at for at, value in enumerate(ordered))
    return (tied - 1) / (len(ordered) - 1)


def sample_variance(values: Sequence[float]) -> float:
    """Much faster than that of `statistics`, which is exact."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


_PSEUDO_TASKS = 5
"""The number of tasks to add, half of them solved and half not. With 4, as of Agresti and Coull (1998), the 95%
interval of 2 to 9 tasks that are each solved or not holds some rates in only 91 to 93% of cases."""
_Z = 1.959963984540054
"""The quantile of the normal distribution for 95%."""
_DIGITS = 6


def mean_interval(scores_by_task: Mapping[str, Sequence[float]]) -> Interval:
    """Return the mean of the tasks' means. Scores are from 0 to 1; a task without scores is left out."""
    tasks = [scores for _, scores in sorted(scores_by_task.items()) if scores]
    means = [fmean(scores) for scores in tasks]
    if not means:
        return _no_interval(None, 0, "no task has a score")
    mean = fmean(means)
    if len(means) == 1:
        return _no_interval(mean, 1, "there is only one task")
    # From -1 to 1, as differences.
    shifted = [2 * mean - 1 for mean in means]
    squared_error = sample_variance(shifted) / len(shifted)
    extreme = fmean(fmean(not TIE < score < 1 - TIE for score in scores) for scores in tasks)
    discrete = discreteness(extreme, tied_share(means, TIE))
    by_degrees, max_degrees = squared_error**2 / (len(means) - 1), len(means) + _PSEUDO_TASKS - 2
    spread = Spread(len(means), squared_error, by_degrees, discrete, _PSEUDO_TASKS, max_degrees)
    low, high = ((end + 1) / 2 for end in spread.interval(2 * mean - 1, Quantiles.of(CONFIDENCE)))
    # Digits beyond these differ between computers, and say nothing.
    low, high = min(round(low, _DIGITS), mean), max(round(high, _DIGITS), mean)
    return Interval(mean=mean, low=low, high=high, unit="task", n=len(means), method="adjusted-t")


def pass_rate_interval(passed: int, trials: int) -> Interval:
    """Return the share of trials of one task that passed, with its Wilson interval."""
    if not trials:
        return Interval(mean=None, low=None, high=None, unit="trial", n=0, method=None, reason="there is no trial")
    low, high = wilson(passed / trials, trials)
    return Interval(mean=passed / trials, low=low, high=high, unit="trial", n=trials, method="wilson")


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return the Wilson score interval of a share of `n`."""
    weight = _Z * _Z / n
    centre = (share + weight / 2) / (1 + weight)
    half = _Z / (1 + weight) * math.sqrt(share * (1 - share) / n + weight / (4 * n))
    # At the ends, the interval includes the share itself, which rounding may miss.
    return min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half))


def _no_interval(mean: float | None, n: int, reason: str) -> Interval:
    return Interval(mean=mean, low=None, high=None, unit="task", n=n, method=None, reason=reason)


def passes_of_k(tasks: Sequence[tuple[int, int]], most: int) -> tuple[PassOfK, ...]:
    """Return the means over tasks, for each k up to `most`. A task is its number of trials, and of those that passed.

    Each task must have at least `most` trials.
    """
    return tuple(
        PassOfK(
            k=k,
            any=fmean(pass_at_k(*task, k) for task in tasks),
            all=fmean(pass_hat_k(*task, k) for task in tasks),
        )
        for k in range(1, most + 1)
    )


def pass_at_k(trials: int, passed: int, k: int) -> float:
    """Return the probability that at least one of `k` trials passes. Unbiased (Chen et al. 2021, equation 1).

    There must be at least `k` trials.
    """
    return 1 - comb(trials - passed, k) / comb(trials, k)


def pass_hat_k(trials: int, passed: int, k: int) -> float:
    """Return the probability that all of `k` trials pass: pass^k. Unbiased (Yao et al. 2024, tau-bench).

    There must be at least `k` trials.
    """
    return comb(passed, k) / comb(trials, k)


def is_flaky(trials: int, passed: int) -> bool:
    """Whether some trials of the same agent on the same task passed, and others did not."""
    return 0 < passed < trials
