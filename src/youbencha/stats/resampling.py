"""Tests of whether agents differ at all: the sign-flip test over tasks, and Holm's correction for several of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_EXACT = 34
"""The number of differences other than 0 up to which the test is exact. The sums of each half, 2^17, are then counted
against each other in some 20 ms."""
FLIPS = 20_000
"""Random ones, if there are more. So the smallest p-value is then 1 / 20,001."""
_SEED = 20240117
_TIE = 1e-9
"""Sums that differ by less are equal: they were only added up in another order."""


def sign_flip_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of "the signs of these differences are random", by their sum.

    If two agents are equally good on each task, A's mean less B's could as well have had the other sign. The p-value is
    the share of all choices of signs whose sum is as far from 0 as the one that was seen.
    """
    # A difference of 0 has no sign. Sorted, so that the order of the tasks does not matter.
    sizes = np.sort(np.abs(np.asarray([difference for difference in differences if difference])))
    seen = abs(float(np.sum(differences))) - _TIE
    if seen <= 0:
        return 1.0
    if len(sizes) <= MAX_EXACT:
        return _share_of_all(sizes, seen)
    signs = np.random.default_rng(_SEED).integers(0, 2, size=(FLIPS, len(sizes)), dtype=np.int8)
    as_far = np.abs(np.einsum("ij,j->i", signs, 2 * sizes) - sizes.sum()) >= seen
    return (int(as_far.sum()) + 1) / (FLIPS + 1)


def _share_of_all(sizes: NDArray[np.float64], seen: float) -> float:
    """Count the choices of signs without listing them: each sum of one half against the sorted sums of the other."""
    middle = len(sizes) // 2
    some, others = _all_sums(sizes[:middle]), np.sort(_all_sums(sizes[middle:]))
    as_high = len(others) - np.searchsorted(others, seen - some)
    # The sums are symmetric around 0, so as many are as low.
    return min(1.0, 2 * int(as_high.sum()) / (len(some) * len(others)))


def _all_sums(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate((sums - size, sums + size))
    return sums


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values, adjusted for how many there are, in the same order (Holm 1979). None does not count."""
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, index) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * p))
        adjusted[index] = least
    return adjusted


RESAMPLES = 10_000
_MIN_RESAMPLES = 2_000
_CELL_RESAMPLES = 250
"""Resamples of the trials of one cell. Each resample of the tasks picks one for each of its cells."""
_MAX_DRAWS = 2_000_000
"""The limit at the same time: 16 MB."""
_MAX_DRAWN_TASKS = 5_000_000
"""The number of tasks drawn in all resamples: thousands of tasks have fewer resamples, and need no more."""


class ResampledMeans(NamedTuple):
    """The mean over tasks of both, in each resample."""

    first: NDArray[np.float64]
    second: NDArray[np.float64]


def resample(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> ResampledMeans:
    """Resample the tasks, each with its trials of both. Both have the same tasks in the same order.

    The seed is fixed, so that a report is the same each time. Every draw is used twice, with the trials of both
    exchanged, so that A compared with B is B compared with A with the other sign.
    """
    pools = _resampled_cells(first), _resampled_cells(second)
    tasks = len(first)
    at_once = max(1, _MAX_DRAWS // tasks)
    half = min(RESAMPLES, max(_MIN_RESAMPLES, _MAX_DRAWN_TASKS // tasks)) // 2
    firsts, seconds = [], []
    for start in range(0, half, at_once):
        task, one, other = _draws(tasks, start, min(at_once, half - start))
        firsts += [pools[0][task, one].mean(axis=1), pools[0][task, other].mean(axis=1)]
        seconds += [pools[1][task, other].mean(axis=1), pools[1][task, one].mean(axis=1)]
    return ResampledMeans(np.concatenate(firsts), np.concatenate(seconds))


def _resampled_cells(cells: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return means of resampled trials, a row for each cell."""
    means = np.empty((len(cells), _CELL_RESAMPLES))
    for size in sorted({len(cell) for cell in cells}):
        rows = [row for row, cell in enumerate(cells) if len(cell) == size]
        drawn = np.random.default_rng((_SEED, size)).integers(0, size, size=(_CELL_RESAMPLES, size))
        for row in rows:
            means[row] = np.sort(cells[row])[drawn].mean(axis=1)
    return means


@lru_cache(maxsize=2)
def _draws(tasks: int, start: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return which tasks are drawn, and which resamples of their trials. Several comparisons have the same tasks."""
    rng = np.random.default_rng((_SEED, tasks, start))
    task = rng.integers(0, tasks, size=(rows, tasks))
    one, other = rng.integers(0, _CELL_RESAMPLES, size=(2, rows, tasks))
    return task, one, other
