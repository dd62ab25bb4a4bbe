"""A schedule gives trials in the order of the matrix, passes those that may not start, and holds almost nothing."""

from __future__ import annotations

import random
import time
import tracemalloc
from itertools import islice
from pathlib import Path

import psutil
import pytest
from schedule_bench import Simulation, matrix_of, row_of

from youbencha.engine.dry_run import describe_plan
from youbencha.engine.matrix import Matrix
from youbencha.engine.schedule import FixedSchedule
from youbencha.store.arena import TrialKey

MIB = 1024 * 1024


def taken(schedule: FixedSchedule, *, full: str | None = "none") -> list[TrialKey]:
    found = []
    while due := schedule.next(lambda provider: provider != full):
        assert (due.cell.orchestrator, due.cell.task) == due.key[:2]
        found.append(due.key)
    return found


def test_trials_come_in_the_order_of_the_matrix(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["a", "b", "c"], 4, trials=5, providers={"a": "anthropic", "b": "openai"})
    order = [key for key, _ in matrix.order()]
    schedule = FixedSchedule(matrix)
    assert schedule.left == schedule.most == 60
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
    schedule = FixedSchedule(matrix)
    assert taken(schedule, full="anthropic") == [key for key in order if key.orchestrator == "b"]
    assert taken(schedule) == [key for key in order if key.orchestrator == "a"]


def test_finished_trials_are_not_given_again(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["a", "b"], 3, trials=4)
    order = [key for key, _ in matrix.order()]
    finished = {key: row_of(key, 1.0) for key in random.Random(0).sample(order, 11)}
    schedule = FixedSchedule(matrix)
    schedule.begin(finished)
    assert schedule.left == 13
    assert taken(schedule) == [key for key in order if key not in finished]


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    agents = [f"agent-{number}" for number in range(10)]
    providers = dict.fromkeys(agents[:5], "anthropic")
    return matrix_of(tmp_path_factory.mktemp("million"), agents, 100, trials=1000, providers=providers)


def test_a_million_trials_are_planned_in_flat_memory(million: Matrix) -> None:
    started = time.monotonic()
    tracemalloc.start()
    try:
        plan = describe_plan(million, parallel=8)
        assert plan.as_data()["trials"] == 1_000_000
        assert "1,000,000 (10 orchestrators x 100 tasks x 1,000)" in plan.as_text()
        schedule = FixedSchedule(million)
        peaks = []
        for _ in range(2):
            tracemalloc.reset_peak()
            assert sum(1 for _ in islice(iter(lambda: schedule.next(lambda _: True), None), 10_000)) == 10_000
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 0.1 * MIB
    assert max(peaks) < 4 * MIB
    assert time.monotonic() - started < 60


@pytest.mark.full
def test_a_million_trials_are_run_through_in_flat_memory(million: Matrix) -> None:
    """One provider never has room until the other's trials are all taken: the farthest that anything looks ahead."""
    schedule, this = FixedSchedule(million), psutil.Process()
    for full in ("anthropic", "none"):
        before = this.memory_info().rss
        assert sum(1 for _ in iter(lambda: schedule.next(lambda provider: provider != full), None)) == 500_000  # noqa: B023
        assert this.memory_info().rss - before < 20 * MIB


def test_a_simulated_run_uses_all_slots(tmp_path: Path) -> None:
    matrix = matrix_of(tmp_path, ["a", "b"], 3, trials=4)
    simulation = Simulation(FixedSchedule(matrix), lambda _: 1.0, parallel=8)
    simulation.run()
    assert len(simulation.rows) == 24
    assert simulation.most_running == 8
    assert simulation.schedule.left == 0
