"""Results are found wherever they are, and no file stops the others."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from arena_trees import HASH, RUN, meta, original, small_results, write_run, write_trial
from systems import ON_WINDOWS
from youbencha.errors import YouBenchaError
from youbencha.report.leaderboard import make_leaderboard
from youbencha.store.locate import locate_arena_run
from youbencha.store.read import ArenaResults, Range, load_runs


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return small_results(tmp_path / "results")


def names(found: ArenaResults) -> list[str]:
    return [f"{trial.meta.orchestrator}/{trial.meta.task}/{trial.meta.trial}" for trial in found.trials]


@pytest.mark.parametrize("where", ["latest", ".", "runs", "latest/trials", "runs/2026-01-02T03-00-00Z-0000aaaa"])
def test_every_way_to_name_the_results(results: Path, where: str) -> None:
    found = load_runs([results / where])
    assert len(found.trials) == 7
    assert [run.name for run in found.runs] == ["2026-01-02T03-00-00Z-0000aaaa"]


def test_what_was_planned_and_is_not_finished(results: Path) -> None:
    found = load_runs([results])
    assert found.planned_known
    assert [(each.orchestrator, each.task, each.trial) for each in found.unfinished] == [("aider", "clock", 2)]


def test_a_damaged_file_is_listed_with_the_reason(results: Path) -> None:
    (unreadable,) = load_runs([results]).unreadable
    assert unreadable.path.parts[-4:] == ("aider", "broken", "trial-1", "meta.json")
    assert "JSON" in unreadable.reason


def test_all_runs_of_a_results_directory(results: Path) -> None:
    write_run(results / "runs" / "2026-02", [meta("claude-code", "parser", 3)])
    assert len(load_runs([results]).trials) == 8


def test_a_tree_of_the_original(tmp_path: Path) -> None:
    records = [original("claude", "bench-time-tracker", n, exit_reason="whatever", unheard_of={"a": 1}) for n in (1, 2)]
    run = write_run(tmp_path / "results" / "runs" / "20250101-120000", records)
    (run / "trials" / "claude" / "bench-time-tracker" / "trial-1" / "workspace").mkdir()
    found = load_runs([tmp_path / "results"])
    assert [trial.meta.composite_score for trial in found.trials] == [0.825, 0.825]
    assert not found.planned_known
    board = make_leaderboard(found)
    (row,) = board.agents
    assert (row.trials.planned, row.trials.valid, row.trials.validity_unknown) == (None, 2, 2)
    assert row.pass_rate.mean is None  # it does not say what was solved
    assert (row.cost_usd.value, row.tokens.value) == (None, None)  # the original's zeros: not measured
    assert row.trials.scored == 2, "only the cost is unknown"
    assert any("unknown validity" in note for note in board.notes)


HOSTILE = {
    "empty": b"",
    "half": b'{"orchestrator": "a", "task"',
    "not an object": b"[1, 2]",
    "no keys": b"{}",
    "not UTF-8": b'{"orchestrator": "\xff\xfe"}',
    "deep": b'{"x": ' + b"[" * 200_000,
    "deep and ignored": json.dumps(meta("a", "t")).encode()[:-1] + b', "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "large": json.dumps(meta("a", "t", reason="x" * 10_000_000)).encode(),
    "tokens": json.dumps(meta("a", "t", total_tokens=10**30)).encode(),
    "seconds": json.dumps(meta("a", "t", duration_s=1e308)).encode(),
    "NaN": json.dumps(meta("a", "t", composite_score=float("nan"))).encode(),
    "infinite cost": json.dumps(meta("a", "t", total_cost_usd=float("inf"))).encode(),
    "infinite time": json.dumps(meta("a", "t", duration_s=float("inf"))).encode(),
    "negative": json.dumps(meta("a", "t", total_tokens=-1)).encode(),
    "too much": json.dumps(meta("a", "t", composite_score=1.5)).encode(),
    "lone surrogate": json.dumps(meta("a", "t", reason="\ud800")).encode(),
    "another agent's": json.dumps(meta("b", "t")).encode(),
    "another trial's": json.dumps(meta("a", "t", 7)).encode(),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_listed_and_the_others_count(tmp_path: Path, content: bytes) -> None:
    run = write_run(tmp_path / "run", [meta("a", "t", 1), meta("a", "t", 2)])
    (run / "trials" / "a" / "t" / "trial-1" / "meta.json").write_bytes(content)
    found = load_runs([run])
    assert names(found) == ["a/t/2"]
    assert len(found.unreadable) == 1
    assert found.unreadable[0].reason.isprintable()
    assert len(found.unreadable[0].reason) < 400


@pytest.mark.skipif(ON_WINDOWS, reason="has no pipes in the file system, and links need a right")
def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [meta("a", "t", 1), meta("a", "t", 2), meta("a", "t", 3)])
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(meta("a", "t", 1)))
    trials = run / "trials" / "a" / "t"
    for number in (1, 2):
        (trials / f"trial-{number}" / "meta.json").unlink()
    (trials / "trial-1" / "meta.json").symlink_to(secret)
    os.mkfifo(trials / "trial-2" / "meta.json")
    (trials / "trial-4").symlink_to(trials / "trial-3")
    found = load_runs([run])
    assert names(found) == ["a/t/3"]
    assert [each.path.parent.name for each in found.unreadable] == ["trial-1", "trial-2"]


def test_a_trial_without_a_result_is_not_finished(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [meta("a", "t", 1)])
    (run / "trials" / "a" / "t" / "trial-2" / "attempts").mkdir(parents=True)
    (run / "trials" / "a" / "notes.txt").write_text("")
    found = load_runs([run])
    assert (names(found), found.unreadable) == (["a/t/1"], ())


@pytest.mark.parametrize(
    "content", ["{", "[]", json.dumps({**RUN, "trials": 10**12, "cells": [{"orchestrator": "a", "task": "t", **HASH}]})]
)
def test_a_damaged_run_file_leaves_the_plan_unknown(tmp_path: Path, content: str) -> None:
    run = write_run(tmp_path / "run", [meta("a", "t", 1)], planned=5)
    (run / "run.json").write_text(content)
    found = load_runs([run])
    assert (len(found.trials), found.planned_known, found.unfinished) == (1, False, ())
    assert [each.path.name for each in found.unreadable] == ["run.json"]


def test_calibration_of_the_results_and_of_the_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "results" / "runs" / "one", [meta("a", "t"), meta("a", "u")])
    write = {"tasks": {"t": {"floor": 0.3, "ceiling": 1.0}, "u": {"floor": 0.1, "ceiling": None}}}
    (tmp_path / "results" / "calibration.json").write_text(json.dumps(write))
    (run / "calibration.json").write_text(json.dumps({"tasks": {"t": {"floor": 0.5, "ceiling": 9}}}))
    assert load_runs([tmp_path / "results"]).calibration == {"t": Range(0.5, None), "u": Range(0.1, None)}


@pytest.mark.parametrize("where", ["missing", "."])
def test_no_results_are_an_error(tmp_path: Path, where: str) -> None:
    with pytest.raises(YouBenchaError, match="no") as raised:
        load_runs([tmp_path / where])
    assert raised.value.code == "RESULTS_NOT_FOUND"


def test_a_run_is_found_by_the_start_of_its_name(results: Path) -> None:
    write_run(results / "runs" / "2026-02", [])
    assert locate_arena_run(results, "2026-01").name == "2026-01-02T03-00-00Z-0000aaaa"
    assert locate_arena_run(results, "latest").resolve().name == "2026-01-02T03-00-00Z-0000aaaa"
    for name, message in (("2026", "Several runs begin with 2026"), ("1999", "No run begins with 1999")):
        with pytest.raises(YouBenchaError, match=message):
            locate_arena_run(results, name)


def test_the_latest_run_where_links_are_not_possible(results: Path) -> None:
    (results / "latest").unlink()
    assert locate_arena_run(results, "latest").name == "2026-01-02T03-00-00Z-0000aaaa"
    write_run(results / "runs" / "2026-02", [])
    (results / "latest").write_text("runs/2026-01-02T03-00-00Z-0000aaaa\n")
    assert locate_arena_run(results, "latest").name == "2026-01-02T03-00-00Z-0000aaaa"


def test_a_trial_may_be_added_while_it_is_read(results: Path) -> None:
    """Nothing is kept between two loads."""
    before = len(load_runs([results]).trials)
    write_trial(results / "latest", meta("aider", "clock", 2))
    assert len(load_runs([results]).trials) == before + 1


def test_a_run_of_which_no_trial_has_begun_is_all_unfinished(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "2026-03", [meta("a", "t")], planned=2)
    shutil.rmtree(run / "trials")
    found = load_runs([locate_arena_run(tmp_path)])
    assert (found.trials, [each.trial for each in found.unfinished]) == ((), [1, 2])
