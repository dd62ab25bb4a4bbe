"""From a run to a verdict: the baseline runs once, a candidate later, and both are compared."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from arena_process import ArenaProject
from engine_bench import events

from yb import run_here

WORKER: dict[str, Any] = {
    "name": "worker",
    "agent": "command",
    "config": {"command": 'test -z "$SKILL" || echo made > made.txt', "shell": True, "prompt_by": "none"},
    "variants": [{"name": "taught", "env": {"SKILL": "made"}}],
}


def project_in(root: Path) -> ArenaProject:
    return ArenaProject(root, orchestrators=[WORKER], tasks=4, trials=2, parallel=2)


def test_a_baseline_is_run_once_and_compared_with_a_later_candidate(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    assert project.run_here("--orchestrator", "worker").returncode == 0
    assert project.run_here("--reuse", "latest").returncode == 0
    assert {line["orchestrator"] for line in events(project.latest, "attempt_started")} == {"worker+taught"}
    done = project.run_here_as("compare", "--fail-if", "not-better")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("worker+taught is better than worker by 1.00 (on these tasks ")
    found = json.loads(project.run_here_as("compare", "worker+taught", "--format", "json").stdout)
    assert (found["verdict"], found["tasks"], found["valid"], found["warnings"]) == ("better", 4, 16, [])
    trial = found["by_task"][0]["first"]["trials"][0]
    assert "+made" in (project.root / trial["diff"]).read_text()
    assert json.loads((project.root / trial["transcript"]).read_text())["agent_info"]["name"] == "command"
    assert (
        project.root / found["by_task"][0]["second"]["trials"][0]["transcript"]
    ).is_file()  # of a trial that was taken over


@pytest.mark.parametrize(
    ("options", "baseline", "code", "line"),
    [
        (("--fail-if", "not-better"), "worker", 0, "passed: worker+taught against worker: score +1.00"),
        (("--fail-if", "worse"), "worker+taught", 1, "failed by score and solved: worker against worker+taught: "),
        (("--fail-if", "worse", "--measure", "solved"), "worker+taught", 1, "failed by solved: worker against "),
        (("--fail-if", "worse", "--measure", "cost"), "worker", 1, "not decided, because the cost is not known: "),
        (("--fail-if", "worse", "--orchestrator", "worker"), "worker", 2, None),
    ],
)
def test_a_run_ends_with_the_gate(
    tmp_path: Path, options: tuple[str, ...], baseline: str, code: int, line: str | None
) -> None:
    project = ArenaProject(tmp_path, orchestrators=[WORKER], tasks=2, trials=2, parallel=2, baseline=baseline)
    done = project.run_here(*options)
    assert done.returncode == code, done.stderr
    if line is None:
        assert "NOTHING_TO_COMPARE" in done.stderr
        assert not project.results.exists(), "nothing was spent"
    else:
        assert f"thunderdome run --fail-if {options[1]}: {line}" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--task", "task-1"),
        ("--task", "task-1", "--results", "else where", "--config", "arenas/other.yaml"),
        ("--task", "task-1", "--until-decided", "--max-trials", "2"),
    ],
    ids=["trials", "elsewhere", "until-decided"],
)
def test_the_command_for_more_trials_runs_them(tmp_path: Path, options: tuple[str, ...]) -> None:
    project = ArenaProject(tmp_path, orchestrators=[WORKER], tasks=2, trials=1, parallel=2)
    arena = json.loads((tmp_path / "thunderdome.yaml").read_text())
    for task in arena["tasks"]:
        task["repo"] = str(tmp_path / "repository")
    (tmp_path / "arenas").mkdir()
    (tmp_path / "arenas" / "other.yaml").write_text(json.dumps(arena))
    ended = project.run_here(*options)
    assert ended.returncode == 0, ended.stderr
    results = ("--results", "else where") if "--results" in options else ()
    before = json.loads(project.run_here_as("compare", "worker+taught", "--format", "json", *results).stdout)
    command = before["more_trials_command"]
    assert f"More trials: {command}\n" in ended.stdout, "the end of the run says it, too"
    program, door, *words = shlex.split(command)
    assert (before["verdict"], program, door) == ("undecided", "thunderdome", "run")
    assert project.run_here(*words).returncode == 0
    after = json.loads(project.run_here_as("compare", "worker+taught", "--format", "json", *results).stdout)
    more = after["trials"] - before["trials"]
    assert (after["tasks"], after["first"]["runs"] == before["first"]["runs"]) == (1, "--until-decided" in options)
    assert 0 < more <= before["more_trials_needed"], "fewer if it is decided before"
    assert more == before["more_trials_needed"] or after["verdict"] == "better"


def test_agents_on_test_cases_are_compared_where_they_ran(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    for name, command in (("one", "echo made > made.txt"), ("two", "true")):
        case = {
            "name": "made",
            "description": "Write made.txt.",
            "repo": "./repository",
            "agent": {"type": "command", "config": {"command": command, "shell": True, "prompt_by": "none"}},
            "evaluators": [{"name": "git-diff", "config": {"assertions": {"min_files_changed": 1}}}],
        }
        (tmp_path / f"{name}.yaml").write_text(json.dumps(case))
    (tmp_path / "thunderdome.yaml").unlink()
    runs = []
    for name in ("one", "two"):
        run_here(("run", "-c", f"{name}.yaml", "--trials", "2"), cwd=tmp_path, env=project.env)
        runs.append((tmp_path / ".youbencha-workspace" / "bench" / "latest").resolve().name)
    done = run_here(("compare", *runs, "--format", "json"), cwd=tmp_path, env=project.env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["difference"], found["valid"]) == (1, 4)
    assert found["first"]["name"] == f"{runs[0]}:command"
