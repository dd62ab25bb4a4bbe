"""Run pairs of trials until every comparison with a baseline is decided, and no longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from youbencha.engine.matrix import Matrix
from youbencha.engine.schedule import Due, HasRoom
from youbencha.engine.updates import ComparisonState, TrialRow
from youbencha.errors import YouBenchaError
from youbencha.stats.missing import FAVOURED
from youbencha.stats.rounds import FinishedPair, PairedRounds, confidence_of_each
from youbencha.stats.sequence import PairedSequence
from youbencha.store.arena import TrialKey, UntilDecided
from youbencha.text import first_few, join_words, plural

TRIALS_OF_A_CELL = 20
"""The default for the most trials of a run, on average."""


def plan_comparisons(matrix: Matrix, *, margin: float, max_trials: int | None = None) -> Matrix:
    """Return a matrix whose trials end as soon as every comparison is decided."""
    cells, names = matrix.cells, {*matrix.baselines, *matrix.baselines.values()}
    if alone := list(dict.fromkeys(cell.orchestrator for cell in cells if cell.orchestrator not in names)):
        raise YouBenchaError(
            "NOTHING_TO_COMPARE",
            f"--until-decided compares orchestrators with a baseline, and there is none for {first_few(alone)}.",
            hint="Name it in the arena (`baseline: NAME`), and select it, too; or leave these out with --orchestrator.",
        )
    most = max_trials or TRIALS_OF_A_CELL * len(cells)
    if most < len(cells):
        raise YouBenchaError(
            "OPTION_INVALID",
            f"--max-trials {most} is not enough: the first round alone has {plural(len(cells), 'trial')}.",
            hint=f"Give at least {len(cells)}, or select fewer orchestrators or tasks.",
        )
    return replace(matrix, trials=most, until_decided=UntilDecided(margin=margin, max_trials=most))


class UntilDecidedSchedule:
    """Trials in rounds, as many on each task as the comparisons that are undecided ask for.

    A round begins when the one before is complete, so that no trial runs whose need is in doubt, and so that nothing
    depends on the order in which trials end.
    """

    def __init__(self, matrix: Matrix) -> None:
        assert matrix.until_decided is not None
        margin = matrix.until_decided.margin
        self.most = matrix.total
        self._matrix = matrix
        self._finished: Mapping[TrialKey, TrialRow] = {}
        self._tasks = tuple(dict.fromkeys(cell.task for cell in matrix.cells))
        confidence = confidence_of_each(matrix.baselines)
        self._comparisons = [
            _Comparison(first, second, PairedSequence(self._tasks, margin=margin, confidence=confidence))
            for first, second in matrix.baselines.items()
        ]
        self._open: set[TrialKey] = set()
        """Trials that are wanted and not finished."""
        self._dropped: set[TrialKey] = set()
        self._waiting: list[Due] = []

    @property
    def left(self) -> int:
        return len(self._open)

    @property
    def comparisons(self) -> Sequence[ComparisonState]:
        return [each.state() for each in self._comparisons]

    def begin(self, finished: Mapping[TrialKey, TrialRow]) -> None:
        self._finished = finished
        self.most = self._matrix.total + sum(row.reused_from is not None for row in finished.values())
        self._advance()

    def next(self, has_room: HasRoom) -> Due | None:
        for index, due in enumerate(self._waiting):
            if has_room(due.cell.provider):
                return self._waiting.pop(index)
        return None

    def finish(self, row: TrialRow) -> Sequence[ComparisonState]:
        self._open.discard(row.key)
        return self._advance() if self._open <= self._dropped else ()

    def drop(self, key: TrialKey) -> Sequence[ComparisonState]:
        self._dropped.add(key)
        return self._advance() if self._open <= self._dropped else ()

    def _advance(self) -> list[ComparisonState]:
        """Complete the rounds whose trials are finished, and ask for the trials of the next ones."""
        states: list[ComparisonState] = []
        for each in self._comparisons:
            while each.rounds.advance(partial(each.find, self._finished)):
                states.append(each.state())
        for each in self._comparisons:
            self._ask(each.needed() - self._finished.keys() - self._open)
        return states

    def _ask(self, keys: set[TrialKey]) -> None:
        """Want all of these trials, unless there would be too many. Those that were taken over do not count."""
        due = [Due(key, cell) for key in keys if (cell := self._matrix.find(key))]
        if len(due) == len(keys) and len(self._finished) + len(self._open) + len(keys) <= self.most:
            self._open |= keys
            self._waiting += due
            self._waiting.sort(key=lambda due: self._matrix.place(due.key))


class _Comparison:
    def __init__(self, first: str, second: str, sequence: PairedSequence) -> None:
        self.rounds = PairedRounds(sequence)
        self._names = (first, second)
        self._sequence = sequence

    def needed(self) -> set[TrialKey]:
        """The trials of the next round."""
        return {TrialKey(name, *trial) for trial in self.rounds.needed() for name in self._names}

    def find(self, finished: Mapping[TrialKey, TrialRow], task: str, number: int) -> FinishedPair | None:
        one, two = (finished.get(TrialKey(name, task, number)) for name in self._names)
        if one is None or two is None:
            return None
        first, second = (None if row.valid is False else row.composite_score for row in (one, two))
        return FinishedPair(first, second, one.retried, two.retried)

    def state(self) -> ComparisonState:
        rounds = self.rounds
        return ComparisonState(
            *self._names,
            rounds=rounds.completed,
            difference=rounds.difference,
            interval=self._sequence.interval,
            verdict=rounds.verdict,
            pairs=rounds.pairs,
            missing=rounds.missing,
            given_up=rounds.given_up,
            lacking=self._lacking(),
        )

    def _lacking(self) -> str | None:
        """The trials that keep the comparison undecided, although the results would decide it."""
        if self.rounds.verdict == self._sequence.verdict:
            return None
        counts = [
            f"{plural(number, 'trial')} of {self._names[bounds.agent]} {what}"
            for bounds in self.rounds.bounds
            if bounds.agent in FAVOURED[self._sequence.verdict]
            for what, number in (("missing", bounds.missing), ("retried", bounds.retried))
            if number
        ]
        return join_words(counts)
