"""95 % intervals for a mean score over tasks, and for a pass rate.

Tasks are a sample of all tasks that could be given, and trials of one task resemble each other. So the mean over tasks
is resampled by task: more trials of the same tasks do not make the interval narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 10_000
FEW_TASKS = 20
"""Below, the bootstrap alone is too narrow: with 8 of 8 solved, every resample has the mean 1."""

_SEED = 20240117
_Z = 1.959963984540054
"""Of the normal distribution, for 95 %."""
_DIGITS = 6
_MOST_DRAWS = 2_000_000
"""At the same time: 16 MB."""

Unit = Literal["task", "trial"]
Method = Literal["bootstrap", "bootstrap+wilson", "wilson"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean with its 95 % interval."""

    mean: float | None
    low: float | None
    high: float | None
    unit: Unit
    """What was resampled, or counted."""
    n: int
    """How many units."""
    method: Method | None
    reason: str | None = None
    """Why there is no mean, or no interval."""


def mean_interval(scores_by_task: Mapping[str, Sequence[float]]) -> Interval:
    """Return the mean of the tasks' means. Scores are from 0 to 1; a task without scores is left out.

    With few tasks, or if all have the same mean, the Wilson interval for as many tasks is the least width. It holds for
    scores between 0 and 1, too, because their variance is at most that of a proportion with the same mean.
    """
    means = [fmean(scores) for _, scores in sorted(scores_by_task.items()) if scores]
    if not means:
        return _no_interval(None, 0, "no task has a score")
    mean = fmean(means)
    if len(means) == 1:
        return _no_interval(mean, 1, "there is only one task")
    low, high = _bootstrap(means)
    method: Method = "bootstrap"
    if len(means) < FEW_TASKS or min(means) == max(means):
        wilson_low, wilson_high = wilson(mean, len(means))
        low, high, method = min(low, wilson_low), max(high, wilson_high), "bootstrap+wilson"
    # Digits beyond these differ between computers, and say nothing after 10,000 resamples.
    low, high = min(round(low, _DIGITS), mean), max(round(high, _DIGITS), mean)
    return Interval(mean=mean, low=low, high=high, unit="task", n=len(means), method=method)


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


def _bootstrap(means: Sequence[float]) -> tuple[float, float]:
    """Return the percentile interval. The seed is fixed, so that a report is the same each time."""
    import numpy as np

    values, n = np.asarray(means), len(means)
    at_once = max(1, _MOST_DRAWS // n)
    # Unlike `@`, einsum starts no threads: with other work on the machine, those took ten times as long.
    parts = [
        np.einsum("ij,j->i", _resamples(n, start, min(at_once, RESAMPLES - start)), values)
        for start in range(0, RESAMPLES, at_once)
    ]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(parts), (tail, 1 - tail))
    return float(low), float(high)


@lru_cache(maxsize=4)
def _resamples(n: int, start: int, rows: int) -> NDArray[np.float64]:
    """Return the weight of each task in each resample. Agents mostly have the same tasks, and use the same ones."""
    import numpy as np

    drawn = np.random.default_rng((_SEED, n, start)).integers(0, n, size=(rows, n))
    drawn += np.arange(rows)[:, None] * n
    return np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n) / n
