"""The rounds of a comparison that ends as soon as it is decided, determined by the scores of finished trials alone.

The engine asks which trials a round needs; a report puts the trials of a run into their rounds again. So both come to
the same verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sized
from copy import deepcopy
from statistics import fmean
from typing import NamedTuple

from youbencha.stats.comparison import DifferenceInterval, Verdict
from youbencha.stats.intervals import CONFIDENCE
from youbencha.stats.missing import FAILED_SCORE, SOLVED_SCORE, agreed, lacks_more
from youbencha.stats.sequence import PairedSequence


class FinishedPair(NamedTuple):
    """The scores of a trial of each agent, on the same task and with the same number. None: not valid."""

    first: float | None
    second: float | None

    @property
    def difference(self) -> float | None:
        if self.first is None or self.second is None:
            return None
        return min(1.0, max(-1.0, self.first - self.second))  # scores may be rounded to more than 1

    def filled(self, which: int, score: float) -> FinishedPair:
        """Return the pair as if a missing trial of one of them, 0 or 1, had this score."""
        return self._replace(**{name: score for name in [self._fields[which]] if getattr(self, name) is None})


FindPair = Callable[[str, int], FinishedPair | None]
"""Finds the pair of a task with a number, from 1 on; None: it is not finished."""

_MOST_WITHOUT_PAIRS = 3
"""Rounds in a row without a valid pair of a task that needs one. Then something is broken: more trials tell nothing."""


def confidence_of_each(comparisons: Sized) -> float:
    """Of several comparisons in one run, each has its share of the 5 %."""
    return 1 - (1 - CONFIDENCE) / len(comparisons)


class SequenceBounds(NamedTuple):
    """What the confidence sequence would be with the missing trials of the agent that lacks more of them."""

    which: int
    """0: of the first, 1: of the second."""
    missing: int
    trials: int
    """Of that agent, the missing ones included."""
    if_failed: DifferenceInterval
    if_solved: DifferenceInterval


class PairedRounds:
    """Adds pairs to a sequence, round by round, until there is a verdict that the missing trials cannot overturn."""

    def __init__(self, sequence: PairedSequence) -> None:
        self.completed = 0
        self.missing = 0
        """Pairs without two valid trials."""
        self._lacking = [0, 0]
        """Trials of both without a valid result."""
        self._filled: dict[int, tuple[PairedSequence, PairedSequence]] = {}
        """With the missing trials of the first or the second: as failed, as solved."""
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
        """Of two valid trials."""
        return self._valid.total()

    @property
    def given_up(self) -> tuple[str, ...]:
        """The tasks without valid pairs, because of which there are no more rounds."""
        return tuple(task for task, rounds in self._without_pairs.items() if rounds >= _MOST_WITHOUT_PAIRS)

    @property
    def bounds(self) -> SequenceBounds | None:
        """None: both lack the same number of trials, mostly none."""
        which = lacks_more(self._lacking[0], 1, self._lacking[1], 1)
        if which is None:
            return None
        failed, solved = (each.interval for each in self._filled[which])
        return SequenceBounds(which, self._lacking[which], self.pairs + self.missing, failed, solved)

    @property
    def verdict(self) -> Verdict:
        """Undecided if the missing trials could overturn it."""
        which = lacks_more(self._lacking[0], 1, self._lacking[1], 1)
        filled = () if which is None else self._filled[which]
        return agreed(self._sequence.verdict, [each.verdict for each in filled])

    def needed(self) -> Iterator[tuple[str, int]]:
        """Yield the trials of the next round, by task and number. There are none if it is decided, or given up."""
        if self.verdict == "undecided" and not self.given_up:
            for task, size in self._sizes.items():
                yield from ((task, self._before[task] + each) for each in range(1, size + 1))

    def advance(self, find: FindPair) -> bool:
        """Complete the next round, if it is needed and all its trials are finished."""
        needed = list(self.needed())
        found = [pair for task, number in needed if (pair := find(task, number)) is not None]
        if not needed or len(found) < len(needed):
            return False
        pairs: dict[str, list[FinishedPair]] = {task: [] for task in self._sizes}
        for (task, number), pair in zip(needed, found, strict=True):
            self._before[task] = number
            pairs[task].append(pair)
        self._add_bounds(pairs)
        differences = _known(pairs)
        self._sequence.add_round(differences)
        for task, some in differences.items():
            self.missing += len(pairs[task]) - len(some)
            self._sums[task] += sum(some)
            if some:
                self._valid[task] += len(some)
            self._without_pairs[task] = 0 if some else self._without_pairs[task] + 1
        self.completed += 1
        self._sizes = self._sequence.next_round()
        return True

    def _add_bounds(self, pairs: dict[str, list[FinishedPair]]) -> None:
        """Add the round to the sequences with missing trials, which are the same as without until one is missing."""
        for which in (0, 1):
            lacking = sum(pair[which] is None for some in pairs.values() for pair in some)
            self._lacking[which] += lacking
            if lacking and which not in self._filled:
                self._filled[which] = deepcopy(self._sequence), deepcopy(self._sequence)
            for score, sequence in zip((FAILED_SCORE, SOLVED_SCORE), self._filled.get(which, ()), strict=False):
                sequence.add_round(
                    _known({task: [pair.filled(which, score) for pair in some] for task, some in pairs.items()})
                )


def _known(pairs: dict[str, list[FinishedPair]]) -> dict[str, list[float]]:
    """Return the differences of the pairs of two valid trials."""
    return {task: [each.difference for each in some if each.difference is not None] for task, some in pairs.items()}


class Replay(NamedTuple):
    intervals: tuple[DifferenceInterval, ...]
    """After each round."""
    given_up: tuple[str, ...]
    """The tasks without valid pairs, because of which the rounds ended."""
    verdict: Verdict
    bounds: SequenceBounds | None


def replay_rounds(sequence: PairedSequence, find: FindPair) -> Replay:
    """Add every whole round until the verdict."""
    rounds, intervals = PairedRounds(sequence), []
    while rounds.advance(find):
        intervals.append(sequence.interval)
    return Replay(tuple(intervals), rounds.given_up, rounds.verdict, rounds.bounds)
