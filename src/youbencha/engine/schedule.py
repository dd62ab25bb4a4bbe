"""Which trial of a run comes next. A schedule holds only what may start soon, never all trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.updates import ComparisonState, TrialRow
from youbencha.store.arena import TrialKey

HasRoom = Callable[[str | None], bool]
"""Whether a trial of a provider's model may start now."""


class Due(NamedTuple):
    """A trial that is to start."""

    key: TrialKey
    cell: Cell


class Schedule(Protocol):
    """Says which trial comes next."""

    @property
    def left(self) -> int:
        """How many trials are still to be finished, those that are running included."""
        ...

    @property
    def most(self) -> int:
        """How many trials the run has in the end, at most."""
        ...

    @property
    def comparisons(self) -> Sequence[ComparisonState]:
        """What the trials are for, if they end when it is known."""
        ...

    def begin(self, finished: Mapping[TrialKey, TrialRow]) -> None:
        """Begin, or continue: `finished` has the trials that are finished, now and at any later time."""
        ...

    def next(self, has_room: HasRoom) -> Due | None:
        """Take the first trial that may start now. None: there is none, or one of those that run must end first."""
        ...

    def finish(self, row: TrialRow) -> Sequence[ComparisonState]:
        """Take note of a finished trial. Returns the comparisons that it brought forward."""
        ...

    def drop(self, key: TrialKey) -> Sequence[ComparisonState]:
        """Take note that a trial is not run, in the same way."""
        ...


class FixedSchedule:
    """Every trial of a matrix, in its order."""

    comparisons: Sequence[ComparisonState] = ()

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._finished: Mapping[TrialKey, TrialRow] = {}
        self._ahead = {provider: _Ahead(self._trials_of(provider)) for provider in _providers(matrix)}

    @property
    def left(self) -> int:
        return self._matrix.total - len(self._finished)

    @property
    def most(self) -> int:
        return self._matrix.total

    def begin(self, finished: Mapping[TrialKey, TrialRow]) -> None:
        self._finished = finished

    def next(self, has_room: HasRoom) -> Due | None:
        free = [ahead for provider, ahead in self._ahead.items() if has_room(provider) and ahead.first is not None]
        return min(free, key=_Ahead.position).take() if free else None

    def finish(self, row: TrialRow) -> Sequence[ComparisonState]:
        return ()

    def drop(self, key: TrialKey) -> Sequence[ComparisonState]:
        return ()

    def _trials_of(self, provider: str | None) -> Iterator[tuple[int, Due]]:
        for position, due in enumerate(self._matrix.order()):
            if due[1].provider == provider and due[0] not in self._finished:
                yield position, Due(*due)


class _Ahead:
    """The trials of one provider. Only the first is held, so that others can pass it when the provider has no room."""

    def __init__(self, trials: Iterator[tuple[int, Due]]) -> None:
        self._trials = trials
        self._first: tuple[int, Due] | None = None

    @property
    def first(self) -> tuple[int, Due] | None:
        if self._first is None:
            self._first = next(self._trials, None)
        return self._first

    def position(self) -> int:
        assert self._first is not None
        return self._first[0]

    def take(self) -> Due:
        assert self._first is not None
        (_, due), self._first = self._first, None
        return due


def _providers(matrix: Matrix) -> dict[str | None, None]:
    return dict.fromkeys(cell.provider for cell in matrix.cells)
