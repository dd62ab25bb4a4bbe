"""Confidence sequences: what they promise at every look, how soon they decide, and what they hold in memory."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from youbencha.stats.model import DifferenceInterval, Verdict
from youbencha.stats.sequence import MAX_PAIRS, PairedSequence

SIMULATED = 400
"""2,000 would not find more: with either number, the tests notice a bound of 6 instead of 40, but not one of 10."""
SIMULATED_LONG = 2000


def names(tasks: int) -> list[str]:
    return [f"task {n}" for n in range(tasks)]


class Agents:
    """Two agents with known success rates."""

    def __init__(self, first: Sequence[float], second: Sequence[float], seed: int, *, graded: bool = False) -> None:
        self.rates = dict(zip(names(len(first)), zip(first, second, strict=True), strict=True))
        self.truth = float(np.mean(np.subtract(first, second)))
        self._rng = np.random.default_rng(seed)
        self._graded = graded

    def differences(self, task: str, pairs: int) -> list[float]:
        one, two = (self._scores(rate, pairs) for rate in self.rates[task])
        return [float(each) for each in one - two]

    def _scores(self, rate: float, pairs: int) -> NDArray[np.float64]:
        if self._graded:
            return self._rng.beta(max(4 * rate, 0.001), max(4 * (1 - rate), 0.001), pairs)
        return (self._rng.random(pairs) < rate).astype(float)


class Course(NamedTuple):
    verdict: Verdict
    """The first one other than "undecided"."""
    pairs: int
    """Until then."""
    held: bool
    """Whether the truth was in the interval at every look."""


def run(agents: Agents, rounds: int, *, margin: float = 0.05, stop: bool = False) -> Course:
    """Look after every round, and never stop unless told to."""
    sequence = PairedSequence(list(agents.rates), margin=margin)
    verdict: Verdict = "undecided"
    pairs, until, held = 0, 0, True
    for _ in range(rounds):
        sizes = sequence.next_round()
        sequence.add_round({task: agents.differences(task, size) for task, size in sizes.items()})
        pairs += sum(sizes.values())
        interval = sequence.interval
        held &= interval.low <= agents.truth <= interval.high
        if verdict == "undecided":
            verdict, until = sequence.verdict, pairs
            if stop and verdict != "undecided":
                break
    return Course(verdict, until, held)


def shares(agents: Agents, rounds: int, comparisons: int = SIMULATED, margin: float = 0.05) -> dict[str, float]:
    found = [run(agents, rounds, margin=margin) for _ in range(comparisons)]
    verdicts = Counter(each.verdict for each in found)
    by_verdict = {str(name): count / comparisons for name, count in verdicts.items()}
    return {**by_verdict, "held": sum(each.held for each in found) / comparisons}


def test_equal_agents_are_rarely_better_or_worse_at_any_look() -> None:
    """On tasks of different difficulty, of which one is for the first agent and one for the second."""
    found = shares(Agents((0.02, 0.5, 0.98, 0.8, 0.3, 0.9), (0.02, 0.5, 0.98, 0.3, 0.8, 0.9), 1), rounds=6)
    assert found.get("better", 0) + found.get("worse", 0) <= 0.05
    assert found["held"] >= 0.95


def test_what_differs_by_more_than_the_margin_is_rarely_equivalent_at_any_look() -> None:
    found = shares(Agents((0.6, 0.9, 1.0, 1.0, 1.0, 0.5), (0.3, 0.4, 1.0, 0.99, 0.9, 0.5), 2), rounds=6, margin=0.15)
    assert found.get("equivalent", 0) + found.get("worse", 0) <= 0.05
    assert found["held"] >= 0.95


MIXED = (0.02, 0.5, 0.98, 0.3, 0.9)
LONG = {
    "mixed": (MIXED, MIXED, False),
    "half": ((0.5,) * 3, (0.5,) * 3, False),
    "near 1": ((0.95,) * 3, (0.95,) * 3, False),
    "opposite": ((1.0, 0.0, 0.5, 0.9), (0.0, 1.0, 0.5, 0.9), False),
    "beyond the margin": ((0.5, 0.9, 0.98), (0.39, 0.86, 0.97), False),
    "beyond the margin, near 0": ((0.02,) * 3, (0.0721,) * 3, False),
    "graded": (MIXED, MIXED, True),
    "graded, beyond the margin": ((0.5, 0.9, 0.98), (0.39, 0.86, 0.97), True),
    "one task": ((0.5,), (0.5,), False),
}


@pytest.mark.full
@pytest.mark.parametrize("name", LONG)
def test_errors_are_rare_at_every_look_of_a_long_run(name: str) -> None:
    first, second, graded = LONG[name]
    agents = Agents(first, second, 3, graded=graded)
    found = shares(agents, rounds=60, comparisons=SIMULATED_LONG)
    assert found["held"] >= 0.95, found
    if agents.truth == 0:
        assert found.get("better", 0) + found.get("worse", 0) <= 0.05, found
    else:
        assert abs(agents.truth) > 0.05
        assert found.get("equivalent", 0) <= 0.05, found


@pytest.mark.parametrize(
    ("first", "second", "margin", "verdict", "most_pairs"),
    [
        ((0.8,) * 10, (0.5,) * 10, 0.05, "better", 100),
        ((0.5,) * 10, (0.8,) * 10, 0.05, "worse", 100),
        ((0.6,) * 50, (0.5,) * 50, 0.05, "better", 900),
        (MIXED * 2, MIXED * 2, 0.1, "equivalent", 500),
        ((0.9, 1.0, 1.0), (0.0, 0.1, 0.2), 0.05, "better", 20),
    ],
)
def test_it_decides(
    first: tuple[float, ...], second: tuple[float, ...], margin: float, verdict: Verdict, most_pairs: int
) -> None:
    agents = Agents(first, second, 4)
    found = [run(agents, 200, margin=margin, stop=True) for _ in range(15)]
    assert sum(each.verdict == verdict for each in found) >= 14
    assert np.median([each.pairs for each in found]) <= most_pairs


def test_how_tasks_differ_does_not_matter_for_these_tasks() -> None:
    """Each agent always solves what the other does not. So a few rounds are enough to know the difference."""
    sequence = PairedSequence(names(5))
    for _ in range(40):
        sequence.add_round(
            {task: [1.0 if n < 3 else -1.0] * size for n, (task, size) in enumerate(sequence.next_round().items())}
        )
    assert sequence.verdict == "better"
    assert sequence.interval.low > 0.1
    assert sequence.interval.high < 0.3


def test_all_solved_by_both_is_not_certainty() -> None:
    sequence = PairedSequence(names(8))
    sequence.add_round({task: [0.0] for task in names(8)})
    assert sequence.verdict == "undecided"
    assert sequence.interval.low < -0.3
    assert sequence.interval.high > 0.3


def test_a_mean_is_excluded_when_betting_against_it_has_won_40_fold() -> None:
    """Of one task that only the first solves. At most 3/4 of the capital are at stake: 1.75^6 < 40 < 1.75^7."""
    sequence, verdicts = PairedSequence(names(1)), []
    for _ in range(7):
        sequence.add_round({"task 0": [1.0]})
        verdicts.append(sequence.verdict)
    assert verdicts == [*["undecided"] * 6, "better"]


def test_before_the_first_round_everything_is_possible() -> None:
    sequence = PairedSequence(names(3))
    assert (sequence.interval, sequence.verdict) == (DifferenceInterval(-1.0, 1.0), "undecided")
    assert sequence.pairs_needed() is None
    assert sequence.next_round() == dict.fromkeys(names(3), 1)


def test_tasks_that_vary_more_get_more_pairs() -> None:
    agents = Agents((1.0, 1.0, 1.0, 0.5), (1.0, 0.0, 1.0, 0.5), 5)
    sequence = PairedSequence(list(agents.rates))
    for _ in range(12):
        sequence.add_round({task: agents.differences(task, size) for task, size in sequence.next_round().items()})
    sizes = sequence.next_round()
    assert (sizes["task 0"], sizes["task 1"], sizes["task 2"]) == (1, 1, 1)
    assert 2 <= sizes["task 3"] <= MAX_PAIRS


def test_missing_pairs_are_asked_for_again() -> None:
    whole, in_parts = PairedSequence(names(20)), PairedSequence(names(20))
    differences = {task: [1.0 if n % 2 else 0.0] for n, task in enumerate(names(20))}
    whole.add_round(differences)
    in_parts.add_round({**differences, "task 3": []})
    assert in_parts.next_round() == {"task 3": 1}
    assert in_parts.interval == (-1, 1)
    in_parts.add_round({"task 3": []})
    in_parts.add_round({"task 3": [1.0]})
    assert in_parts.interval == whole.interval != (-1, 1)
    assert in_parts.next_round() == whole.next_round()


def test_the_same_pairs_lead_to_the_same_state_however_they_arrive() -> None:
    agents = Agents(MIXED, (0.5,) * 5, 6)
    rounds, by_round = [], PairedSequence(list(agents.rates))
    for _ in range(20):
        rounds.append({task: agents.differences(task, size) for task, size in by_round.next_round().items()})
        by_round.add_round(rounds[-1])
    at_once = PairedSequence(list(agents.rates))
    at_once.add_round({task: [each for one in rounds for each in one[task]] for task in agents.rates})
    assert at_once.interval == by_round.interval
    assert at_once.next_round() == by_round.next_round()
    assert at_once.pairs_needed() == by_round.pairs_needed()


def test_the_interval_only_narrows() -> None:
    agents = Agents(MIXED, (0.4,) * 5, 7)
    sequence = PairedSequence(list(agents.rates))
    before = sequence.interval
    for _ in range(60):
        sequence.add_round({task: agents.differences(task, size) for task, size in sequence.next_round().items()})
        assert before.low <= sequence.interval.low <= sequence.interval.high <= before.high
        before = sequence.interval


def test_about_as_many_pairs_as_it_says_are_needed() -> None:
    """A third of the way, the estimate is within a factor of two, mostly."""
    agents = Agents((0.7,) * 10, (0.5,) * 10, 8)
    ratios = []
    for _ in range(40):
        sequence, said = PairedSequence(list(agents.rates)), 0
        pairs = at = 0
        while sequence.verdict == "undecided":
            sizes = sequence.next_round()
            sequence.add_round({task: agents.differences(task, size) for task, size in sizes.items()})
            pairs += sum(sizes.values())
            if at == 0 and pairs >= 40:
                said, at = sequence.pairs_needed() or 0, pairs
        if said:
            ratios.append(said / (pairs - at))
    assert 0.5 < np.median(ratios) < 2


def test_the_memory_does_not_grow() -> None:
    agents = Agents((0.5,) * 20, (0.5,) * 20, 9)
    sequence = PairedSequence(list(agents.rates))

    def held_after(rounds: int) -> int:
        for _ in range(rounds):
            sequence.add_round({task: agents.differences(task, size) for task, size in sequence.next_round().items()})
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early = held_after(120)
        late = held_after(100)
    finally:
        tracemalloc.stop()
    assert late < early + 2_000


@pytest.mark.full
def test_a_million_pairs() -> None:
    rng = np.random.default_rng(10)
    tasks = names(100)
    sequence = PairedSequence(tasks)
    pairs = 0
    while pairs < 1_000_000:
        sizes = sequence.next_round()
        drawn = iter((rng.random(sum(sizes.values())) < 0.5).astype(float) - (rng.random(sum(sizes.values())) < 0.5))
        sequence.add_round({task: [float(next(drawn)) for _ in range(size)] for task, size in sizes.items()})
        pairs += sum(sizes.values())
    assert sequence.verdict == "equivalent"
    assert sequence.interval.high - sequence.interval.low <= 0.02
