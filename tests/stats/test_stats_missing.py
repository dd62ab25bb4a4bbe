"""Missing trials: no agent wins by making its bad trials invalid."""

from __future__ import annotations

import numpy as np
import pytest

from youbencha.stats import comparison
from youbencha.stats.comparison import Difference, TaskScores
from youbencha.stats.missing import MissingTrials, compare_with_missing, lacks_more
from youbencha.stats.rounds import FinishedPair, PairedRounds
from youbencha.stats.sequence import PairedSequence

ALL, NONE = (1.0,) * 4, (0.0,) * 4


def compared(
    first: tuple[float, ...], second: tuple[float, ...], missing: tuple[int, int], tasks: int = 8
) -> Difference:
    listed = [TaskScores(str(n), first, second) for n in range(tasks)]
    return compare_with_missing(listed, [MissingTrials(*missing)] * tasks)


@pytest.mark.parametrize(
    ("first", "second", "missing", "verdict", "of_first", "overturned"),
    [
        (ALL, NONE, (0, 0), "better", None, False),
        (ALL, NONE, (1, 0), "better", True, False),  # 4 of 5 at worst
        (ALL, NONE, (0, 1), "better", False, False),
        (ALL, (1.0, 1.0, 0.0, 0.0), (4, 0), "undecided", True, True),
        ((1.0, 1.0, 0.0, 0.0), ALL, (0, 4), "undecided", False, True),
        (ALL, ALL, (0, 1), "undecided", False, False),
        (ALL * 10, ALL * 10, (0, 8), "undecided", False, True),  # would be equivalent
        (ALL, NONE, (2, 2), "better", None, False),  # what fails for both alike is an accident
    ],
)
def test_verdicts_with_missing_trials(
    first: tuple[float, ...],
    second: tuple[float, ...],
    missing: tuple[int, int],
    verdict: str,
    of_first: bool | None,
    overturned: bool,
) -> None:
    found = compared(first, second, missing)
    assert (found.verdict, found.overturned) == (verdict, overturned)
    assert (found.bounds and found.bounds.of_first) == of_first


def test_the_bounds_are_all_failed_and_all_solved() -> None:
    bounds = compared(ALL, (1.0, 1.0, 0.0, 0.0), (4, 1)).bounds
    assert bounds is not None
    assert (bounds.missing, bounds.trials) == (32, 64)
    assert (bounds.if_failed.estimate, bounds.if_solved.estimate) == (0.0, 0.5)
    other = compared((1.0, 1.0, 0.0, 0.0), ALL, (1, 4)).bounds
    assert other is not None
    assert (other.if_failed.estimate, other.if_solved.estimate) == (0.0, -0.5)


def test_a_task_without_any_valid_trial_counts() -> None:
    """Else a failure on all trials of the hard tasks would leave only the easy ones."""
    tasks = [TaskScores(str(n), ALL, (1.0, 1.0, 1.0, 0.0)) for n in range(6)]
    hard = [TaskScores(f"hard {n}", (), (1.0, 1.0, 0.0, 1.0)) for n in range(6)]
    found = compare_with_missing([*tasks, *hard], [MissingTrials(0, 0)] * 6 + [MissingTrials(4, 0)] * 6)
    assert (found.tasks, found.estimate) == (6, 0.25)
    assert found.bounds is not None
    assert found.bounds.if_failed.estimate == pytest.approx(0.5 - 0.75)


@pytest.mark.parametrize(("counts", "which"), [((1, 4, 0, 4), 0), ((1, 4, 2, 4), 1), ((1, 4, 2, 8), None)])
def test_who_lacks_more(counts: tuple[int, int, int, int], which: int | None) -> None:
    assert lacks_more(*counts) == which


def false_verdicts(tasks: int, comparisons: int) -> float:
    """Of two equal agents, one of which makes its failed trials invalid."""
    rng = np.random.default_rng(tasks)
    wrong = 0
    for _ in range(comparisons):
        first, second = (rng.random((2, tasks, 4)) < 0.7).astype(float)
        listed = [
            TaskScores(str(n), tuple(one[one == 1]), tuple(two))
            for n, (one, two) in enumerate(zip(first, second, strict=True))
        ]
        missing = [MissingTrials(4 - len(each.first), 0) for each in listed]
        wrong += compare_with_missing(listed, missing).verdict in ("better", "worse")
    return wrong / comparisons


@pytest.mark.parametrize("tasks", [10, 30])
def test_an_agent_that_voids_its_failures_does_not_win(tasks: int) -> None:
    """Without the bounds, 92 % of the verdicts with 30 tasks were wrong."""
    assert false_verdicts(tasks, 60) <= 0.06


@pytest.mark.full
@pytest.mark.parametrize("tasks", [2, 10, 30, 100])
def test_an_agent_that_voids_its_failures_does_not_win_anywhere(tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "sign_flip_test", lambda _: 1.0)  # no verdict depends on it
    assert false_verdicts(tasks, 500) <= 0.05


# Until it is decided.


def played(first: list[float | None], second: list[float | None]) -> PairedRounds:
    """One task, with these scores in this order."""
    rounds = PairedRounds(PairedSequence(["task"]))
    pairs = {number: FinishedPair(*scores) for number, scores in enumerate(zip(first, second, strict=True), 1)}
    while rounds.advance(lambda _, number: pairs.get(number)):
        pass
    return rounds


def test_rounds_go_on_while_the_missing_trials_could_overturn_the_verdict() -> None:
    """Seven pairs decide if none is missing: 1.75^7 > 40."""
    whole = played([1.0] * 20, [0.0] * 20)
    assert (whole.verdict, whole.completed, whole.bounds) == ("better", 7, None)
    with_missing = played([None, 1.0] * 20, [1.0, 0.0] * 20)
    assert with_missing.bounds is not None
    assert with_missing.bounds.which == 0
    assert with_missing.completed > 14
    other = played([0.0, 1.0] * 6, [1.0, None] * 6)
    assert other.bounds is not None
    assert other.bounds.which == 1


def test_what_would_be_decided_without_the_missing_trials_is_undecided() -> None:
    found = played([1.0] * 7 + [None] * 5, [0.0] * 12)
    assert found.verdict == "better", "it was decided before any was missing"
    found = played([None, 1.0] * 7, [1.0, 0.0] * 7)
    assert (found.verdict, found.pairs, found.missing) == ("undecided", 7, 7)
    assert found.bounds is not None
    assert (found.bounds.missing, found.bounds.trials) == (7, 14)
    assert found.bounds.if_failed.low <= 0 < found.bounds.if_solved.low
    assert list(found.needed()), "more trials are needed"
    even = played([None, 1.0, 1.0] * 7, [0.0, None, 0.0] * 7)
    assert (even.verdict, even.bounds) == ("better", None)


def test_a_run_until_decided_is_rarely_won_by_voiding_failures() -> None:
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(40):
        rounds = PairedRounds(PairedSequence([str(n) for n in range(5)]))
        scores: dict[tuple[str, int], FinishedPair] = {}

        def find(task: str, number: int, scores: dict[tuple[str, int], FinishedPair] = scores) -> FinishedPair:
            one, two = (float(each) for each in rng.random(2) < 0.6)
            return scores.setdefault((task, number), FinishedPair(one or None, two))

        while rounds.pairs < 300 and rounds.advance(find):
            pass
        wrong += rounds.verdict in ("better", "worse")
    assert wrong / 40 <= 0.05
