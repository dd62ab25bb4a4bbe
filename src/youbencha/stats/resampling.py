"""Resample a comparison: tasks first, then the trials of each task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 10_000
_FEWEST = 2_000
_SEED = 20240117
_OF_TRIALS = 250
"""Resamples of the trials of one cell. Each resample of the tasks picks one for each of its cells."""
_MOST_DRAWS = 2_000_000
"""At the same time: 16 MB."""
_MOST_IN_ALL = 5_000_000
"""Of tasks, in all resamples: thousands of tasks have fewer resamples, and need no more."""


class ResampledMeans(NamedTuple):
    """The mean over tasks of both, in each resample."""

    first: NDArray[np.float64]
    second: NDArray[np.float64]


def resample(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> ResampledMeans:
    """Resample the tasks, each with its trials of both. Both have the same tasks in the same order.

    The seed is fixed, so that a report is the same each time. Every draw is used twice, with the trials of both
    exchanged, so that A compared with B is B compared with A with the other sign.
    """
    import numpy as np

    pools = _resampled_cells(first), _resampled_cells(second)
    tasks = len(first)
    at_once = max(1, _MOST_DRAWS // tasks)
    half = min(RESAMPLES, max(_FEWEST, _MOST_IN_ALL // tasks)) // 2
    firsts, seconds = [], []
    for start in range(0, half, at_once):
        task, one, other = _draws(tasks, start, min(at_once, half - start))
        firsts += [pools[0][task, one].mean(axis=1), pools[0][task, other].mean(axis=1)]
        seconds += [pools[1][task, other].mean(axis=1), pools[1][task, one].mean(axis=1)]
    return ResampledMeans(np.concatenate(firsts), np.concatenate(seconds))


def _resampled_cells(cells: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return means of resampled trials, a row for each cell."""
    import numpy as np

    means = np.empty((len(cells), _OF_TRIALS))
    for size in sorted({len(cell) for cell in cells}):
        rows = [row for row, cell in enumerate(cells) if len(cell) == size]
        drawn = np.random.default_rng((_SEED, size)).integers(0, size, size=(_OF_TRIALS, size))
        for row in rows:
            means[row] = np.sort(cells[row])[drawn].mean(axis=1)
    return means


@lru_cache(maxsize=2)
def _draws(tasks: int, start: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return which tasks are drawn, and which resamples of their trials. Several comparisons have the same tasks."""
    import numpy as np

    rng = np.random.default_rng((_SEED, tasks, start))
    task = rng.integers(0, tasks, size=(rows, tasks))
    one, other = rng.integers(0, _OF_TRIALS, size=(2, rows, tasks))
    return task, one, other
