"""How far an estimated mean may be from the true one, for scores that are 0 or 1, graded, or anything between.

Student's interval is right for graded scores, and far too narrow for those that are only 0 or 1, or all the same: then
it may have no width at all. Agresti and Coull (1998), and Bonett and Price (2012) for differences, add pseudo-results
as far apart as results can be, half of them at each end. That is right for 0 and 1, and hides every difference between
graded scores. So the size of the pseudo-results depends on how discrete the results are: as large as can be if all are
0, 1 or tied; in proportion to the standard deviation if none is.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, NamedTuple

from youbencha.stats.student import student_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POWER = 0.8
"""How often a difference should be found that is there."""
TIE = 0.02
"""Results that differ by less are as good as equal."""
_EXACT = 1e-6
"""Small differences between graded scores are not ties: only what is the same is one."""
_DEVIATIONS = 1.75
"""The size of the pseudo-results among graded ones. With 1.5, skewed scores of 8 tasks have a coverage of 93.9 %."""


class Quantiles(NamedTuple):
    tail: float
    """On each side."""
    of_normal: float
    with_power: float
    """The difference that is found with the wanted power, in standard errors."""

    @classmethod
    def of(cls, confidence: float) -> Quantiles:
        tail = (1 - confidence) / 2
        of_normal = NormalDist().inv_cdf(1 - tail)
        return cls(tail, of_normal, of_normal + NormalDist().inv_cdf(POWER))

    def of_t(self, degrees: float) -> float:
        return student_quantile(1 - self.tail, degrees)

    def percentiles(self, drawn: NDArray[np.float64]) -> tuple[float, float]:
        import numpy as np

        low, high = np.quantile(drawn, (self.tail, 1 - self.tail))
        return float(low), float(high)


class Spread(NamedTuple):
    """How far an estimate, of something from -1 to 1, may be from the truth."""

    results: float
    """How many it rests on, without the pseudo-results."""
    variance: float
    """Of the estimate, as observed."""
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
