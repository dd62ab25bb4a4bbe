"""A schedule gives trials in the order of the matrix, and passes those that may not start."""

from __future__ import annotations

import random
from pathlib import Path

from schedule_bench import Simulation, make_trial, matrix_of

from youbencha.engine.matrix import Matrix
from youbencha.engine.schedule import FixedSchedule
from youbencha.store.arena import TrialKey


def started(matrix: Matrix) -> FixedSchedule:
    schedule = FixedSchedule(matrix)
    schedule.start({})
    return schedule


def taken(schedule: FixedSchedule, *, full: str | None = "none") -> list[TrialKey]:
    found = []
    while due := schedule.next(lambda provider: provider != full):
        assert (due.cell.orchestrator, due.cell.task) == due.key[:2]
        found.append(due.key)
    return found


def test_trials_come_in_the_order_of_the_matrix(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["a", "b", "c"], 4, trials=5, providers={"a": "anthropic", "b": "openai"})
    order = [key for key, _ in matrix.order()]
    schedule = started(matrix)
    assert schedule.remaining == schedule.max_trials == 60
    assert taken(schedule) == order
    assert taken(schedule) == []
    shuffled = random.Random(0).sample(order, len(order))
    assert sorted(shuffled, key=matrix.place) == order
    assert all(matrix.find(key) == cell for key, cell in matrix.order())
    for unknown in (TrialKey("a", "task-1", 6), TrialKey("a", "task-1", 0), TrialKey("d", "task-1", 1)):
        assert matrix.find(unknown) is None


def test_trials_pass_those_of_a_provider_without_room(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["a", "b"], 2, trials=3, providers={"a": "anthropic"})
    order = [key for key, _ in matrix.order()]
    schedule = started(matrix)
    assert taken(schedule, full="anthropic") == [key for key in order if key.orchestrator == "b"]
    assert taken(schedule) == [key for key in order if key.orchestrator == "a"]


def test_finished_trials_are_not_given_again(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["a", "b"], 3, trials=4)
    order = [key for key, _ in matrix.order()]
    finished = {key: make_trial(key, 1.0) for key in random.Random(0).sample(order, 11)}
    schedule = FixedSchedule(matrix)
    schedule.start(finished)
    assert schedule.remaining == 13
    assert taken(schedule) == [key for key in order if key not in finished]


def test_a_simulated_run_uses_all_slots(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["a", "b"], 3, trials=4)
    simulation = Simulation(FixedSchedule(matrix), lambda _: 1.0, parallel=8)
    simulation.run()
    assert len(simulation.finished) == 24
    assert simulation.most_running == 8
    assert simulation.schedule.remaining == 0
