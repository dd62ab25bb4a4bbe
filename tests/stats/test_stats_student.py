"""Student's quantile: published tables, closed forms, and scipy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from youbencha.stats.student import student_quantile

PROBABILITIES = (0.5001, 0.51, 0.6, 0.74999, 0.75, 0.8, 0.9, 0.975, 0.9875, 0.999, 0.99999, 0.9999995)


@pytest.mark.parametrize(
    ("probability", "degrees", "published"),
    [
        (0.75, 1, 1.000),
        (0.975, 1, 12.706),
        (0.9995, 1, 636.619),
        (0.975, 2, 4.303),
        (0.975, 5, 2.571),
        (0.75, 10, 0.700),
        (0.975, 10, 2.228),
        (0.995, 10, 3.169),
        (0.9995, 10, 4.587),
        (0.975, 30, 2.042),
        (0.975, 120, 1.980),
        (0.975, math.inf, 1.960),
    ],
)
def test_published_table(probability: float, degrees: float, published: float) -> None:
    """Abramowitz and Stegun, table 26.10."""
    assert student_quantile(probability, degrees) == pytest.approx(published, abs=0.0005)


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_closed_forms(probability: float) -> None:
    """One degree of freedom is Cauchy's distribution, and two have a quantile without an integral, too."""
    tail = 1 - probability
    assert student_quantile(probability, 1) == pytest.approx(1 / math.tan(math.pi * tail), rel=1e-12)
    two = (probability - tail) / math.sqrt(2 * probability * tail)
    assert student_quantile(probability, 2) == pytest.approx(two, rel=1e-12)


@pytest.mark.parametrize(
    "degrees", [0.3, 0.5, 1, 1.5, 2.7, 5, 12.5, 40.1, 123.4, 500, 999.99, 1000, 1e4, 1e6, 1e9, math.inf]
)
def test_as_scipy_on_a_grid(degrees: float) -> None:
    for probability in PROBABILITIES:
        expected = float(stdtrit(degrees, probability))
        assert student_quantile(probability, degrees) == pytest.approx(expected, rel=1e-9)


@given(st.floats(math.log(0.3), math.log(1e9)).map(math.exp), st.floats(5e-7, 1 - 5e-7))
def test_as_scipy(degrees: float, probability: float) -> None:
    expected = float(stdtrit(degrees, probability))
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.floats(0.3, 1e9), st.floats(math.log(5e-7), math.log(0.4999)).map(math.exp))
def test_below_a_half_it_has_the_other_sign(degrees: float, tail: float) -> None:
    assert student_quantile(tail, degrees) == pytest.approx(-student_quantile(1 - tail, degrees), rel=1e-9)


@pytest.mark.parametrize("degrees", [0.3, 1, 7.5, 999, 1000, math.inf])
def test_the_median_is_zero(degrees: float) -> None:
    assert student_quantile(0.5, degrees) == 0.0


@pytest.mark.parametrize("degrees", [1e-3, 0.01, 1, 50, 200, 700, 1e66, 1e300])
def test_extreme_tails_neither_overflow_nor_underflow(degrees: float) -> None:
    quantiles = [student_quantile(tail, degrees) for tail in (5e-324, 1e-300, 1e-100, 1e-20)]
    assert quantiles == sorted(quantiles)
    assert quantiles[-1] < -9


@pytest.mark.parametrize(
    ("probability", "degrees"), [(0.0, 3), (1.0, 3), (-0.1, 3), (math.nan, 3), (0.9, 0), (0.9, -1), (0.9, math.nan)]
)
def test_no_such_quantile(probability: float, degrees: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_quantile(probability, degrees)
