"""95 % intervals for a mean score over tasks, and for a pass rate.

Tasks are a sample of all tasks that could be given, and trials of one task resemble each other. So the results are the
means of tasks: more trials of the same tasks do not make the interval narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from youbencha.stats.spread import TIE, Quantiles, Spread, discreteness, sample_variance, tied_share

CONFIDENCE = 0.95

_PSEUDO_TASKS = 5
"""To add, half of them solved and half not. With 4, as of Agresti and Coull (1998), the 95 % interval of 2 to 9 tasks
that are each solved or not holds some rates in only 91 to 93 % of cases."""
_Z = 1.959963984540054
"""Of the normal distribution, for 95 %."""
_DIGITS = 6

Unit = Literal["task", "trial"]
Method = Literal["adjusted-t", "wilson"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean with its 95 % interval."""

    mean: float | None
    low: float | None
    high: float | None
    unit: Unit
    """What was counted."""
    n: int
    """How many units."""
    method: Method | None
    reason: str | None = None
    """Why there is no mean, or no interval."""


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
