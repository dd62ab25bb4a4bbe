"""Tests of whether agents differ at all: the sign-flip test over tasks, and Holm's correction for several of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_EXACT = 34
"""Differences other than 0. The sums of each half, 2^17, are then counted against each other in some 20 ms."""
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
    import numpy as np

    # A difference of 0 has no sign. Sorted, so that the order of the tasks does not matter.
    sizes = np.sort(np.abs(np.asarray([each for each in differences if each])))
    seen = abs(float(np.sum(differences))) - _TIE
    if seen <= 0:
        return 1.0
    if len(sizes) <= MOST_EXACT:
        return _share_of_all(sizes, seen)
    signs = np.random.default_rng(_SEED).integers(0, 2, size=(FLIPS, len(sizes)), dtype=np.int8)
    as_far = np.abs(np.einsum("ij,j->i", signs, 2 * sizes) - sizes.sum()) >= seen
    return (int(as_far.sum()) + 1) / (FLIPS + 1)


def _share_of_all(sizes: NDArray[np.float64], seen: float) -> float:
    """Count the choices of signs without listing them: each sum of one half against the sorted sums of the other."""
    import numpy as np

    middle = len(sizes) // 2
    some, others = _all_sums(sizes[:middle]), np.sort(_all_sums(sizes[middle:]))
    as_high = len(others) - np.searchsorted(others, seen - some)
    # The sums are symmetric around 0, so as many are as low.
    return min(1.0, 2 * int(as_high.sum()) / (len(some) * len(others)))


def _all_sums(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

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
