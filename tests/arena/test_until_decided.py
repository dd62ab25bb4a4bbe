"""Trials end when every comparison is decided: in whole rounds, in any order of completion, after any kill."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from schedule_bench import Simulation, chance, make_trial, matrix_of

from youbencha.engine.matrix import Matrix
from youbencha.engine.schedule import UntilDecidedSchedule, plan_comparisons
from youbencha.engine.updates import ComparisonState
from youbencha.errors import YouBenchaError
from youbencha.stats.sequence import FinishedPair, PairedSequence, replay_rounds, shared_confidence
from youbencha.store.arena import TrialKey, TrialMeta

RATES = {"base": 0.4, "good": 0.85, "same": 0.4, "bad": 0.05}
BASELINES = {"good": "base", "same": "base", "bad": "base"}


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    found = matrix_of(tmp_path, list(RATES), 8, baselines=BASELINES)
    return plan_comparisons(found, margin=0.05, max_trials=1200)


def simulate(matrix: Matrix, *, seed: int = 0, parallel: int = 8) -> Simulation:
    simulation = Simulation(UntilDecidedSchedule(matrix), chance(RATES), parallel=parallel, seed=seed)
    simulation.run()
    return simulation


def test_what_differs_is_decided_and_gets_no_more_trials(matrix: Matrix) -> None:
    simulation = simulate(matrix)
    found = {comparison.first: comparison for comparison in simulation.schedule.comparisons}
    assert (found["good"].verdict, found["bad"].verdict) == ("better", "worse")
    assert found["same"].verdict in ("undecided", "equivalent")
    trials = {name: sum(key.orchestrator == name for key in simulation.finished) for name in RATES}
    assert trials["good"] == found["good"].pairs < trials["base"]
    assert trials["bad"] == found["bad"].pairs < trials["base"]
    assert trials["same"] == trials["base"]
    assert len(simulation.finished) <= 1200
    assert simulation.schedule.remaining == 0
    low, high = found["good"].interval
    assert 0 < low <= (found["good"].difference or 0) <= high


def test_decisions_do_not_depend_on_the_order_in_which_trials_end(matrix: Matrix) -> None:
    runs = [simulate(matrix, seed=seed, parallel=parallel) for seed, parallel in ((1, 8), (2, 8), (3, 1), (4, 100))]
    first = runs[0]
    for other in runs[1:]:
        assert other.finished == first.finished
        assert other.states == first.states
        assert list(other.schedule.comparisons) == list(first.schedule.comparisons)


def test_pairs_are_interleaved_and_slots_are_used(matrix: Matrix) -> None:
    schedule = UntilDecidedSchedule(matrix)
    schedule.start({})
    first_round = [due.key for due in iter(lambda: schedule.next(lambda _: True), None)]
    assert sorted(first_round, key=matrix.place) == first_round
    assert {key[:2] for key in first_round} == {(cell.orchestrator, cell.task) for cell in matrix.cells}
    assert len(first_round) == len(set(first_round)), "the baseline's trials are shared"
    assert simulate(matrix).most_running == 8


@pytest.mark.parametrize("killed_after", [1, 31, 32, 100])
def test_a_killed_run_continues_to_the_same_end(matrix: Matrix, killed_after: int) -> None:
    whole = simulate(matrix)
    killed = Simulation(UntilDecidedSchedule(matrix), chance(RATES), seed=5)
    killed.run(killed_after)
    assert len(killed.finished) == killed_after
    again = Simulation(UntilDecidedSchedule(matrix), chance(RATES), seed=6)
    again.finished = dict(random.Random(0).sample(list(killed.finished.items()), killed_after))
    again.run()
    assert again.finished == whole.finished
    assert list(again.schedule.comparisons) == list(whole.schedule.comparisons)


def test_the_rounds_can_be_replayed_from_the_results_alone(matrix: Matrix) -> None:
    simulation = simulate(matrix)
    tasks = list(dict.fromkeys(cell.task for cell in matrix.cells))
    for state in simulation.schedule.comparisons:

        def find(task: str, number: int, state: ComparisonState = state) -> FinishedPair | None:
            rows = [simulation.finished.get(TrialKey(name, task, number)) for name in state[:2]]
            return FinishedPair(*(row.composite_score for row in rows if row)) if all(rows) else None

        sequence = PairedSequence(tasks, margin=0.05, confidence=shared_confidence(BASELINES))
        assert len(replay_rounds(sequence, find).intervals) == state.rounds
        assert (sequence.interval, sequence.verdict) == (state.interval, state.verdict)


class CountedRows(dict[TrialKey, TrialMeta]):
    looked_up = 0

    def get(self, key: TrialKey, default: Any = None) -> Any:
        self.looked_up += 1
        return super().get(key, default)


def test_a_round_looks_only_at_its_own_trials(matrix: Matrix) -> None:
    """So the time that a long run takes for its decisions grows with its trials, not with their square."""
    simulation = Simulation(UntilDecidedSchedule(matrix), chance(RATES))
    simulation.finished = rows = CountedRows()
    simulation.run()
    assert len(rows) > 500
    assert rows.looked_up < 6 * len(rows)


@pytest.mark.parametrize("tasks", [1, 3])
def test_at_most_so_many_trials_are_run(tmp_path: Path, tasks: int) -> None:
    matrix = matrix_of(tmp_path, ["base", "same"], tasks, baselines={"same": "base"})
    planned = plan_comparisons(matrix, margin=0.05, max_trials=50)
    assert planned.total == 50
    simulation = simulate(planned)
    (state,) = simulation.schedule.comparisons
    assert state.verdict == "undecided"
    assert 50 - 2 * 4 * tasks < len(simulation.finished) <= 50
    assert simulation.schedule.remaining == 0
    assert plan_comparisons(matrix, margin=0.05).total == 20 * 2 * tasks
    assert all(planned.find(key) for key in simulation.finished)


def test_a_pair_without_two_valid_trials_is_missing(tmp_path: Path) -> None:
    matrix = plan_comparisons(
        matrix_of(tmp_path, ["base", "good"], 4, baselines={"good": "base"}), margin=0.05, max_trials=400
    )
    score = chance(RATES)
    broken = Simulation(
        UntilDecidedSchedule(matrix), lambda key: None if key == ("good", "task-1", 2) else score(key), parallel=3
    )
    (state,) = broken.run().values()
    assert state.verdict == "better"
    assert state.missing == 1
    assert 2 * (state.pairs + 1) == len(broken.finished)


def test_a_task_without_valid_trials_ends_its_comparison_only(matrix: Matrix) -> None:
    """It would be asked for again and again, until no trial is left for the others."""
    score = chance(RATES)
    broken = Simulation(
        UntilDecidedSchedule(matrix), lambda key: None if key[:2] == ("bad", "task-1") else score(key), parallel=3
    )
    found = {first: state for (first, _), state in broken.run().items()}
    assert (found["bad"].verdict, found["bad"].given_up, found["bad"].missing) == ("undecided", ("task-1",), 3)
    assert str(found["bad"]).endswith("undecided; given up: no valid pair of trials on task-1")
    assert sum(key.orchestrator == "bad" for key in broken.finished) == 8 + 2
    assert (found["good"].verdict, found["good"].given_up) == ("better", ())
    again = Simulation(UntilDecidedSchedule(matrix), score)
    again.finished = dict(broken.finished)
    again.run()
    assert again.finished == broken.finished, "a resumed run has nothing to do"
    assert list(again.schedule.comparisons) == list(broken.schedule.comparisons)


def test_if_no_trial_is_valid_it_ends_undecided(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["base", "good"], 2, baselines={"good": "base"})
    broken = Simulation(UntilDecidedSchedule(plan_comparisons(matrix, margin=0.05, max_trials=30)), lambda _: None)
    (state,) = broken.run().values()
    assert (state.verdict, state.pairs, state.difference) == ("undecided", 0, None)
    assert state.interval == (-1, 1)
    assert len(broken.finished) == 2 * 2 * 3


def test_a_comparison_whose_trials_cannot_run_does_not_hold_up_the_others(matrix: Matrix) -> None:
    schedule = UntilDecidedSchedule(matrix)
    Simulation(schedule, chance(RATES), parallel=3, skipped="bad").run()
    found = {comparison.first: comparison for comparison in schedule.comparisons}
    assert found["good"].verdict == "better"
    assert (found["bad"].verdict, found["bad"].rounds) == ("undecided", 0)
    assert schedule.remaining == 8, "they can be run later"


def test_reused_trials_count(matrix: Matrix) -> None:
    """All of the baseline's, and more than are needed. They do not count as trials of the run."""
    whole, score = simulate(matrix), chance(RATES)
    few = plan_comparisons(matrix, margin=0.05, max_trials=sum(key.orchestrator != "base" for key in whole.finished))
    again = Simulation(UntilDecidedSchedule(few), score)
    reused = [TrialKey("base", cell.task, number) for cell in matrix.cells[::4] for number in range(1, 301)]
    again.finished = {key: make_trial(key, score(key)).model_copy(update={"reused_from": "earlier"}) for key in reused}
    again.run()
    assert list(again.schedule.comparisons) == list(whole.schedule.comparisons)
    own = {key for key, row in again.finished.items() if row.reused_from is None}
    assert own == {key for key in whole.finished if key.orchestrator != "base"}
    assert again.schedule.max_trials == few.total + len(reused), "in the end, the run has them, too"


def test_without_a_baseline_nothing_can_be_decided(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["base", "good", "alone"], 2, baselines={"good": "base"})
    with pytest.raises(YouBenchaError, match="for alone") as caught:
        plan_comparisons(matrix, margin=0.05)
    assert caught.value.code == "NOTHING_TO_COMPARE"
    assert "baseline: NAME" in (caught.value.hint or "")


def test_one_round_must_fit(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["base", "good"], 5, baselines={"good": "base"})
    with pytest.raises(YouBenchaError, match="the first round alone has 10 trials"):
        plan_comparisons(matrix, margin=0.05, max_trials=9)
    assert plan_comparisons(matrix, margin=0.05, max_trials=10).total == 10
