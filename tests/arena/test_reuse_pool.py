"""`thunderdome run --reuse DIR`: all runs of a directory are the pool; a dry run says what is still to run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from arena_process import ArenaProject
from engine_bench import events, metas

from youbencha.store.arena_run import ArenaRun

OLDER, NEWER = "2001-01-01T00-00-00Z-00000001", "2099-01-01T00-00-00Z-00000002"


def change(run: Path, pattern: str = "*/*/*", **changes: Any) -> None:
    for file in run.glob(f"trials/{pattern}/meta.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def copy(run: ArenaRun, name: str, **changes: Any) -> Path:
    """Another run with the same trials, changed."""
    target = run.path.parent / name
    shutil.copytree(run.path, target)
    change(target, **changes)
    return target


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> ArenaProject:
    """Two agents, two tasks, one trial of each."""
    project = ArenaProject(tmp_path_factory.mktemp("pool"))
    assert project.run_here("--reuse", "results").returncode == 0, "there is nothing yet, which is no error"
    return project


@pytest.fixture
def project(finished: ArenaProject, tmp_path: Path) -> ArenaProject:
    again = ArenaProject(tmp_path)
    shutil.copy2(finished.root / "thunderdome.yaml", tmp_path / "thunderdome.yaml")
    shutil.copytree(finished.results, again.results, symlinks=True)
    return again


def test_the_newest_valid_trial_of_all_runs_is_reused(project: ArenaProject) -> None:
    first = project.latest
    copy(first, OLDER, completed_at="2001-01-01T00:00:00Z")
    newer = copy(first, NEWER, completed_at="2099-01-01T00:00:00Z")
    change(newer, "agent-1/*/*", valid=False)
    shutil.rmtree(first.path / "trials" / "agent-1" / "task-2")
    shutil.rmtree(first.path.parent / OLDER / "trials" / "agent-2")
    done = project.run_here("--reuse", "results", "--trials", "2")
    assert done.returncode == 0, done.stderr
    run = project.latest
    assert {path: meta.reused_from for path, meta in metas(run).items()} == {
        "agent-1/task-1/trial-1": first.name,  # the newest one is not valid
        "agent-1/task-2/trial-1": OLDER,
        "agent-2/task-1/trial-1": NEWER,
        "agent-2/task-2/trial-1": NEWER,
        **{f"agent-{agent}/task-{task}/trial-2": None for agent in (1, 2) for task in (1, 2)},
    }
    assert {line["number"] for line in events(run, "attempt_started")} == {2}


def test_a_trial_that_replaces_one_that_was_not_valid_is_marked(project: ArenaProject) -> None:
    """Else an agent could have its bad trials run again. The mark stays when the run is resumed, or is reused."""
    again, reused = "agent-1/task-1", "agent-2/task-2"
    change(project.latest.path, f"{again}/*", valid=False, outcome="infra_error")
    change(copy(project.latest, OLDER), f"{reused}/*", valid=False, outcome="infra_error")
    assert project.run_here("--reuse", "results").returncode == 0
    run = project.latest
    for place in (again, reused):
        (run.path / "trials" / place / "trial-1" / "meta.json").unlink()
    assert project.run_here("--resume").returncode == 0
    assert {path.rpartition("/")[0] for path, meta in metas(run).items() if meta.rerun} == {again, reused}
    assert (
        "Retried after an attempt that was not valid: 2 trials (1 of agent-1, 1 of agent-2)"
        in project.run_here_as("report").stdout
    )
    assert project.run_here("--reuse", run.name).returncode == 0
    assert {path.rpartition("/")[0] for path, meta in metas(project.latest).items() if meta.retried} == {again, reused}


def test_a_result_of_the_same_validation_is_preferred_to_a_newer_one(project: ArenaProject) -> None:
    newer = copy(project.latest, NEWER, completed_at="2099-01-01T00:00:00Z")
    for file in newer.glob("trials/*/*/*/meta.json"):
        meta = json.loads(file.read_text())
        meta["identity"]["validation_hash"] = "0" * 64
        file.write_text(json.dumps(meta))
    plan = json.loads(project.run_here("--reuse", "results", "--dry-run", "--json").stdout)
    assert (plan["reuse"]["reused"], plan["reuse"]["rescored"]) == (4, 0)
    plan = json.loads(project.run_here("--reuse", NEWER, "--dry-run", "--json").stdout)
    assert (plan["reuse"]["reused"], plan["reuse"]["rescored"], plan["reuse"]["to_run"]) == (4, 4, 0)


def test_a_dry_run_says_what_is_still_to_run_and_what_it_costs(project: ArenaProject) -> None:
    run = project.latest.path
    change(run, "agent-1/*/*", all_attempts_cost_usd=0.25)
    change(run, "agent-2/task-1/*", all_attempts_cost_usd=0.5)
    arena = json.loads((project.root / "thunderdome.yaml").read_text())
    arena["orchestrators"][1]["config"]["command"] += " again"  # what it cost before is what is known
    (project.root / "thunderdome.yaml").write_text(json.dumps(arena))
    runs = sorted(project.results.glob("runs/*"))

    def reuse(*options: str) -> dict[str, Any]:
        done = project.run_here("--dry-run", "--json", "--reuse", "results", *options)
        assert done.returncode == 0, done.stderr
        plan = json.loads(done.stdout)
        return {**plan["reuse"], "first": plan["order"][0]["orchestrator"] if plan["order"] else None}

    assert reuse() == {
        "reused": 2,
        "rescored": 0,
        "to_run": 2,
        "to_run_by_orchestrator": {"agent-1": 0, "agent-2": 2},
        "expected_usd": 0.5,
        "trials_of_unknown_cost": 1,
        "first": "agent-2",
    }
    more = reuse("--trials", "3")
    assert (more["to_run"], more["expected_usd"], more["trials_of_unknown_cost"]) == (10, 4 * 0.25 + 3 * 0.5, 3)
    assert reuse("--orchestrator", "agent-1")["to_run"] == 0
    text = project.run_here("--dry-run", "--reuse", "results").stdout
    assert "to run        2 trials: agent-2 2\ncost          about $0.5000" in text
    assert sorted(project.results.glob("runs/*")) == runs, "nothing is written"
    done = project.run_here("--reuse", "results", "--orchestrator", "agent-1")
    assert done.stderr.startswith("running 0 trials, at most $0.00; ")


def test_the_longest_time_is_that_of_what_is_left(project: ArenaProject) -> None:
    options = ("--dry-run", "--json", "--trials", "2", "--reuse", "results")
    plan = json.loads(project.run_here(*options).stdout)
    assert plan["longest_s"] == 2 * 2 * 30 * 60, "of two trials of each agent and task, one is left"


def test_a_directory_without_runs_is_an_error(project: ArenaProject) -> None:
    (project.root / "empty").mkdir()
    done = project.run_here("--reuse", "empty")
    assert (done.returncode, "RESULTS_NOT_FOUND" in done.stderr) == (2, True)
