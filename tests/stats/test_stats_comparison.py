"""Comparisons of scores and figures: known answers, and how often the intervals hold the truth."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from youbencha.stats import comparison, resampling
from youbencha.stats.comparison import compare_scores, compare_values
from youbencha.stats.model import DifferenceInterval, TaskScores, judge_interval

SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=4).map(tuple)
COMPARISONS = st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=8)
SIMULATED, SIMULATED_EVERYWHERE = 600, 2000
Rates = NDArray[np.float64]


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For simulations of many comparisons."""
    monkeypatch.setattr(resampling, "RESAMPLES", 200)
    monkeypatch.setattr(comparison, "sign_flip_test", lambda _: 1.0)  # no interval depends on it
    resampling._draws.cache_clear()
    yield
    resampling._draws.cache_clear()


def ends(interval: DifferenceInterval | None) -> list[float]:
    assert interval is not None
    return list(interval)


def same(tasks: int, first: tuple[float, ...], second: tuple[float, ...]) -> list[TaskScores]:
    return [TaskScores(f"task {n}", first, second) for n in range(tasks)]


def test_all_solved_by_both_is_not_certainty() -> None:
    """Something of probability p is not seen 8 times with (1 - p)^8: that is 5 % for 0.312."""
    found = compare_scores(same(8, (1.0,), (1.0,)))
    assert (found.estimate, found.verdict, found.p_value) == (0.0, "undecided", 1.0)
    assert ends(found.on_these_tasks) == pytest.approx([-0.312344, 0.312344], abs=1e-6)
    assert found.on_tasks_like_these == found.on_these_tasks


def test_more_trials_narrow_the_interval_on_these_tasks_only() -> None:
    found = compare_scores(same(8, (1.0,) * 10, (1.0,) * 10))
    assert ends(found.on_these_tasks) == pytest.approx([-0.0409, 0.0409], abs=1e-4)
    assert ends(found.on_tasks_like_these) == pytest.approx([-0.3123, 0.3123], abs=1e-4)
    assert (found.verdict, found.verdict_on_tasks_like_these) == ("equivalent", "undecided")


def test_one_task_with_many_trials_is_welchs_interval() -> None:
    rng = np.random.default_rng(5)
    first, second = rng.uniform(0.3, 0.9, 400), rng.uniform(0.2, 0.7, 300)
    found = compare_scores([TaskScores("only", tuple(first), tuple(second))])
    expected = scipy.stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    assert ends(found.on_these_tasks) == pytest.approx([expected.low, expected.high], abs=0.004)
    assert found.on_tasks_like_these is None
    assert (found.reason, found.verdict_on_tasks_like_these) == ("there is only one task", "undecided")


def test_many_tasks_with_one_trial_are_the_paired_t_interval() -> None:
    rng = np.random.default_rng(6)
    first, second = rng.uniform(0, 1, 300), rng.uniform(0, 0.8, 300)
    found = compare_scores([TaskScores(str(n), (first[n],), (second[n],)) for n in range(300)])
    expected = scipy.stats.ttest_rel(first, second).confidence_interval()
    for interval in (found.on_these_tasks, found.on_tasks_like_these):
        assert ends(interval) == pytest.approx([expected.low, expected.high], abs=0.006)


def test_few_trials_have_students_quantile() -> None:
    """One cell of 20 tasks with 2 trials varies, by the variance 1/2 / 2 / 20². The pseudo-pairs add 3 / 40².

    So there are (1/4 + 3/4)² / (1/4)² = 16 degrees of freedom, with the published quantile 2.119905. The normal one,
    1.959964, would make the interval too narrow.
    """
    found = compare_scores([*same(19, (1.0, 1.0), (1.0, 1.0)), TaskScores("varies", (1.0, 0.0), (1.0, 1.0))])
    kept = 40 / 43
    half = 2.119905 * kept / 20
    assert ends(found.on_these_tasks) == pytest.approx([-0.025 - half, -0.025 * kept + half], abs=1e-6)


def test_scores_that_differ_by_next_to_nothing() -> None:
    """They have more than 1e100 degrees of freedom."""
    found = compare_scores([TaskScores("only", (0.0, 1e-30) * 5, (0.5,) * 10)])
    assert found == compare_scores([TaskScores("only", (0.0,) * 10, (0.5,) * 10)])


def test_nothing_to_compare() -> None:
    found = compare_scores([TaskScores("one", (), (1.0,)), TaskScores("two", (1.0,), ())])
    assert (found.estimate, found.on_these_tasks, found.p_value, found.tasks) == (None, None, None, 0)
    assert (found.verdict, found.reason) == ("undecided", "no task has a score of both")


def test_tasks_without_scores_of_both_are_left_out() -> None:
    common = same(3, (1.0, 0.0), (0.5, 0.5))
    assert compare_scores([*common, TaskScores("other", (1.0,), ())]) == compare_scores(common)


def test_each_task_counts_the_same() -> None:
    found = compare_scores([TaskScores("often", (1.0,) * 9, (0.0,)), TaskScores("once", (0.0,), (0.0,))])
    assert found.estimate == 0.5


def test_one_trial_of_one_task_says_next_to_nothing() -> None:
    found = compare_scores([TaskScores("only", (1.0,), (0.0,))])
    assert ends(found.on_these_tasks) == pytest.approx([-0.7, 1.0], abs=1e-4)
    assert (found.verdict, found.detectable) == ("undecided", None)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.04, 0.05, "equivalent"),
        (0.01, 0.04, "equivalent"),
        (0.01, 0.06, "better"),
        (-0.3, -0.01, "worse"),
        (-0.06, 0.0, "undecided"),
        (-0.06, 0.01, "undecided"),
    ],
)
def test_verdicts(low: float, high: float, verdict: str) -> None:
    assert judge_interval(DifferenceInterval(low, high), 0.05) == verdict


def test_the_detectable_difference_is_found_in_80_of_100_cases(few_resamples: None) -> None:
    rng = np.random.default_rng(8)
    detectable = compare_scores(simulated(np.full(20, 0.5), np.full(20, 0.5), 10, rng)).detectable
    assert detectable is not None
    assert detectable == pytest.approx(2.8 * (2 * 0.25 / 200) ** 0.5, abs=0.01)
    apart = np.full(20, 0.5 + detectable / 2), np.full(20, 0.5 - detectable / 2)
    found = [compare_scores(simulated(*apart, 10, rng)).verdict == "better" for _ in range(300)]
    assert 0.7 < np.mean(found) < 0.9


def test_about_as_many_trials_as_it_says_decide(few_resamples: None) -> None:
    rng = np.random.default_rng(9)
    rates = np.full(10, 0.65), np.full(10, 0.5)
    more = compare_scores(
        [TaskScores(str(n), (1.0, 1.0, 0.0, 0.6), (1.0, 0.0, 1.0, 0.0)) for n in range(10)]
    ).more_trials
    assert more is not None
    assert more % 20 == 0
    decided = [compare_scores(simulated(*rates, 4 + more // 20, rng)).verdict == "better" for _ in range(200)]
    assert 0.6 < np.mean(decided) < 0.95


def test_equal_agents_need_trials_until_they_are_equivalent() -> None:
    found = compare_scores(same(8, (1.0,), (1.0,)))
    assert found.more_trials == 176
    assert compare_scores(same(8, (1.0,) * 10, (1.0,) * 10)).verdict == "equivalent"
    assert compare_scores(same(8, (1.0,), (1.0,)), margin=0.0).more_trials is None


@settings(max_examples=30)
@given(COMPARISONS, st.randoms(use_true_random=False))
def test_no_order_matters_and_both_directions_agree(
    tasks: list[tuple[tuple[float, ...], tuple[float, ...]]], shuffler: random.Random
) -> None:
    listed = [TaskScores(str(n), *each) for n, each in enumerate(tasks)]
    found = compare_scores(listed)
    mixed = [TaskScores(name, tuple(reversed(one)), tuple(reversed(two))) for name, one, two in listed]
    shuffler.shuffle(mixed)
    assert compare_scores(mixed) == found
    other_way = compare_scores([TaskScores(name, two, one) for name, one, two in listed])
    assert found.on_these_tasks is not None
    assert found.on_tasks_like_these is not None
    assert found.estimate is not None
    for one, two in (
        (found.on_these_tasks, other_way.on_these_tasks),
        (found.on_tasks_like_these, other_way.on_tasks_like_these),
    ):
        assert -1 <= one.low <= round(found.estimate, 6) <= one.high <= 1
        assert ends(two) == pytest.approx([-one.high, -one.low], abs=2e-6)
    assert other_way.p_value == found.p_value


def test_a_hundred_tasks_with_fifty_trials_take_a_moment() -> None:
    tasks = simulated(np.full(100, 0.6), np.full(100, 0.55), 50, np.random.default_rng(1))
    compare_scores(tasks[:2])
    times = []
    for _ in range(3):
        resampling._draws.cache_clear()
        started = time.process_time()
        compare_scores(tasks)
        times.append(time.process_time() - started)
    assert min(times) < 0.2


def test_cost_in_all_and_as_a_ratio() -> None:
    found = compare_values(
        [
            TaskScores("cheap", (1.0, 3.0), (1.0,)),
            TaskScores("dear", (10.0,), (4.0, 6.0)),
            TaskScores("unknown", (), (9.0,)),
        ]
    )
    assert (found.first, found.second, found.difference, found.ratio, found.tasks) == (6.0, 3.0, 3.0, 2.0, 2)
    assert found.interval is not None
    assert found.interval.low < 0 < 5 < found.interval.high
    assert found.ratio_interval is not None
    assert 0 < found.ratio_interval.low < 2 < found.ratio_interval.high


def test_costs_of_few_tasks_have_students_quantile() -> None:
    """The published one for 2 degrees of freedom is 4.302653."""
    found = compare_values([TaskScores(str(cost), (cost,), (0.0,)) for cost in (1.0, 2.0, 3.0)])
    half = 4.302653 / 3**0.5
    assert ends(found.interval) == pytest.approx([2 - half, 2 + half], abs=1e-6)


def test_what_is_not_known_of_values() -> None:
    assert compare_values([TaskScores("one", (1.0,), ())]).difference is None
    only = compare_values([TaskScores("one", (1.0,), (2.0,))])
    assert (only.difference, only.interval, only.reason) == (-1.0, None, "there is only one task")
    free = compare_values(same(3, (1.0,), (0.0,)))
    assert (free.difference, free.ratio, free.ratio_interval) == (1.0, None, None)


@pytest.mark.parametrize("tasks", [4, 12])
def test_intervals_of_costs_hold_the_truth(tasks: int, few_resamples: None) -> None:
    """Costs differ a lot between tasks, and the first agent costs 1.5 times as much."""
    rng = np.random.default_rng(tasks)
    held = []
    for _ in range(300):
        usual = rng.lognormal(0, 0.6, tasks)
        listed = [
            TaskScores(str(n), tuple(1.5 * cost * rng.lognormal(0, 0.3, 3)), tuple(cost * rng.lognormal(0, 0.3, 3)))
            for n, cost in enumerate(usual)
        ]
        found = compare_values(listed)
        held.append(holds(found.ratio_interval, 1.5))
    assert np.mean(held) >= 0.94


# Simulations: agents with known success rates.


class Regime(NamedTuple):
    first: Callable[[int], Rates]
    second: Callable[[int], Rates]


def simulated(
    first: Rates, second: Rates, trials: int, rng: np.random.Generator, kind: str = "binary"
) -> list[TaskScores]:
    def scores(rate: float) -> tuple[float, ...]:
        if kind == "binary":
            return tuple((rng.random(trials) < rate).astype(float))
        return tuple(rng.beta(max(4 * rate, 0.001), max(4 * (1 - rate), 0.001), trials))

    return [
        TaskScores(str(n), scores(one), scores(two)) for n, (one, two) in enumerate(zip(first, second, strict=True))
    ]


MIXED, MIXED_TOO = (0.02, 0.5, 0.98, 0.3, 0.9), (0.1, 0.9, 0.98, 0.1, 0.6)
FIXED = {
    "near 1": Regime(lambda n: np.full(n, 0.95), lambda n: np.full(n, 0.95)),
    "near 1, apart": Regime(lambda n: np.full(n, 0.99), lambda n: np.full(n, 0.9)),
    "near 0, apart": Regime(lambda n: np.full(n, 0.02), lambda n: np.full(n, 0.15)),
    "half": Regime(lambda n: np.full(n, 0.5), lambda n: np.full(n, 0.5)),
    "half, apart": Regime(lambda n: np.full(n, 0.5), lambda n: np.full(n, 0.8)),
    "far apart": Regime(lambda n: np.full(n, 0.02), lambda n: np.full(n, 0.98)),
    "mixed": Regime(lambda n: np.resize(MIXED, n), lambda n: np.resize(MIXED, n)),
    "mixed, apart": Regime(lambda n: np.resize(MIXED, n), lambda n: np.resize(MIXED_TOO, n)),
    "one varies": Regime(lambda n: np.r_[0.7, np.ones(n - 1)], lambda n: np.r_[0.2, np.zeros(n - 1)]),
}


def coverage_on_these(regime: Regime, tasks: int, trials: int, kind: str, comparisons: int) -> float:
    rng = np.random.default_rng((tasks, trials))
    first, second = regime.first(tasks), regime.second(tasks)
    truth = float((first - second).mean())
    found = [compare_scores(simulated(first, second, trials, rng, kind)) for _ in range(comparisons)]
    return float(np.mean([holds(each.on_these_tasks, truth) for each in found]))


def holds(interval: DifferenceInterval | None, truth: float) -> bool:
    assert interval is not None
    return interval.low - 1e-6 <= truth <= interval.high + 1e-6


@pytest.mark.parametrize(("name", "tasks", "trials"), [("mixed, apart", 3, 1), ("one varies", 5, 2)])
def test_intervals_on_these_tasks_hold_the_truth(name: str, tasks: int, trials: int, few_resamples: None) -> None:
    assert coverage_on_these(FIXED[name], tasks, trials, "binary", SIMULATED) >= 0.94


@pytest.mark.full
@pytest.mark.parametrize("kind", ["binary", "continuous"])
@pytest.mark.parametrize("trials", [1, 2, 5])
@pytest.mark.parametrize("tasks", [3, 8, 20])
def test_intervals_on_these_tasks_hold_the_truth_everywhere(
    tasks: int, trials: int, kind: str, few_resamples: None
) -> None:
    found = {
        name: coverage_on_these(regime, tasks, trials, kind, SIMULATED_EVERYWHERE) for name, regime in FIXED.items()
    }
    assert min(found.values()) >= 0.94, found


def test_tasks_with_fewer_trials_count_for_what_is_not_known(few_resamples: None) -> None:
    """One task has one trial, and a rate that the others do not have."""
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(200):
        often = simulated(np.ones(9), np.ones(9), 20, rng)
        once = TaskScores("once", (1.0,), (float(rng.random() < 0.5),))
        found += holds(compare_scores([*often, once]).on_these_tasks, 0.05)
    assert found / 200 >= 0.94


POPULATIONS: dict[str, tuple[Callable[[np.random.Generator, int], tuple[Rates, Rates]], float]] = {
    "some tasks only for the first": (lambda rng, n: (np.ones(n), (rng.random(n) < 0.7).astype(float)), 0.3),
    "different tasks": (lambda rng, n: (rng.beta(0.6, 0.4, n), rng.beta(0.4, 0.6, n)), 0.2),
    "rare": (lambda rng, n: (np.ones(n), (rng.random(n) < 0.9).astype(float)), 0.1),
}


def coverage_on_tasks_like_these(name: str, tasks: int, trials: int, comparisons: int) -> float:
    draw, truth = POPULATIONS[name]
    rng = np.random.default_rng((tasks, trials))
    found = [compare_scores(simulated(*draw(rng, tasks), trials, rng)) for _ in range(comparisons)]
    return float(np.mean([holds(each.on_tasks_like_these, truth) for each in found]))


def test_intervals_on_tasks_like_these_hold_the_truth(few_resamples: None) -> None:
    assert coverage_on_tasks_like_these("some tasks only for the first", 8, 1, SIMULATED) >= 0.94


@pytest.mark.full
@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize("tasks", [3, 8, 50])
@pytest.mark.parametrize("name", POPULATIONS)
def test_intervals_on_tasks_like_these_hold_the_truth_everywhere(
    name: str, tasks: int, trials: int, few_resamples: None
) -> None:
    assert coverage_on_tasks_like_these(name, tasks, trials, SIMULATED_EVERYWHERE) >= 0.94
