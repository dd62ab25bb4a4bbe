"""A confidence sequence for the difference of two agents: valid at every look, so that trials may stop at any time.

It bets against each possible mean of the differences, which are from -1 to 1 (Waudby-Smith and Ramdas 2024). Who bets
against the true mean rarely wins: the probability that the capital ever grows to 1 / p times what it was is at most p.
So a mean is excluded once betting against it has won that much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from youbencha.stats.comparison import MARGIN, DifferenceInterval, Verdict, verdict_of
from youbencha.stats.intervals import CONFIDENCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_PAIRS = 3
"""Of one task in a round."""

_STEP = 0.005
_NEXT_TO_ZERO = 0.0001
"""Instead of 0 itself, both sides of it: if they are excluded, the interval excludes 0."""
_MOST_AT_STAKE = 0.75
"""The share of the capital that one difference can lose."""
_PRIOR_VARIANCE = 0.5
"""Of a difference of two coins: what is assumed before the first round, and counts as much as one further task."""
_SHRINKAGE = 2.0
"""How many pairs of a task count as much as what all tasks together say."""
_LEAST_GAIN = 0.1
"""More pairs for some tasks must save at least this share of all pairs."""


class PairedSequence:
    """The mean difference of two agents over tasks, from pairs of trials that come in rounds.

    A round has at least one pair of trials on each task, more where results vary more. Only whole rounds count.

    In a round, each difference d of task t changes the capital by the factor 1 + c / n(t) x (d - m(t)). The stake c,
    the numbers of pairs n(t) and the centres m(t), whose mean over tasks is m, are fixed by the rounds before. If m is
    the true mean, the arithmetic mean of the expected factors is 1. So their product is at most 1, although the tasks
    differ. The centres differ as the tasks seem to: so differences between tasks add no noise to the bets.
    """

    def __init__(self, tasks: Sequence[str], *, margin: float = MARGIN, confidence: float = CONFIDENCE) -> None:
        import numpy as np

        self._tasks = tuple(tasks)
        self._margin = margin
        self._enough = math.log(2 / (1 - confidence))
        points = [*np.linspace(-1, 1, round(2 / _STEP) + 1), -margin, margin, -_NEXT_TO_ZERO, _NEXT_TO_ZERO]
        self._means = np.unique(np.round([point for point in points if abs(point) >= _NEXT_TO_ZERO / 2], 9))
        self._sides = (_Side(1, len(self._means)), _Side(-1, len(self._means)))
        self._first, self._last = 0, len(self._means) - 1
        self._waiting: dict[str, list[float]] = {task: [] for task in self._tasks}
        self._seen = _Seen(*np.zeros((3, len(self._tasks))))
        self._plan = self._seen.plan()

    def next_round(self) -> Mapping[str, int]:
        """Return how many pairs of trials to run next on each task, from what is known so far.

        If pairs of the last round were missing, only these.
        """
        lacking = {
            task: int(size) - len(self._waiting[task]) for task, size in zip(self._tasks, self._plan.pairs, strict=True)
        }
        return {task: size for task, size in lacking.items() if size > 0}

    def add_round(self, differences: Mapping[str, Sequence[float]]) -> None:
        """Add the differences of a round. A pair without two valid trials is missing in it.

        The other pairs then wait until the round is whole. Pairs beyond the round wait for the next, so the result
        depends only on the order of each task's pairs. What missing pairs could change is up to `PairedRounds`.
        """
        for task, some in differences.items():
            self._waiting[task] += some
        while not self.next_round():
            self._bet()

    @property
    def interval(self) -> DifferenceInterval:
        """What is not excluded, by this or any earlier look."""
        low, high = self._means[max(0, self._first - 1)], self._means[min(len(self._means) - 1, self._last + 1)]
        return DifferenceInterval(float(low), float(high))

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.interval, self._margin)

    def pairs_needed(self) -> int | None:
        """About how many more pairs decide, if the difference is what it seems. None: it is decided, or not known."""
        if self.verdict != "undecided" or not self._seen.pairs.all():
            return None
        up, down = self._sides
        margin = self._margin
        equivalent = max(self._rounds_until(up, -margin), self._rounds_until(down, margin))
        rounds = min(equivalent, self._rounds_until(up, _NEXT_TO_ZERO), self._rounds_until(down, -_NEXT_TO_ZERO))
        return math.ceil(rounds) * int(self._plan.pairs.sum()) if math.isfinite(rounds) else None

    def _bet(self) -> None:
        import numpy as np

        plan = self._plan
        drawn = [self._waiting[task][:size] for task, size in zip(self._tasks, plan.pairs, strict=True)]
        for task, some in zip(self._tasks, drawn, strict=True):
            del self._waiting[task][: len(some)]
        of_task = np.repeat(np.arange(len(drawn)), plan.pairs)
        differences = np.concatenate(drawn)
        left = slice(self._first, self._last + 1)
        offsets = (differences - plan.offsets[of_task])[:, None] - self._means[left]
        offsets /= plan.pairs[of_task][:, None]
        for side in self._sides:
            stakes = side.sign * plan.stakes(side.sign, self._means[left])
            side.capital[left] += np.log1p(stakes * offsets).sum(axis=0)
            side.excluded[left] |= side.capital[left] >= self._enough
        self._exclude()
        self._seen.add(of_task, differences)
        self._plan = self._seen.plan()

    def _exclude(self) -> None:
        """Move the ends. If all means were excluded, the true one was among them: what was left before remains."""
        import numpy as np

        up, down = (np.flatnonzero(~side.excluded[self._first : self._last + 1]) for side in self._sides)
        if len(up) and len(down) and up[0] <= down[-1]:
            self._first, self._last = self._first + int(up[0]), self._first + int(down[-1])

    def _rounds_until(self, side: _Side, mean: float) -> float:
        """Return about how many rounds it takes to exclude a mean."""
        at = int(abs(self._means - mean).argmin())
        if side.excluded[at]:
            return 0.0
        plan = self._plan
        gap = side.sign * (plan.mean - mean)
        if gap <= 0:
            return math.inf
        growth = (len(self._tasks) * gap) ** 2 / (2 * (plan.noise + plan.weight * gap**2))
        return max(1.0, (self._enough - float(side.capital[at])) / growth)


class _Side:
    """Bets that the mean of the differences is above (sign 1) or below (-1) each of the possible means."""

    def __init__(self, sign: int, means: int) -> None:
        import numpy as np

        self.sign = sign
        self.capital = np.zeros(means)
        """Its logarithm."""
        self.excluded = np.zeros(means, dtype=bool)


class _Plan(NamedTuple):
    """What is fixed before a round."""

    mean: float
    error: float
    """The standard error of that mean, about."""
    offsets: NDArray[np.float64]
    """By how much the centre of each task differs from the mean. Their sum is 0."""
    variances: NDArray[np.float64]
    """Of a difference, for each task."""
    pairs: NDArray[np.int64]

    @property
    def noise(self) -> float:
        """The variances in a round. Each difference counts for 1 / n(t)."""
        return float((self.variances / self.pairs).sum())

    @property
    def weight(self) -> float:
        """The squares of those shares."""
        return float((1 / self.pairs).sum())

    def stakes(self, sign: int, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the stake against each mean that lets the capital grow fastest, if the true mean is as estimated.

        It is assumed to be at least one standard error away: else there would be no bets where it matters.
        """
        import numpy as np

        gap = np.maximum(sign * (self.mean - means), self.error)
        best = len(self.pairs) * gap / (self.noise + self.weight * gap**2)
        worst = 1 + sign * (means + self.offsets[:, None])
        most = (self.pairs[:, None] / np.maximum(worst, 1e-9)).min(axis=0)
        stakes: NDArray[np.float64] = np.minimum(best, _MOST_AT_STAKE * most)
        return stakes


class _Seen(NamedTuple):
    """What is known of each task: so much memory, whatever the number of pairs."""

    pairs: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    def add(self, of_task: NDArray[np.int64], differences: NDArray[np.float64]) -> None:
        import numpy as np

        tasks = len(self.pairs)
        self.pairs[:] += np.bincount(of_task, minlength=tasks)
        self.sums[:] += np.bincount(of_task, differences, minlength=tasks)
        self.squares[:] += np.bincount(of_task, differences**2, minlength=tasks)

    def plan(self) -> _Plan:
        """Plan the next round."""
        import numpy as np

        tasks = len(self.pairs)
        if not self.pairs.all():
            variances = np.full(tasks, _PRIOR_VARIANCE)
            error = math.sqrt(_PRIOR_VARIANCE / tasks)
            return _Plan(0.0, error, np.zeros(tasks), variances, np.ones(tasks, dtype=np.int64))
        means = self.sums / self.pairs
        mean = float(means.mean())
        within = np.maximum(0.0, self.squares - self.sums * means)
        # After one pair of each task, only the tasks can be compared with each other.
        varying = within if self.pairs.max() > 1 else (means - mean) ** 2
        degrees = max(float((self.pairs - 1).sum()), tasks - 1.0)
        pooled = (varying.sum() + 2 * _PRIOR_VARIANCE) / (degrees + 2)
        variances = (within + _SHRINKAGE * pooled) / (self.pairs - 1 + _SHRINKAGE)
        offsets = (means - mean) * self.pairs / (self.pairs + _SHRINKAGE)
        error = math.sqrt(float((variances / self.pairs).sum())) / tasks
        return _Plan(mean, error, offsets - offsets.mean(), variances, _sizes(variances))


def _sizes(variances: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many pairs each task gets: by its standard deviation (Neyman 1934), in small integers."""
    import numpy as np

    deviations = np.sqrt(variances / variances.max())

    def needed(sizes: NDArray[np.int64]) -> float:
        """All pairs that are needed for the same precision."""
        return float(sizes.sum() * (variances / sizes).sum())

    sizes = np.ones(len(variances), dtype=np.int64)
    for most in range(2, MOST_PAIRS + 1):
        more = np.maximum(1, np.rint(deviations * most)).astype(np.int64)
        if needed(more) < (1 - _LEAST_GAIN) * needed(sizes):
            sizes = more
    return sizes
