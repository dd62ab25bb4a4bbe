"""The rounds of a comparison that ends as soon as it is decided, determined by the scores of finished trials alone.

The engine asks which trials a round needs; a report puts the trials of a run into their rounds again. So both come to
the same verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from copy import deepcopy
from statistics import fmean
from typing import NamedTuple

from youbencha.stats.comparison import DifferenceInterval, Verdict
from youbencha.stats.intervals import CONFIDENCE
from youbencha.stats.missing import AGENTS, FAILED_SCORE, SOLVED_SCORE, Agent, confirmed
from youbencha.stats.sequence import PairedSequence


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

_MOST_WITHOUT_PAIRS = 3
"""Rounds in a row without a valid pair of a task that needs one. Then something is broken: more trials tell nothing."""


def confidence_of_each(comparisons: Sized) -> float:
    """Of several comparisons in one run, each has its share of the 5 %."""
    return 1 - (1 - CONFIDENCE) / len(comparisons)


class SequenceBounds(NamedTuple):
    """What the confidence sequence would be with other results of an agent's missing and retried trials."""

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
        """For each agent with missing or retried trials."""
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
