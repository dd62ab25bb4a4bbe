"""Intervals: known answers, and what they promise."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.stats.intervals import Quantiles, mean_interval, pass_rate_interval, wilson
from youbencha.stats.model import Interval

SHARES = st.floats(0, 1)
TRIALS = st.dictionaries(st.text(max_size=3), st.lists(SHARES, min_size=1, max_size=4), min_size=2, max_size=30)


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"),
    [
        (8, 8, 0.6756, 1.0),
        (0, 8, 0.0, 0.3244),
        (5, 10, 0.2366, 0.7634),
        (2, 3, 0.2077, 0.9385),
        (81, 263, 0.2553, 0.3662),  # this and the others are Newcombe's (1998), table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_of_known_shares(passed: int, n: int, low: float, high: float) -> None:
    assert wilson(passed / n, n) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@pytest.mark.parametrize(
    ("probability", "degrees", "published"),
    [(0.975, 1, 12.706), (0.9995, 2, 31.599), (0.975, 10, 2.228), (0.975, 120, 1.980), (0.975, math.inf, 1.960)],
)
def test_students_quantile(probability: float, degrees: float, published: float) -> None:
    """Abramowitz and Stegun, table 26.10."""
    assert Quantiles.of(2 * probability - 1).of_t(degrees) == pytest.approx(published, abs=0.0005)


def test_all_solved_is_not_certainty() -> None:
    found = mean_interval({f"task {n}": [1.0, 1.0] for n in range(8)})
    assert (found.mean, found.low, found.high) == (1.0, pytest.approx(0.62, abs=0.01), 1.0)
    assert (found.unit, found.n, found.method) == ("task", 8, "adjusted-t")


def test_equal_means_of_many_tasks_have_a_width() -> None:
    found = mean_interval({f"task {n}": [0.5] for n in range(50)})
    assert (found.low, found.high) == (pytest.approx(0.46, abs=0.01), pytest.approx(0.54, abs=0.01))


def test_one_task_has_a_mean_and_no_interval() -> None:
    found = mean_interval({"only": [0.25, 0.75], "none": []})
    assert found == Interval(
        mean=0.5, low=None, high=None, unit="task", n=1, method=None, reason="there is only one task"
    )


def test_no_task_has_no_mean() -> None:
    assert (mean_interval({}).mean, mean_interval({}).reason) == (None, "no task has a score")


def test_every_task_counts_the_same_whatever_its_number_of_trials() -> None:
    assert mean_interval({"often": [1.0] * 9, "once": [0.0]}).mean == 0.5


def test_more_trials_of_the_same_tasks_do_not_narrow_the_interval() -> None:
    once = {str(n): [n / 40] for n in range(40)}
    often = {task: scores * 100 for task, scores in once.items()}
    assert mean_interval(often) == mean_interval(once)


def test_many_different_tasks_have_the_normal_interval() -> None:
    """Of 0 .. 1 in 400 steps: 0.5 ± 1.96 x 0.2894 / 20."""
    found = mean_interval({str(n): [n / 399] for n in range(400)})
    assert (found.low, found.high) == (pytest.approx(0.4716, abs=0.002), pytest.approx(0.5284, abs=0.002))


@given(TRIALS)
def test_the_interval_holds_the_mean_and_stays_between_0_and_1(scores: dict[str, list[float]]) -> None:
    found = mean_interval(scores)
    assert found.mean is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.n == len(scores)


@given(TRIALS)
def test_it_is_the_same_each_time_and_in_any_order(scores: dict[str, list[float]]) -> None:
    assert mean_interval(dict(reversed(scores.items()))) == mean_interval(scores)


@pytest.mark.parametrize("tasks", [5, 19, 20, 40])
def test_the_true_mean_is_inside_about_as_often_as_promised(tasks: int) -> None:
    """Tasks whose difficulty varies a lot, as in benchmarks: most are always or never solved."""
    rng = random.Random(tasks)
    inside, repetitions = 0, 200
    for _ in range(repetitions):
        found = mean_interval({str(n): [rng.betavariate(0.6, 0.4)] for n in range(tasks)})
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 0.6 <= found.high
    assert inside / repetitions >= 0.94


def test_pass_rate_of_one_cell() -> None:
    found = pass_rate_interval(2, 3)
    assert (found.mean, found.unit, found.n, found.method) == (2 / 3, "trial", 3, "wilson")
    assert (found.low, found.high) == wilson(2 / 3, 3)
    assert pass_rate_interval(0, 0).mean is None
