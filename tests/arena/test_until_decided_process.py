"""`thunderdome run --until-decided` with real trials: decided, killed and resumed, reused, out of trials, bad options."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from arena_process import ArenaProject
from engine_bench import events, metas

from youbencha.report.arena_loading import load_runs

GOOD, BAD = "echo x > made.txt", "true"


def arena(root: Path, tasks: int = 2, **scripts: str) -> ArenaProject:
    """Agents by name, all compared with the first. `_` is a space."""
    orchestrators: list[dict[str, Any]] = [
        {
            "name": name,
            "agent": "command",
            "config": {"command": f"{script}; : {root}", "shell": True, "prompt_by": "none"},
        }
        for name, script in scripts.items()
    ]
    return ArenaProject(root, tasks=tasks, orchestrators=orchestrators, baseline=next(iter(scripts)))


def test_the_better_one_is_found_and_the_rest_is_saved(tmp_path: Path) -> None:
    project = arena(tmp_path, base=BAD, good=GOOD)
    done = project.run_here("--until-decided", "--parallel", "4", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (comparison,) = found["comparisons"]
    assert (comparison["first"], comparison["second"], comparison["verdict"]) == ("good", "base", "better")
    assert comparison["difference"] == 1
    assert 0 < comparison["interval"]["low"] < comparison["interval"]["high"] <= 1
    assert found["complete"]
    assert found["max_trials"] == 80
    assert found["saved_trials"] == 80 - found["finished"] > 0
    run = project.latest
    assert len(metas(run)) == found["finished"] == 2 * comparison["pairs"]
    info = run.info()
    assert info.baselines == {"good": "base"}
    assert info.until_decided is not None
    assert (info.until_decided.margin, info.until_decided.max_trials) == (0.05, 80)
    rounds = events(run, "round_finished")
    assert [line["rounds"] for line in rounds] == list(range(1, comparison["rounds"] + 1))
    assert [line["verdict"] for line in rounds] == ["undecided"] * (len(rounds) - 1) + ["better"]
    assert "good vs base: round 1, difference +1.00 (" in done.stderr
    results = load_runs([run.path])
    assert results.planned_known
    assert results.unfinished == (), "trials that were not needed are not missing"


def test_the_result_says_what_is_known_and_what_was_saved(tmp_path: Path) -> None:
    project = arena(tmp_path, base=GOOD, same=GOOD, bad=BAD)
    done = project.run_here("--until-decided", "--margin", "0.6", "--max-trials", "200", "--parallel", "4")
    assert done.returncode == 0, done.stderr
    assert "running at most 200 trials" in done.stderr
    assert "same and base are equivalent within ±0.6: difference +0.00 (" in done.stdout
    assert "bad is worse than base: difference -1.00 (" in done.stdout
    assert "of at most 200 saved" in done.stdout


def test_out_of_trials_it_ends_properly_and_can_go_on_with_more(tmp_path: Path) -> None:
    project = arena(tmp_path, base=GOOD, same=GOOD)
    done = project.run_here("--until-decided", "--max-trials", "10", "--parallel", "4")
    assert done.returncode == 0, done.stderr
    assert "it is undecided whether same or base is better" in done.stdout
    assert "saved" not in done.stdout
    before = len(metas(project.latest))
    assert before <= 10
    less = project.run_here("--resume", "--max-trials", "8")
    assert less.returncode == 2
    assert "can only be raised" in less.stderr
    more = project.run_here("--resume", "--max-trials", "20")
    assert more.returncode == 0, more.stderr
    assert before < len(metas(project.latest)) <= 20
    info = project.latest.info()
    assert info.until_decided is not None
    assert info.until_decided.max_trials == 20


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """The third trial kills the harness."""
    suicide = f"echo x >> {tmp_path}/tries; test $(wc -l < {tmp_path}/tries) -ne 3 || kill -9 $(cat {tmp_path}/pid)"
    project = arena(tmp_path, base=BAD, good=f"{suicide}; {GOOD}")
    process = project.start("--until-decided", "--parallel", "2", "--max-trials", "60")
    (tmp_path / "pid").write_text(str(process.pid))
    process.communicate()
    assert process.returncode == -9
    project.wait_until_no_process_is_left()
    assert 0 < len(metas(project.latest)) < 60
    done = project.run("--resume", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (comparison,) = found["comparisons"]
    assert comparison["verdict"] == "better"
    assert found["max_trials"] == 60
    assert len(metas(project.latest)) == 2 * comparison["pairs"], "nothing was run twice, and nothing for nothing"


def test_the_baselines_trials_of_an_earlier_run_count(tmp_path: Path) -> None:
    project = arena(tmp_path, base=BAD, good=GOOD)
    first = project.run_here("--until-decided", "--parallel", "4", "--json")
    assert first.returncode == 0, first.stderr
    earlier = project.latest
    shutil.rmtree(earlier.path / "trials/good")
    again = project.run_here("--until-decided", "--parallel", "4", "--reuse", earlier.name, "--json")
    assert again.returncode == 0, again.stderr
    one, two = (json.loads(done.stdout) for done in (first, again))
    assert one["comparisons"] == two["comparisons"]
    assert {row["orchestrator"]: row["reused_from"] for row in two["results"]} == {"base": earlier.name, "good": None}


def test_a_plan_says_when_the_run_ends(tmp_path: Path) -> None:
    project = arena(tmp_path, base=BAD, good=GOOD)
    shown = project.run_here("--until-decided", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "at most 80 (2 orchestrators x 2 tasks), until decided with a margin of 0.05" in shown.stdout
    data = json.loads(project.run_here("--until-decided", "--max-trials", "9", "--dry-run", "--json").stdout)
    assert (data["trials"], data["trials_each"]) == (9, None)
    assert data["until_decided"] == {"margin": 0.05, "max_trials": 9}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--until-decided", "--trials", "3"), "Use --max-trials"),
        (("--margin", "0.1"), "Add --until-decided"),
        (("--max-trials", "9"), "Add --until-decided"),
        (("--until-decided", "--margin", "0"), "not between 0 and 1"),
        (("--until-decided", "--margin", "nan"), "not between 0 and 1"),
        (("--until-decided", "--max-trials", "3"), "the first round alone has 4 trials"),
        (("--until-decided", "--orchestrator", "good"), "baseline: NAME"),
        (("--resume", "--margin", "0.1"), "keeps the margin"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = arena(tmp_path, base=BAD, good=GOOD).run_here(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in " ".join(done.stderr.split())


def test_a_run_with_a_fixed_number_of_trials_stays_one(tmp_path: Path) -> None:
    project = arena(tmp_path, base=BAD, good=GOOD)
    assert project.run_here("--task", "task-1").returncode == 0
    for more in (("--until-decided",), ("--max-trials", "10")):
        done = project.run_here("--resume", *more)
        assert done.returncode == 2
        assert "begun without --until-decided" in done.stderr
