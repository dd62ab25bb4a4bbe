"""The store: all runs below some paths are listed, found and read again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from youbencha.errors import YouBenchaError
from youbencha.locks import lock_file
from youbencha.loop.directory import LoopDirectory
from youbencha.store.arena import CellInfo, RunInfo, TrialKey, TrialMeta
from youbencha.store.arena_run import ArenaRun, create_run
from youbencha.store.index import Store
from youbencha.store.layout import BENCH_DIR
from youbencha.store.loop_lock import loop_lock
from youbencha.store.loops import LoopState

AT = "2026-03-01T00:00:00Z"
OLD_RESULTS = {
    "test_case": {"name": "greet"},
    "execution": {"started_at": AT, "completed_at": AT, "duration_ms": 5},
    "evaluators": [],
    "summary": {"total_evaluators": 0, "passed": 0, "failed": 0, "skipped": 0, "overall_status": "passed"},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a single run, a run of several trials and a loop, in this order."""
    single = tmp_path / ".youbencha-workspace" / "run-2026-03-01-100000-aaaaaa" / "artifacts"
    single.mkdir(parents=True)
    (single / "results.json").write_text(json.dumps(OLD_RESULTS))
    loop = LoopDirectory(tmp_path, "20260101-000000-cccccc")
    loop.create()
    loop.save(LoopState(loop_id=loop.loop_id, config_file=None, started_at="2999-01-01T00:00:00Z", objective="Do it."))
    return tmp_path


def make_arena_run(results: Path, *, trials: int = 2) -> ArenaRun:
    cell = CellInfo(orchestrator="claude", task="clock", agent_hash="a", validation_hash="v")
    return create_run(results, RunInfo(youbencha_version="1", created_at=AT, trials=trials, cells=(cell,)))


def finish(run: ArenaRun, number: int, score: float = 1.0) -> None:
    key = TrialKey("claude", "clock", number)
    meta = TrialMeta(orchestrator="claude", task="clock", trial=number, composite_score=score, outcome="solved")
    run.trial(key).save(meta, task_text="", attempt=None)


def test_runs_of_all_kinds_newest_first(project: Path) -> None:
    bench, arena = make_arena_run(project / ".youbencha-workspace" / BENCH_DIR), make_arena_run(project / "results")
    runs = Store([project]).runs()
    assert [run.kind for run in runs] == ["loop", "arena", "arena", "run"]
    assert {run.path for run in runs[1:3]} == {bench.path, arena.path}
    assert [run.kind for run in Store([project]).runs(("run", "loop"))] == ["loop", "run"]
    for run in runs:  # a path can also be the run itself
        assert Store([run.path]).runs() == [run]


def test_a_run_is_found_by_name_start_path_and_as_the_latest(project: Path) -> None:
    arena, store = make_arena_run(project / "results"), Store([project])
    assert store.find().kind == "loop"
    assert store.find("latest", ("arena",)).path == arena.path
    assert store.find("run-2026").kind == "run"
    assert store.find(arena.name).path == arena.path
    assert store.find(str(project / "results")).path == arena.path
    for which in ("nothing", "20"):  # the second is the start of two names
        with pytest.raises(YouBenchaError) as caught:
            store.find(which)
        assert caught.value.code == "RUN_NOT_FOUND"


def test_typed_results(project: Path) -> None:
    run, store = make_arena_run(project / "results"), Store([project])
    finish(run, 1)
    arena, loop, single = store.find("latest", ("arena",)), store.find(), store.find("run-")
    assert store.results(single).test_case.name == "greet"
    assert [trial.key for trial in store.arena(arena).trials] == [("claude", "clock", 1)]
    assert [trial.key for trial in store.arena(arena).unfinished] == [("claude", "clock", 2)]
    assert store.loop(loop).state.objective == "Do it."
    with pytest.raises(YouBenchaError) as caught:
        store.log(single)
    assert caught.value.code == "LOG_NOT_FOUND"


def test_the_attempts_of_a_trial_are_single_runs(project: Path) -> None:
    run, store = make_arena_run(project / "results"), Store([project])
    key = TrialKey("claude", "clock", 1)
    for number in (1, 2, 10):
        artifacts = run.trial(key).attempt(number) / "artifacts"
        artifacts.mkdir(parents=True)
        (artifacts / "results.json").write_text(json.dumps(OLD_RESULTS))
    attempts = store.attempts(store.find("latest", ("arena",)), key)
    assert [attempt.name for attempt in attempts] == ["10", "2", "1"], "the last one counts"
    assert store.results(attempts[0]).test_case.name == "greet"
    assert store.transcript_file(attempts[0]) == run.trial(key).attempt(10) / "artifacts/transcript.jsonl"
    loop = store.find("latest", ("loop",))
    assert store.transcript_file(loop) == LoopDirectory(project, loop.name).recording_file


def test_only_new_and_changed_trials_are_read_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, store = make_arena_run(project / "results", trials=3), Store([project])
    arena = store.find("latest", ("arena",))
    finish(run, 1)
    finish(run, 2)
    first = store.arena(arena)
    finish(run, 2, score=0.5)
    finish(run, 3)
    second = store.arena(arena)
    assert [trial.meta.composite_score for trial in second.trials] == [1.0, 0.5, 1.0]
    assert second.trials[0].meta is first.trials[0].meta
    assert second.trials[1].meta is not first.trials[1].meta


def test_states(project: Path) -> None:
    run, store = make_arena_run(project / "results"), Store([project])

    def states() -> list[str]:
        return [summary.state for summary in store.summaries()]

    assert states() == ["died", "unfinished", "passed"]
    with run.locked(), loop_lock(project, "20260101-000000-cccccc"):
        assert states() == ["running", "running", "passed"]
    finish(run, 1)
    finish(run, 2)
    assert states() == ["died", "finished", "passed"]
    dead = project / ".youbencha-workspace" / "run-2026-02-01-100000-bbbbbb"
    (dead / "artifacts").mkdir(parents=True)
    assert states()[-1] == "died"
    with lock_file(dead / ".lock") as lock:
        assert lock.take()
        assert states()[-1] == "running"


def test_what_cannot_be_read_is_listed(project: Path) -> None:
    (project / ".youbencha-workspace/run-2026-03-01-100000-aaaaaa/artifacts/results.json").write_text("{")
    (project / ".ralph/loops/20260101-000000-cccccc/loop.json").write_text("{")
    assert [summary.state for summary in Store([project]).summaries()] == ["unreadable", "unreadable"]


def test_the_start_of_a_run_without_a_time_in_its_name_is_in_its_file(project: Path) -> None:
    run = make_arena_run(project / "results")
    renamed = run.path.with_name("mine")
    run.path.rename(renamed)
    os.utime(renamed / "run.json")  # as if it had been resumed
    (found,) = Store([project]).runs(("arena",))
    assert found.began == 1772323200
