"""The rounds of a comparison that ends as soon as it is decided, determined by the finished trials alone.

The engine asks which trials a round needs; a report replays the rounds of a run. So both get the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from youbencha.stats.comparison import MARGIN, DifferenceInterval, Verdict
from youbencha.stats.sequence import PairedSequence

Scores = Mapping[tuple[str, int], float | None]
"""Of the finished trials of one agent, by task and number. None: the trial is not valid."""


class PairedRounds:
    """Pairs trial k of one agent on a task with trial k of another, round by round, until the comparison is decided."""

    def __init__(self, tasks: Sequence[str], *, margin: float = MARGIN, confidence: float = 0.95) -> None:
        self.completed = 0
        self.missing = 0
        """Pairs without two valid trials."""
        self._sequence = PairedSequence(tasks, margin=margin, confidence=confidence)
        self._differences: dict[str, list[float]] = {task: [] for task in tasks}
        self._before = dict.fromkeys(tasks, 0)
        self._sizes = self._sequence.next_round()

    @property
    def verdict(self) -> Verdict:
        return self._sequence.verdict

    @property
    def interval(self) -> DifferenceInterval:
        return self._sequence.interval

    @property
    def difference(self) -> float | None:
        """The mean over tasks so far; None if there is no pair."""
        means = [fmean(some) for some in self._differences.values() if some]
        return fmean(means) if means else None

    @property
    def pairs(self) -> int:
        """Pairs of two valid trials."""
        return sum(map(len, self._differences.values()))

    def needed(self) -> Iterator[tuple[str, int]]:
        """Yield the trials, by task and number, that both agents need for the round; none if it is decided."""
        if self.verdict == "undecided":
            for task, size in self._sizes.items():
                yield from ((task, self._before[task] + each) for each in range(1, size + 1))

    def advance(self, first: Scores, second: Scores) -> bool:
        """Complete the round, if it is not decided and all trials of the round are finished."""
        needed = list(self.needed())
        if not needed or not all(each in first and each in second for each in needed):
            return False
        differences: dict[str, list[float]] = {task: [] for task in self._sizes}
        for each in needed:
            one, other = first[each], second[each]
            if one is None or other is None:
                self.missing += 1
            else:  # a score may be rounded to a little more than 1
                differences[each[0]].append(min(1.0, one) - min(1.0, other))
            self._before[each[0]] += 1
        self._sequence.add_round(differences)
        for task, some in differences.items():
            self._differences[task] += some
        self.completed += 1
        self._sizes = self._sequence.next_round()
        return True


def replay_rounds(
    tasks: Sequence[str], first: Scores, second: Scores, *, margin: float = MARGIN, confidence: float = 0.95
) -> PairedRounds:
    """Return the rounds as they are after these trials, in whatever order they were finished."""
    rounds = PairedRounds(tasks, margin=margin, confidence=confidence)
    while rounds.advance(first, second):
        pass
    return rounds
