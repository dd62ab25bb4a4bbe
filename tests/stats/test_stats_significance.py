"""Tests and pass rates: published examples, and scipy."""

from __future__ import annotations

from itertools import combinations
from math import comb, prod

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from youbencha.stats.intervals import is_flaky, pass_at_k, pass_hat_k
from youbencha.stats.resampling import MAX_EXACT, holm, sign_flip_test

DARWIN = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)
"""Crossed less self-fertilised plants, in eighths of an inch: Fisher, The Design of Experiments, section 21."""


def test_fisher_on_darwins_plants() -> None:
    """863 of the 32,768 sums are at least as high."""
    assert sign_flip_test(DARWIN) == 2 * 863 / 32768


@pytest.mark.parametrize(
    "differences",
    [
        [0.5, -0.25, 0.75],
        [1.0, 1.0, 1.0, 1.0, 1.0],
        [0.1, 0.2, -0.3, 0.0, 0.4, 0.0],
        [1 / 3, -1 / 3, 2 / 3, 1 / 3, 1.0, -2 / 3, 1 / 3],
    ],
)
def test_as_scipy(differences: list[float]) -> None:
    found = scipy.stats.permutation_test(
        (differences, [0.0] * len(differences)),
        lambda one, two, axis: (one - two).mean(axis=axis),
        permutation_type="samples",
        n_resamples=10**6,
        vectorized=True,
    )
    assert sign_flip_test(differences) == pytest.approx(found.pvalue, abs=1e-12)


def test_the_halves_of_many_tasks_are_counted_exactly() -> None:
    """Equal differences: the number of pluses has a binomial distribution."""
    ups = MAX_EXACT - 10
    expected = 2 * sum(comb(MAX_EXACT, k) for k in range(ups, MAX_EXACT + 1)) / 2**MAX_EXACT
    assert sign_flip_test([0.3] * ups + [-0.3] * 10) == pytest.approx(expected, rel=1e-12)


def test_more_tasks_than_can_be_counted() -> None:
    tasks, ups = MAX_EXACT + 26, 38
    expected = 2 * sum(comb(tasks, k) for k in range(ups, tasks + 1)) / 2**tasks
    found = sign_flip_test([0.3] * ups + [-0.3] * (tasks - ups))
    assert found == pytest.approx(expected, abs=0.005)
    assert sign_flip_test([0.3] * tasks) == 1 / 20_001


def test_no_difference_is_no_evidence() -> None:
    assert sign_flip_test([0.0, 0.0]) == 1.0
    assert sign_flip_test([0.5, -0.5]) == 1.0


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=10))
def test_neither_order_nor_direction_matters(differences: list[float]) -> None:
    p = sign_flip_test(differences)
    assert 0 < p <= 1
    assert sign_flip_test(differences[::-1]) == p
    assert sign_flip_test([-difference for difference in differences]) == p


def test_holm() -> None:
    """A worked example: the smallest is multiplied by 4, the next by 3, … and none is below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, None, 0.04]) == [0.5, None, 0.08]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("trials", [1, 2, 5, 7])
def test_pass_at_k_and_pass_hat_k_are_the_shares_of_all_choices_of_k(trials: int) -> None:
    for passed in range(trials + 1):
        results = [True] * passed + [False] * (trials - passed)
        for k in range(1, trials + 1):
            choices = list(combinations(results, k))
            assert pass_at_k(trials, passed, k) == pytest.approx(sum(map(any, choices)) / len(choices))
            assert pass_hat_k(trials, passed, k) == pytest.approx(sum(map(all, choices)) / len(choices))


def test_pass_at_k_as_published() -> None:
    """Chen et al. 2021, figure 3: the same as a product."""
    n, c, k = 200, 17, 100
    assert pass_at_k(n, c, k) == pytest.approx(1 - prod(1 - k / i for i in range(n - c + 1, n + 1)))


def test_flaky() -> None:
    assert [is_flaky(3, passed) for passed in range(4)] == [False, True, True, False]
