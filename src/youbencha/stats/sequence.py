"""A confidence sequence for the difference of two agents: valid at every look, so that trials may stop at any time.

It bets against each possible mean of the differences, which are from -1 to 1 (Waudby-Smith and Ramdas 2024). Who bets
against the true mean rarely wins: the probability that the capital ever grows to 1 / p times what it was is at most p.
So a mean is excluded once betting against it has won that much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from copy import deepcopy
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from youbencha.stats.comparison import AGENTS, FAILED_SCORE, SOLVED_SCORE, Agent, confirmed
from youbencha.stats.model import CONFIDENCE, MARGIN, DifferenceInterval, Verdict, judge_interval

MAX_PAIRS = 3
"""The number of pairs of one task in a round."""

_STEP = 0.005
_NEXT_TO_ZERO = 0.0001
"""Instead of 0 itself, both sides of it: if they are excluded, the interval excludes 0."""
_MAX_STAKE = 0.75
"""The share of the capital that one difference can lose."""
_PRIOR_VARIANCE = 0.5
"""The variance of a difference of two coins, which is assumed before the first round, and counts as much as one further
task."""
_SHRINKAGE = 2.0
"""How many pairs of a task count as much as what all tasks together say."""
_MIN_GAIN = 0.1
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
        """The differences that neither this nor any earlier look excludes."""
        low, high = self._means[max(0, self._first - 1)], self._means[min(len(self._means) - 1, self._last + 1)]
        return DifferenceInterval(float(low), float(high))

    @property
    def verdict(self) -> Verdict:
        return judge_interval(self.interval, self._margin)

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
        self.sign = sign
        self.capital = np.zeros(means)
        """Its logarithm."""
        self.excluded = np.zeros(means, dtype=bool)


class _Plan(NamedTuple):
    """The parameters of a round, which are fixed before it."""

    mean: float
    error: float
    """The standard error of that mean, about."""
    offsets: NDArray[np.float64]
    """By how much the centre of each task differs from the mean. Their sum is 0."""
    variances: NDArray[np.float64]
    """The variance of a difference, for each task."""
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
        gap = np.maximum(sign * (self.mean - means), self.error)
        best = len(self.pairs) * gap / (self.noise + self.weight * gap**2)
        worst = 1 + sign * (means + self.offsets[:, None])
        most = (self.pairs[:, None] / np.maximum(worst, 1e-9)).min(axis=0)
        stakes: NDArray[np.float64] = np.minimum(best, _MAX_STAKE * most)
        return stakes


class _Seen(NamedTuple):
    """Sums over the pairs of each task."""

    pairs: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    def add(self, of_task: NDArray[np.int64], differences: NDArray[np.float64]) -> None:
        tasks = len(self.pairs)
        self.pairs[:] += np.bincount(of_task, minlength=tasks)
        self.sums[:] += np.bincount(of_task, differences, minlength=tasks)
        self.squares[:] += np.bincount(of_task, differences**2, minlength=tasks)

    def plan(self) -> _Plan:
        """Plan the next round."""
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
    deviations = np.sqrt(variances / variances.max())

    def needed(sizes: NDArray[np.int64]) -> float:
        """All pairs that are needed for the same precision."""
        return float(sizes.sum() * (variances / sizes).sum())

    sizes = np.ones(len(variances), dtype=np.int64)
    for most in range(2, MAX_PAIRS + 1):
        more = np.maximum(1, np.rint(deviations * most)).astype(np.int64)
        if needed(more) < (1 - _MIN_GAIN) * needed(sizes):
            sizes = more
    return sizes


class FinishedPair(NamedTuple):
    """The scores of a trial of each agent, on the same task and with the same number. None: not valid."""

    first: float | None
    second: float | None
    first_retried: bool = False
    """Whether the trial of the first is valid only after an attempt that was not."""
    second_retried: bool = False

    @property
    def difference(self) -> float | None:
        if self.first is None or self.second is None:
            return None
        return min(1.0, max(-1.0, self.first - self.second))  # scores may be rounded to more than 1

    def of(self, agent: Agent) -> float | None:
        return (self.first, self.second)[agent]

    def is_retried(self, agent: Agent) -> bool:
        return self.of(agent) is not None and (self.first_retried, self.second_retried)[agent]

    def filled(self, agent: Agent, score: float) -> FinishedPair:
        """Return the pair as if a missing or retried trial of one agent had this score."""
        if self.of(agent) is not None and not self.is_retried(agent):
            return self
        return self._replace(first=score) if agent == 0 else self._replace(second=score)


FindPair = Callable[[str, int], FinishedPair | None]
"""Finds the pair of a task with a number, from 1 on; None: it is not finished."""

_MAX_ROUNDS_WITHOUT_PAIRS = 3
"""Rounds in a row without a valid pair of a task that needs one. Then something is broken: more trials tell nothing."""


def shared_confidence(comparisons: Sized) -> float:
    """Return the confidence of each comparison: several in one run share the 5%."""
    return 1 - (1 - CONFIDENCE) / len(comparisons)


class SequenceBounds(NamedTuple):
    """The confidence sequence with other results of an agent's missing and retried trials."""

    agent: Agent
    missing: int
    retried: int
    trials: int
    """All trials of the agent, the missing ones included."""
    if_failed: DifferenceInterval
    if_solved: DifferenceInterval


class _Filled:
    """The sequences as if the missing and retried trials of an agent had failed, and as if they had been solved."""

    def __init__(self, agent: Agent, sequence: PairedSequence) -> None:
        self._agent = agent
        self.missing = self.retried = 0
        self.if_failed, self.if_solved = deepcopy(sequence), deepcopy(sequence)

    def add_round(self, pairs: Mapping[str, Sequence[FinishedPair]]) -> None:
        for score, sequence in ((FAILED_SCORE, self.if_failed), (SOLVED_SCORE, self.if_solved)):
            filled = {task: [pair.filled(self._agent, score) for pair in of_task] for task, of_task in pairs.items()}
            sequence.add_round(_known(filled))
        results = [pair for of_task in pairs.values() for pair in of_task]
        self.missing += sum(pair.of(self._agent) is None for pair in results)
        self.retried += sum(pair.is_retried(self._agent) for pair in results)


class PairedRounds:
    """Adds pairs to a sequence, round by round, until there is a verdict that the missing trials cannot overturn."""

    def __init__(self, sequence: PairedSequence) -> None:
        self.completed = 0
        self.missing = 0
        """Pairs without two valid trials."""
        self._filled: dict[Agent, _Filled] = {}
        """The filled sequences of each agent with missing or retried trials."""
        self._without_pairs: Counter[str] = Counter()
        self._sequence = sequence
        self._sizes = sequence.next_round()
        self._before = dict.fromkeys(self._sizes, 0)
        self._valid: Counter[str] = Counter()
        self._sums = dict.fromkeys(self._sizes, 0.0)

    @property
    def difference(self) -> float | None:
        """The mean over tasks; None if there is no pair of valid trials."""
        means = [self._sums[task] / pairs for task, pairs in self._valid.items()]
        return fmean(means) if means else None

    @property
    def pairs(self) -> int:
        """The number of pairs of two valid trials."""
        return self._valid.total()

    @property
    def given_up(self) -> tuple[str, ...]:
        """The tasks without valid pairs, because of which there are no more rounds."""
        return tuple(task for task, rounds in self._without_pairs.items() if rounds >= _MAX_ROUNDS_WITHOUT_PAIRS)

    @property
    def bounds(self) -> tuple[SequenceBounds, ...]:
        """The bounds of each agent that has missing or retried trials."""
        trials = self.pairs + self.missing
        return tuple(
            SequenceBounds(
                agent, filled.missing, filled.retried, trials, filled.if_failed.interval, filled.if_solved.interval
            )
            for agent, filled in sorted(self._filled.items())
        )

    @property
    def verdict(self) -> Verdict:
        """Undecided if missing or retried trials could overturn it."""
        if_failed = {agent: filled.if_failed.verdict for agent, filled in self._filled.items()}
        return confirmed(self._sequence.verdict, if_failed)

    def needed(self) -> Iterator[tuple[str, int]]:
        """Yield the trials of the next round, by task and number. There are none if it is decided, or given up."""
        if self.verdict == "undecided" and not self.given_up:
            for task, size in self._sizes.items():
                yield from ((task, self._before[task] + number) for number in range(1, size + 1))

    def advance(self, find: FindPair) -> bool:
        """Complete the next round, if it is needed and all its trials are finished."""
        needed = list(self.needed())
        finished = [pair for task, number in needed if (pair := find(task, number)) is not None]
        if not needed or len(finished) < len(needed):
            return False
        pairs: dict[str, list[FinishedPair]] = {task: [] for task in self._sizes}
        for (task, number), pair in zip(needed, finished, strict=True):
            self._before[task] = number
            pairs[task].append(pair)
        self._add_bounds(pairs)
        differences = _known(pairs)
        self._sequence.add_round(differences)
        for task, known in differences.items():
            self.missing += len(pairs[task]) - len(known)
            self._sums[task] += sum(known)
            if known:
                self._valid[task] += len(known)
            self._without_pairs[task] = 0 if known else self._without_pairs[task] + 1
        self.completed += 1
        self._sizes = self._sequence.next_round()
        return True

    def _add_bounds(self, pairs: Mapping[str, Sequence[FinishedPair]]) -> None:
        """Add the round to the filled sequences, which are the same as the other until a trial is missing."""
        for agent in AGENTS:
            uncertain = (
                pair.of(agent) is None or pair.is_retried(agent) for of_task in pairs.values() for pair in of_task
            )
            if agent not in self._filled and any(uncertain):
                self._filled[agent] = _Filled(agent, self._sequence)
            if agent in self._filled:
                self._filled[agent].add_round(pairs)


def _known(pairs: Mapping[str, Sequence[FinishedPair]]) -> dict[str, list[float]]:
    """Return the differences of the pairs of two valid trials."""
    return {
        task: [pair.difference for pair in of_task if pair.difference is not None] for task, of_task in pairs.items()
    }


class Replay(NamedTuple):
    intervals: tuple[DifferenceInterval, ...]
    """After each round."""
    given_up: tuple[str, ...]
    """The tasks without valid pairs, because of which the rounds ended."""
    verdict: Verdict
    bounds: tuple[SequenceBounds, ...]


def replay_rounds(sequence: PairedSequence, find: FindPair) -> Replay:
    """Add every whole round until the verdict."""
    rounds, intervals = PairedRounds(sequence), []
    while rounds.advance(find):
        intervals.append(sequence.interval)
    return Replay(tuple(intervals), rounds.given_up, rounds.verdict, rounds.bounds)
