"""`thunderdome calibrate`, on real repositories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from validation_bench import HIDDEN, SOLUTION, START, task_repository

from youbencha.cli.app import arena_app, run_app
from youbencha.engine.cheats import CHEATS

ARENA = """\
orchestrators: [{{name: nobody, agent: command, config: {{command: ["true"]}}}}]
sandbox: local
parallel: 2
tasks:
  - {{repo: task, tag: v1, prompt: Fix it., test_cmd: python3 -m unittest discover -s tests{more}}}
"""
TAGS = ", validation_tag: v1-validation, reference_tag: v1-solution"


@pytest.fixture
def arena(project: Path) -> Path:
    task_repository(project / "task", START, HIDDEN, SOLUTION)
    return project


def written(results: Path) -> dict[str, dict[str, object]]:
    tasks = json.loads((results / "calibration.json").read_text())["tasks"]
    assert isinstance(tasks, dict)
    return tasks


def test_a_task_with_hidden_tests_and_a_reference(arena: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (arena / "thunderdome.yaml").write_text(ARENA.format(more=TAGS))
    assert run_app(["calibrate", "--threshold", "0.3"], arena_app) == 0, capsys.readouterr()
    task = written(arena / "results")["task"]
    assert (task["floor"], task["ceiling"], task["warnings"]) == (0.25, 1.0, [])
    assert task["scores"].keys() == {"nothing", "reference", *CHEATS}
    shown = capsys.readouterr()
    assert "100%" in shown.out
    assert "task · early exit: 0%" in shown.err
    assert (arena / "results" / "calibration" / "task" / "early-exit" / "artifacts").is_dir()


def test_a_task_without_hidden_tests_or_a_reference(arena: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (arena / "thunderdome.yaml").write_text(ARENA.format(more=""))
    assert run_app(["calibrate", "--json"], arena_app) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["tasks"] == written(arena / "results")
    task = written(arena / "results")["task"]
    assert task["ceiling"] is None
    assert task["warnings"] == ["doing nothing scores 0.50 (50% of the tests pass)"]
    assert "warning  task: doing nothing scores 0.50 (50% of the tests pass)" in shown.err


def test_a_task_that_does_not_work(arena: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (arena / "thunderdome.yaml").write_text(ARENA.format(more=", install_cmd: no-such-program"))
    assert run_app(["calibrate", "--results", "elsewhere"], arena_app) == 1
    assert "`no-such-program` fails for the untouched task" in capsys.readouterr().err
    assert written(arena / "elsewhere").keys() == {"task"}
    assert not (arena / "results").exists()


def test_a_cheat_that_cannot_be_tried(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no test runner to patch in C, and nothing to skip a test with."""
    check = '#include <stdio.h>\nint main(void) {\n  puts("not ok 1 add\\n1..1");\n}\n'
    task_repository(project / "task", {"tests/check.c": check}, {}, {})
    arena = ARENA.format(more="").replace("python3 -m unittest discover -s tests", "sh -c 'echo not ok 1; echo 1..1'")
    (project / "thunderdome.yaml").write_text(arena)
    assert run_app(["calibrate"], arena_app) == 0, capsys.readouterr()
    scores = written(project / "results")["task"]["scores"]
    assert isinstance(scores, dict)
    tried = {name for name, score in scores.items() if score["applicable"]}
    assert tried == {"nothing", "forged reports", "patched tests"}
    assert {scores[name]["tests"] for name in scores.keys() - tried} == {None}
    assert not (project / "results" / "calibration" / "task" / "skipped-tests").exists()
    shown = capsys.readouterr()
    assert "task · skipped tests: not applicable" in shown.err
    assert "n/a" in shown.out
