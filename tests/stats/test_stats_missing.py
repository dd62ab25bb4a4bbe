"""Missing and retried trials: no agent wins by making its bad trials invalid. The tables in docs/design/compare.md are
from the simulations here."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from youbencha.stats import comparison
from youbencha.stats.comparison import AgentTrials, TaskTrials, compare_with_missing
from youbencha.stats.model import Difference
from youbencha.stats.sequence import FinishedPair, PairedRounds, PairedSequence

ALL, HALF, NONE = (1.0,) * 4, (1.0, 1.0, 0.0, 0.0), (0.0,) * 4


@pytest.fixture(autouse=True)
def without_p_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict depends on them, and they take most of the time."""
    monkeypatch.setattr(comparison, "sign_flip_test", lambda _: 1.0)


def compared(first: AgentTrials, second: AgentTrials, tasks: int = 8) -> Difference:
    return compare_with_missing([TaskTrials(str(n), first, second) for n in range(tasks)])


@pytest.mark.parametrize(
    ("first", "second", "missing", "verdict", "of_first", "overturned"),
    [
        (ALL, NONE, (0, 0), "better", None, False),
        (ALL, NONE, (1, 0), "better", True, False),  # 4 of 5 at worst
        (ALL, NONE, (2, 2), "better", True, False),
        (ALL, HALF, (4, 0), "undecided", True, True),
        (ALL, HALF, (4, 5), "undecided", True, True),  # although the other is missing more
        (ALL, HALF, (0, 4), "better", False, False),  # the second gains nothing by it
        (HALF, ALL, (0, 4), "undecided", False, True),
        (ALL, ALL, (0, 1), "undecided", False, False),
        (ALL * 10, ALL * 10, (0, 8), "undecided", False, True),  # would be equivalent
        (ALL * 10, ALL * 10, (8, 8), "undecided", True, True),  # what both might hide does not cancel out
    ],
)
@pytest.mark.parametrize("retried", [False, True])
def test_verdicts_with_missing_trials(
    first: tuple[float, ...],
    second: tuple[float, ...],
    missing: tuple[int, int],
    verdict: str,
    of_first: bool | None,
    overturned: bool,
    retried: bool,
) -> None:
    """Trials that were retried until they were solved count as if they were missing."""
    sides = (
        AgentTrials(scores, (max(scores),) * number) if retried else AgentTrials(scores, missing=number)
        for scores, number in zip((first, second), missing, strict=True)
    )
    difference = compared(*sides)
    assert (difference.verdict, difference.overturned) == (verdict, overturned)
    assert (difference.bounds and difference.bounds.of_first) == of_first


def test_the_bounds_are_all_failed_and_all_solved() -> None:
    bounds = compared(AgentTrials(ALL, missing=4), AgentTrials(HALF, missing=1)).bounds
    assert bounds is not None
    assert (bounds.missing, bounds.retried, bounds.trials) == (32, 0, 64)
    assert (bounds.if_failed.estimate, bounds.if_solved.estimate) == (0.0, 0.5)
    other = compared(AgentTrials(HALF, missing=1), AgentTrials(ALL, missing=3, retried=(1.0,))).bounds
    assert other is not None
    assert (other.missing, other.retried, other.trials) == (24, 8, 64)
    assert (other.if_failed.estimate, other.if_solved.estimate) == (0.0, -0.5)


def test_retried_trials_count_with_their_scores_outside_of_the_bounds() -> None:
    difference = compared(AgentTrials((1.0, 0.5), (0.5, 0.0)), AgentTrials(NONE))
    assert difference.estimate == 0.5
    assert difference.bounds is not None
    assert difference.bounds.if_failed.estimate == 0.375


def test_a_task_without_any_valid_trial_counts() -> None:
    """Else a failure on all trials of the hard tasks would leave only the easy ones."""
    easy = TaskTrials("easy", AgentTrials(ALL), AgentTrials((1.0, 1.0, 1.0, 0.0)))
    hard = TaskTrials("hard", AgentTrials(missing=4), AgentTrials((1.0, 1.0, 0.0, 1.0)))
    tasks = [task._replace(task=f"{task.task} {n}") for task in (easy, hard) for n in range(6)]
    difference = compare_with_missing(tasks)
    assert (difference.tasks, difference.estimate) == (6, 0.25)
    assert difference.bounds is not None
    assert difference.bounds.if_failed.estimate == pytest.approx(0.5 - 0.75)


# Simulations.


class Arm(NamedTuple):
    """An agent whose trials are solved with a probability, or scored with it as a mean."""

    rate: float
    lost: float = 0.0
    """The probability that an attempt is invalid by accident."""
    voided: float = 0.0
    """The probability that an attempt which would fail is made invalid."""
    attempts: int = 1
    """After that many invalid attempts, the trial is missing."""

    def play(self, rng: np.random.Generator, rates: NDArray[np.float64], trials: int) -> list[AgentTrials]:
        """Return the trials of each task, with the rates of the tasks."""
        cells = []
        for rate in rates:
            scores: dict[bool, list[float]] = {False: [], True: []}
            missing = 0
            for _ in range(trials):
                for attempt in range(self.attempts):
                    solved, lost, voided = rng.random(3) < (rate, self.lost, self.voided)
                    if not lost and (solved or not voided):
                        scores[attempt > 0].append(float(solved))
                        break
                else:
                    missing += 1
            cells.append(AgentTrials(tuple(scores[False]), tuple(scores[True]), missing))
        return cells


def verdicts(first: Arm, second: Arm, tasks: int, comparisons: int, *, trials: int = 4) -> dict[str, float]:
    """Return the share of each verdict. Tasks differ in how hard they are, for both alike."""
    rng = np.random.default_rng((tasks, trials))
    count: Counter[str] = Counter()
    for _ in range(comparisons):
        hardness = rng.uniform(-0.15, 0.15, tasks)
        hardness -= hardness.mean()
        sides = (arm.play(rng, np.clip(arm.rate + hardness, 0, 1), trials) for arm in (first, second))
        listed = [TaskTrials(str(n), *pair) for n, pair in enumerate(zip(*sides, strict=True))]
        count[compare_with_missing(listed, margin=0.1).verdict] += 1
    return {verdict: number / comparisons for verdict, number in count.items()}


def false_verdicts(first: Arm, second: Arm, tasks: int, comparisons: int) -> float:
    """Return how often two equal agents are told apart."""
    shares = verdicts(first, second, tasks, comparisons)
    return shares.get("better", 0) + shares.get("worse", 0)


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize(("rate", "lost"), [(0.7, 0.0), (0.55, 0.4)])
def test_an_agent_that_voids_its_failures_does_not_win(rate: float, lost: float, attempts: int) -> None:
    """With 30 tasks, 92 % of the verdicts were wrong without the bounds.

    While only those of the agent with the larger share of missing trials counted, up to 75 % were wrong if the other
    lost 40 % of its trials by accident.
    """
    honest, voiding = Arm(rate, lost=lost), Arm(rate, voided=1, attempts=attempts)
    assert false_verdicts(voiding, honest, 30, 30) <= 0.07
    assert false_verdicts(honest, voiding, 30, 30) <= 0.07


@pytest.mark.full
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("lost", [0.0, 0.1, 0.4, 0.6])
@pytest.mark.parametrize("rate", [0.3, 0.55, 0.8])
@pytest.mark.parametrize("tasks", [2, 10, 30])
def test_an_agent_that_voids_its_failures_does_not_win_anywhere(
    tasks: int, rate: float, lost: float, attempts: int
) -> None:
    for voided in (0.5, 1.0):
        assert false_verdicts(Arm(rate, 0, voided, attempts), Arm(rate, lost), tasks, 120) <= 0.05, voided


@pytest.mark.full
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("lost", [0.0, 0.2])
def test_a_worse_agent_is_not_called_equivalent_because_it_voids_its_failures(lost: float, attempts: int) -> None:
    """It is worse by a little more than the margin, and makes as many failures invalid as look best."""
    voiding, honest = Arm(0.74, voided=0.5, attempts=attempts), Arm(0.85, lost=lost)
    for pair in ((voiding, honest), (honest, voiding)):
        shares = verdicts(*pair, 30, 100, trials=30)
        assert shares.get("equivalent", 0) <= 0.05


@pytest.mark.full
@pytest.mark.parametrize(
    ("lost", "attempts", "least"), [(0.0, 1, 0.8), (0.05, 1, 0.55), (0.05, 3, 0.55), (0.1, 1, 0.35), (0.1, 3, 0.35)]
)
def test_a_difference_is_found_although_both_lose_trials_by_accident(lost: float, attempts: int, least: float) -> None:
    for first, second in ((0.8, 0.5), (0.5, 0.2)):
        arms = (Arm(rate, lost, attempts=attempts) for rate in (first, second))
        assert verdicts(*arms, 12, 300).get("better", 0) >= least, first


# Until it is decided.


def played(first: list[float | None], second: list[float | None], retried: tuple[bool, bool]) -> PairedRounds:
    """Play one task, with these scores in this order. The trials of an agent that is `retried` are valid only then."""
    rounds = PairedRounds(PairedSequence(["task"]))
    pairs = {n: FinishedPair(*scores, *retried) for n, scores in enumerate(zip(first, second, strict=True), 1)}
    while rounds.advance(lambda _, number: pairs.get(number)):
        pass
    return rounds


NEITHER = (False, False)


def test_rounds_go_on_while_the_missing_trials_could_overturn_the_verdict() -> None:
    """Seven pairs decide if none is missing: 1.75^7 > 40."""
    whole = played([1.0] * 20, [0.0] * 20, NEITHER)
    assert (whole.verdict, whole.completed, whole.bounds) == ("better", 7, ())
    with_missing = played([None, 1.0] * 20, [1.0, 0.0] * 20, NEITHER)
    assert [bounds.agent for bounds in with_missing.bounds] == [0]
    assert with_missing.completed > 14
    other = played([1.0, 0.0] * 20, [None, 1.0] * 20, NEITHER)
    assert [bounds.agent for bounds in other.bounds] == [1]
    assert other.completed > 14
    unfavoured = played([0.0, 1.0] * 20, [None, 0.0] * 20, NEITHER)
    assert (unfavoured.verdict, unfavoured.completed) == ("better", 14)


def test_what_would_be_decided_without_the_missing_trials_is_undecided() -> None:
    rounds = played([1.0] * 7 + [None] * 5, [0.0] * 12, NEITHER)
    assert rounds.verdict == "better", "it was decided before any was missing"
    rounds = played([None, 1.0] * 7, [1.0, 0.0] * 7, NEITHER)
    assert (rounds.verdict, rounds.pairs, rounds.missing) == ("undecided", 7, 7)
    (bounds,) = rounds.bounds
    assert (bounds.missing, bounds.retried, bounds.trials) == (7, 0, 14)
    assert bounds.if_failed.low <= 0 < bounds.if_solved.low
    assert list(rounds.needed()), "more trials are needed"
    both = played([None, 1.0, 1.0] * 7, [1.0, None, 0.0] * 7, NEITHER)
    assert (both.verdict, len(both.bounds)) == ("undecided", 2)


def test_retried_trials_do_not_end_the_rounds() -> None:
    rounds = played([1.0] * 20, [0.0] * 20, (True, False))
    assert (rounds.verdict, rounds.completed) == ("undecided", 20)
    assert [(bounds.missing, bounds.retried) for bounds in rounds.bounds] == [(0, 20)]
    other = played([1.0] * 20, [0.0] * 20, (False, True))
    assert (other.verdict, other.completed) == ("better", 7)


def false_verdicts_until_decided(voiding: Arm, honest: Arm, runs: int) -> float:
    """Return how often a run of two equal agents on 5 tasks ends with a verdict."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(runs):
        rounds = PairedRounds(PairedSequence([str(n) for n in range(5)]))
        pairs: dict[tuple[str, int], FinishedPair] = {}

        def find(task: str, number: int, pairs: dict[tuple[str, int], FinishedPair] = pairs) -> FinishedPair:
            one, two = (arm.play(rng, np.array([arm.rate]), 1)[0] for arm in (voiding, honest))
            scores = (next(iter(trials.valid), None) for trials in (one, two))
            return pairs.setdefault((task, number), FinishedPair(*scores, bool(one.retried), bool(two.retried)))

        while rounds.pairs < 300 and rounds.advance(find):
            pass
        wrong += rounds.verdict in ("better", "worse")
    return wrong / runs


@pytest.mark.parametrize(("lost", "attempts"), [(0.0, 1), (0.4, 1), (0.4, 3)])
def test_a_run_until_decided_is_rarely_won_by_voiding_failures(lost: float, attempts: int) -> None:
    assert false_verdicts_until_decided(Arm(0.6, voided=1, attempts=attempts), Arm(0.6, lost), 25) <= 0.05


@pytest.mark.full
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("lost", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("rate", [0.3, 0.6, 0.8])
def test_a_run_until_decided_is_rarely_won_by_voiding_failures_anywhere(
    rate: float, lost: float, attempts: int
) -> None:
    assert false_verdicts_until_decided(Arm(rate, voided=1, attempts=attempts), Arm(rate, lost), 100) <= 0.05
