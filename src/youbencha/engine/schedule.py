"""Which trial of a run comes next: all of a matrix, or pairs of trials until every comparison is decided."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.updates import ComparisonState
from youbencha.errors import YouBenchaError
from youbencha.stats.comparison import FAVOURED
from youbencha.stats.sequence import FinishedPair, PairedRounds, PairedSequence, shared_confidence
from youbencha.store.arena import TrialKey, TrialMeta, UntilDecided
from youbencha.text import first_few, join_words, plural

HasRoom = Callable[[str | None], bool]
"""Whether a trial of a provider's model may start now."""


class ScheduledTrial(NamedTuple):
    key: TrialKey
    cell: Cell


class Schedule(Protocol):
    @property
    def remaining(self) -> int:
        """How many trials are still to be finished, including those that are running."""
        ...

    @property
    def max_trials(self) -> int:
        """How many trials the run has at most when it ends."""
        ...

    @property
    def comparisons(self) -> Sequence[ComparisonState]:
        """The comparisons that the trials are for, in a run that ends when they are decided."""
        ...

    def start(self, finished: Mapping[TrialKey, TrialMeta]) -> None:
        """Start, or continue. `finished` has the trials that are finished, now and at any later time."""
        ...

    def next(self, has_room: HasRoom) -> ScheduledTrial | None:
        """Take the first trial that may start now. None if there is none, or a running one must end first."""
        ...

    def finish(self, meta: TrialMeta) -> Sequence[ComparisonState]:
        """Record a finished trial. Returns the comparisons that it advanced."""
        ...

    def skip(self, key: TrialKey) -> Sequence[ComparisonState]:
        """Record that a trial is not run. Returns the comparisons that it advanced."""
        ...


class FixedSchedule:
    """Every trial of a matrix, in its order. Trials pass those of a provider without room."""

    comparisons: Sequence[ComparisonState] = ()

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._finished: Mapping[TrialKey, TrialMeta] = {}
        self._queues: dict[str | None, deque[tuple[int, ScheduledTrial]]] = {}
        """The trials of each provider, with their positions in the order."""

    @property
    def remaining(self) -> int:
        return self._matrix.total - len(self._finished)

    @property
    def max_trials(self) -> int:
        return self._matrix.total

    def start(self, finished: Mapping[TrialKey, TrialMeta]) -> None:
        self._finished = finished
        for position, (key, cell) in enumerate(self._matrix.order()):
            if key not in finished:
                self._queues.setdefault(cell.provider, deque()).append((position, ScheduledTrial(key, cell)))

    def next(self, has_room: HasRoom) -> ScheduledTrial | None:
        free = [queue for provider, queue in self._queues.items() if queue and has_room(provider)]
        return min(free, key=lambda queue: queue[0][0]).popleft()[1] if free else None

    def finish(self, meta: TrialMeta) -> Sequence[ComparisonState]:
        return ()

    def skip(self, key: TrialKey) -> Sequence[ComparisonState]:
        return ()


TRIALS_OF_A_CELL = 20
"""How many trials a run has at most by default, on average."""


def plan_comparisons(matrix: Matrix, *, margin: float, max_trials: int | None = None) -> Matrix:
    """Return a matrix whose trials end as soon as every comparison is decided."""
    cells, names = matrix.cells, {*matrix.baselines, *matrix.baselines.values()}
    if alone := list(dict.fromkeys(cell.orchestrator for cell in cells if cell.orchestrator not in names)):
        raise YouBenchaError(
            "NOTHING_TO_COMPARE",
            f"--until-decided compares orchestrators with a baseline, and none was given for {first_few(alone)}.",
            hint="Set `baseline: NAME` in the arena and select it, or leave these out with --orchestrator.",
        )
    max_trials = max_trials or TRIALS_OF_A_CELL * len(cells)
    if max_trials < len(cells):
        raise YouBenchaError(
            "OPTION_INVALID",
            f"--max-trials {max_trials} is not enough: the first round alone has {plural(len(cells), 'trial')}.",
            hint=f"Give at least {len(cells)}, or select fewer orchestrators or tasks.",
        )
    return replace(matrix, trials=max_trials, until_decided=UntilDecided(margin=margin, max_trials=max_trials))


class UntilDecidedSchedule:
    """Trials in rounds, as many on each task as the comparisons that are undecided ask for.

    A round begins when the one before is complete, so that no trial runs whose need is in doubt, and so that nothing
    depends on the order in which trials end.
    """

    def __init__(self, matrix: Matrix) -> None:
        assert matrix.until_decided is not None
        margin = matrix.until_decided.margin
        self.max_trials = matrix.total
        self._matrix = matrix
        self._finished: Mapping[TrialKey, TrialMeta] = {}
        self._tasks = tuple(dict.fromkeys(cell.task for cell in matrix.cells))
        confidence = shared_confidence(matrix.baselines)
        self._comparisons = [
            _Comparison(first, second, PairedSequence(self._tasks, margin=margin, confidence=confidence))
            for first, second in matrix.baselines.items()
        ]
        self._open: set[TrialKey] = set()
        """Trials that are wanted and not finished."""
        self._skipped: set[TrialKey] = set()
        self._waiting: list[ScheduledTrial] = []

    @property
    def remaining(self) -> int:
        return len(self._open)

    @property
    def comparisons(self) -> Sequence[ComparisonState]:
        return [comparison.state() for comparison in self._comparisons]

    def start(self, finished: Mapping[TrialKey, TrialMeta]) -> None:
        self._finished = finished
        self.max_trials = self._matrix.total + sum(meta.reused_from is not None for meta in finished.values())
        self._advance()

    def next(self, has_room: HasRoom) -> ScheduledTrial | None:
        for index, trial in enumerate(self._waiting):
            if has_room(trial.cell.provider):
                return self._waiting.pop(index)
        return None

    def finish(self, meta: TrialMeta) -> Sequence[ComparisonState]:
        self._open.discard(meta.key)
        return self._advance() if self._open <= self._skipped else ()

    def skip(self, key: TrialKey) -> Sequence[ComparisonState]:
        self._skipped.add(key)
        return self._advance() if self._open <= self._skipped else ()

    def _advance(self) -> list[ComparisonState]:
        """Complete the rounds whose trials are finished, and ask for the trials of the next ones."""
        states: list[ComparisonState] = []
        for comparison in self._comparisons:
            while comparison.rounds.advance(partial(comparison.find, self._finished)):
                states.append(comparison.state())
        for comparison in self._comparisons:
            self._request(comparison.needed() - self._finished.keys() - self._open)
        return states

    def _request(self, keys: set[TrialKey]) -> None:
        """Schedule all of these trials, unless there would be too many. Reused ones do not count."""
        trials = [ScheduledTrial(key, cell) for key in keys if (cell := self._matrix.find(key))]
        if len(trials) == len(keys) and len(self._finished) + len(self._open) + len(keys) <= self.max_trials:
            self._open |= keys
            self._waiting += trials
            self._waiting.sort(key=lambda trial: self._matrix.place(trial.key))


class _Comparison:
    def __init__(self, first: str, second: str, sequence: PairedSequence) -> None:
        self.rounds = PairedRounds(sequence)
        self._names = (first, second)
        self._sequence = sequence

    def needed(self) -> set[TrialKey]:
        """Return the trials of the next round."""
        return {TrialKey(name, *trial) for trial in self.rounds.needed() for name in self._names}

    def find(self, finished: Mapping[TrialKey, TrialMeta], task: str, number: int) -> FinishedPair | None:
        one, two = (finished.get(TrialKey(name, task, number)) for name in self._names)
        if one is None or two is None:
            return None
        first, second = (None if meta.valid is False else meta.composite_score for meta in (one, two))
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
        """Describe the trials that keep the comparison undecided, although the results would decide it."""
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
