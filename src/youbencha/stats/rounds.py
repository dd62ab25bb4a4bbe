"""The rounds of a comparison that ends as soon as it is decided, determined by the scores of finished trials alone.

The engine asks which trials a round needs; a report puts the trials of a run into their rounds again. So both come to
the same verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sized
from statistics import fmean
from typing import NamedTuple

from youbencha.stats.comparison import DifferenceInterval
from youbencha.stats.intervals import CONFIDENCE
from youbencha.stats.sequence import PairedSequence


class FinishedPair(NamedTuple):
    """A trial of each agent, on the same task and with the same number."""

    difference: float | None
    """Of their scores; None if one of them is not valid."""

    @classmethod
    def of(cls, first: float | None, second: float | None) -> FinishedPair:
        return cls(None if first is None or second is None else first - second)


FindPair = Callable[[str, int], FinishedPair | None]
"""Finds the pair of a task with a number, from 1 on; None: it is not finished."""

_MOST_WITHOUT_PAIRS = 3
"""Rounds in a row without a valid pair of a task that needs one. Then something is broken: more trials tell nothing."""


def confidence_of_each(comparisons: Sized) -> float:
    """Of several comparisons in one run, each has its share of the 5 %."""
    return 1 - (1 - CONFIDENCE) / len(comparisons)


class PairedRounds:
    """Adds pairs to a sequence, round by round, until there is a verdict."""

    def __init__(self, sequence: PairedSequence) -> None:
        self.completed = 0
        self.missing = 0
        """Pairs without two valid trials."""
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

    def needed(self) -> Iterator[tuple[str, int]]:
        """Yield the trials of the next round, by task and number. There are none if it is decided, or given up."""
        if self._sequence.verdict == "undecided" and not self.given_up:
            for task, size in self._sizes.items():
                yield from ((task, self._before[task] + each) for each in range(1, size + 1))

    def advance(self, find: FindPair) -> bool:
        """Complete the next round, if it is needed and all its trials are finished."""
        needed = list(self.needed())
        pairs = [pair for task, number in needed if (pair := find(task, number)) is not None]
        if not needed or len(pairs) < len(needed):
            return False
        differences: dict[str, list[float]] = {task: [] for task in self._sizes}
        for (task, number), pair in zip(needed, pairs, strict=True):
            self._before[task] = number
            if pair.difference is None:
                self.missing += 1
            else:
                differences[task].append(min(1.0, max(-1.0, pair.difference)))  # scores may be rounded to more than 1
        self._sequence.add_round(differences)
        for task, some in differences.items():
            self._sums[task] += sum(some)
            if some:
                self._valid[task] += len(some)
            self._without_pairs[task] = 0 if some else self._without_pairs[task] + 1
        self.completed += 1
        self._sizes = self._sequence.next_round()
        return True


class Replay(NamedTuple):
    intervals: tuple[DifferenceInterval, ...]
    """After each round."""
    given_up: tuple[str, ...]
    """The tasks without valid pairs, because of which the rounds ended."""


def replay_rounds(sequence: PairedSequence, find: FindPair) -> Replay:
    """Add every whole round until the verdict."""
    rounds, intervals = PairedRounds(sequence), []
    while rounds.advance(find):
        intervals.append(sequence.interval)
    return Replay(tuple(intervals), rounds.given_up)
