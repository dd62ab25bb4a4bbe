"""How often intervals hold the truth, and how often a difference is found: simulated agents, and the real functions.

The tasks are a sample: each comparison draws its own. The tables in docs/design/compare.md are from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

from youbencha.stats import comparison
from youbencha.stats.comparison import compare_scores
from youbencha.stats.intervals import mean_interval
from youbencha.stats.model import TaskScores

Scores = NDArray[np.float64]
"""By task and trial."""
Draw = Callable[[np.random.Generator, int, int], tuple[Scores, Scores]]


@pytest.fixture(autouse=True)
def without_p_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """No interval depends on them, and they take most of the time."""
    monkeypatch.setattr(comparison, "sign_flip_test", lambda _: 1.0)


def _graded(difference: float, noise: float = 0.05, between: float = 0.08) -> Draw:
    """Scores such as 0.43 and 0.61: tasks differ, and so does by how much one agent is better."""

    def draw(rng: np.random.Generator, tasks: int, trials: int) -> tuple[Scores, Scores]:
        base, by = rng.uniform(0.3, 0.7, (tasks, 1)), rng.normal(difference, between, (tasks, 1))
        one, two = rng.normal(0, noise, (2, tasks, trials))
        return np.clip(base + by / 2 + one, 0, 1), np.clip(base - by / 2 + two, 0, 1)

    return draw


def _skewed(rng: np.random.Generator, tasks: int, trials: int) -> tuple[Scores, Scores]:
    """Graded, mostly near 1, with a long tail: the second is worse."""
    return rng.beta(3.96, 0.04, (tasks, trials)), rng.beta(3.6, 0.4, (tasks, trials))


def _composite(rng: np.random.Generator, tasks: int, trials: int) -> tuple[Scores, Scores]:
    """As the arena's: all tests pass or only a part, and some lint."""
    shape = (tasks, trials)
    rate = rng.beta(1.5, 1, (tasks, 1))

    def scores(rate: Scores) -> Scores:
        tests = np.where(rng.random(shape) < rate, 1, rng.random(shape) * 0.9)
        return 0.7 * tests + 0.3 * np.maximum(0, 1 - 0.1 * rng.poisson(0.7, shape))

    return scores(rate), scores(0.7 * rate)


def _binary(first: tuple[float, float], second: tuple[float, float]) -> Draw:
    """0 or 1, with rates that differ between tasks by Beta distributions."""

    def draw(rng: np.random.Generator, tasks: int, trials: int) -> tuple[Scores, Scores]:
        one, two = (rng.random((tasks, trials)) < rng.beta(*each, (tasks, 1)) for each in (first, second))
        return one.astype(float), two.astype(float)

    return draw


def _correlated(rng: np.random.Generator, tasks: int, trials: int) -> tuple[Scores, Scores]:
    """All trials of an agent on a task are much alike, as with a cache, or without any temperature."""
    first, second = (rng.random((tasks, 1)) < rate for rate in (0.7, 0.5))
    again = rng.random((2, tasks, trials))
    one = np.where(again[0] < 0.8, first, rng.random((tasks, trials)) < 0.7)
    two = np.where(again[1] < 0.8, second, rng.random((tasks, trials)) < 0.5)
    return one.astype(float), two.astype(float)


def _shocks(rng: np.random.Generator, tasks: int, trials: int) -> tuple[Scores, Scores]:
    """Some trials of both at the same time are worse, as when a provider is slow."""
    one, two = _graded(0.1)(rng, tasks, trials)
    shock = np.where(rng.random((tasks, trials)) < 0.2, 0.2, 0)
    return one - shock, two - shock


class Regime(NamedTuple):
    draw: Draw
    truth: float


REGIMES = {
    "graded, the same": Regime(_graded(0.0), 0.0),
    "graded, apart": Regime(_graded(0.08), 0.08),
    "graded, small differences": Regime(_graded(0.03, 0.03, 0.0), 0.03),
    "graded, skewed": Regime(_skewed, 0.09),
    "composite": Regime(_composite, 0.7 * 0.55 * 0.3 * 0.6),
    "0 or 1, the same": Regime(_binary((9.5, 0.5), (9.5, 0.5)), 0.0),
    "0 or 1, apart": Regime(_binary((0.6, 0.4), (0.4, 0.6)), 0.2),
    "correlated trials": Regime(_correlated, 0.2),
    "shared shocks": Regime(_shocks, 0.1),
}


class Found(NamedTuple):
    coverage: float
    power: float
    """How often it is found to be better, on tasks like these."""
    student: float
    """The same by a paired t test."""


def simulate(name: str, tasks: int, trials: int, comparisons: int) -> Found:
    regime = REGIMES[name]
    rng = np.random.default_rng((tasks, trials))
    held = found = student = 0
    for _ in range(comparisons):
        first, second = regime.draw(rng, tasks, trials)
        listed = [TaskScores(str(n), tuple(first[n]), tuple(second[n])) for n in range(tasks)]
        interval = compare_scores(listed).on_tasks_like_these
        assert interval is not None
        held += interval.low - 1e-6 <= regime.truth <= interval.high + 1e-6
        found += interval.low > 0
        differences = (first - second).mean(axis=1)
        error = differences.std(ddof=1) / tasks**0.5
        student += differences.mean() > scipy.stats.t.ppf(0.975, tasks - 1) * error
    return Found(held / comparisons, found / comparisons, student / comparisons)


def test_the_truth_of_each_regime_is_right() -> None:
    rng = np.random.default_rng(1)
    for name, (draw, truth) in REGIMES.items():
        first, second = draw(rng, 100_000, 1)
        assert first.mean() - second.mean() == pytest.approx(truth, abs=0.01), name


@pytest.mark.parametrize(
    ("name", "tasks", "trials"),
    [("graded, apart", 19, 1), ("graded, skewed", 8, 1), ("0 or 1, apart", 8, 3), ("shared shocks", 2, 3)],
)
def test_intervals_on_tasks_like_these_hold_the_truth(name: str, tasks: int, trials: int) -> None:
    assert simulate(name, tasks, trials, 300).coverage >= 0.94


def test_graded_differences_are_found() -> None:
    """With pseudo-tasks of plus and minus 1, none was."""
    found = simulate("graded, apart", 19, 1, 300)
    assert found.power >= 0.7
    assert found.power >= found.student - 0.15


@pytest.mark.full
@pytest.mark.parametrize(("tasks", "trials"), [(2, 1), (2, 3), (3, 1), (8, 1), (8, 3), (19, 1), (20, 1), (100, 1)])
@pytest.mark.parametrize("name", REGIMES)
def test_intervals_on_tasks_like_these_hold_the_truth_everywhere(name: str, tasks: int, trials: int) -> None:
    assert simulate(name, tasks, trials, 1000).coverage >= 0.94


@pytest.mark.full
@pytest.mark.parametrize("tasks", [19, 50])
def test_power_is_near_that_of_a_paired_t_test(tasks: int) -> None:
    found = simulate("graded, apart", tasks, 1, 1000)
    assert found.power >= found.student - 0.15, found


POPULATIONS: dict[str, tuple[Callable[[np.random.Generator, int], Scores], float]] = {
    "graded": (lambda rng, n: rng.normal(0.6, 0.1, n).clip(0, 1), 0.6),
    "most always or never solved": (lambda rng, n: rng.beta(0.6, 0.4, n), 0.6),
    "skewed": (lambda rng, n: rng.beta(3.6, 0.4, n), 0.9),
    "very skewed": (lambda rng, n: rng.beta(0.2, 3.8, n), 0.05),
    "rare failures": (lambda rng, n: np.where(rng.random(n) < 0.1, 0.1, rng.normal(0.9, 0.03, n).clip(0, 1)), 0.82),
    "0 or 1": (lambda rng, n: (rng.random(n) < 0.9).astype(float), 0.9),
}


def coverage_of_a_mean(name: str, tasks: int, boards: int) -> float:
    draw, truth = POPULATIONS[name]
    rng = np.random.default_rng(tasks)

    def found() -> Iterator[bool]:
        for _ in range(boards):
            interval = mean_interval({str(n): [float(score)] for n, score in enumerate(draw(rng, tasks))})
            assert interval.low is not None
            assert interval.high is not None
            yield interval.low - 1e-6 <= truth <= interval.high + 1e-6

    return sum(found()) / boards


@pytest.mark.parametrize("tasks", [19, 20])
def test_a_mean_on_the_leaderboard_has_no_cliff(tasks: int) -> None:
    assert coverage_of_a_mean("skewed", tasks, 200) >= 0.94


@pytest.mark.full
@pytest.mark.parametrize("tasks", [2, 3, 8, 19, 20, 100])
@pytest.mark.parametrize("name", POPULATIONS)
def test_intervals_of_means_hold_the_truth_everywhere(name: str, tasks: int) -> None:
    assert coverage_of_a_mean(name, tasks, 2000) >= 0.94


@pytest.mark.parametrize("tasks", [2, 5, 6, 8, pytest.param(range(3, 101), marks=pytest.mark.full)])
def test_the_interval_of_tasks_that_are_solved_or_not_holds_every_rate(tasks: int | range) -> None:
    """Without simulation: the sum of the probabilities of the results whose intervals hold the rate."""
    rates = np.arange(0.02, 0.981, 0.01)
    for number in [tasks] if isinstance(tasks, int) else tasks:
        held = np.zeros(len(rates))
        for solved in range(number + 1):
            interval = mean_interval({str(n): [float(n < solved)] for n in range(number)})
            assert interval.low is not None
            assert interval.high is not None
            is_held = (interval.low - 1e-6 <= rates) & (rates <= interval.high + 1e-6)
            held += is_held * scipy.stats.binom.pmf(solved, number, rates)
        assert held.min() >= 0.94, (number, rates[held.argmin()])
