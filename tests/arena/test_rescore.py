"""`thunderdome rescore`, on trees of results with real repositories."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from validation_bench import HIDDEN, SOLUTION, START, task_repository

from youbencha.cli.app import arena_app, run_app
from youbencha.store.arena import TrialMeta

ARENA = """\
orchestrators: [{name: nobody, agent: command, config: {command: ["true"]}}]
sandbox: local
tasks:
  - id: fix
    repo: task
    tag: v1
    prompt: Fix it.
    test_cmd: python3 -m unittest discover -s tests
    validation_tag: v1-validation
"""


class Results:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.run = root / "results" / "runs" / "2026-01-01T00-00-00Z-0000"
        task_repository(root / "task", START, HIDDEN, SOLUTION)
        self.solution = subprocess.run(
            ["git", "diff", "--binary", "v1", "v1-solution"], cwd=root / "task", check=True, capture_output=True
        ).stdout
        (root / "thunderdome.yaml").write_text(ARENA)

    def add(
        self, patch: bytes | None, orchestrator: str = "nobody", task: str = "fix", number: int = 1, **more: Any
    ) -> Path:
        trial = self.run / "trials" / orchestrator / task / f"trial-{number}"
        trial.mkdir(parents=True)
        if patch is not None:
            (trial / "diff.patch").write_bytes(patch)
        meta = {
            "orchestrator": orchestrator,
            "task": task,
            "trial": number,
            "exit_code": 0,
            "exit_reason": "completed",
            "scores": {"tests": 0.0, "static_analysis": 0.0},
            "composite_score": 0.0,
            "total_tokens": 5,
            **more,
        }
        (trial / "meta.json").write_text(json.dumps(meta))
        latest = self.root / "results" / "latest"
        if not latest.is_symlink():
            latest.symlink_to(Path("runs", self.run.name))
        return trial


def meta(trial: Path) -> TrialMeta:
    return TrialMeta.model_validate_json((trial / "meta.json").read_bytes())


@pytest.fixture
def results(project: Path) -> Results:
    return Results(project)


FLAGS = [
    {"kind": "network", "evidence": "curl", "severity": "evidence"},
    {"kind": "network", "evidence": "without a severity"},
    {"kind": "test_edit", "evidence": "an old one"},
]


def test_trials_are_scored_again(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    solved = results.add(results.solution, outcome="unsolved", valid=True, flags=FLAGS)
    nothing = results.add(b"", number=2, outcome="limit", valid=True)
    unfinished = results.add(None, number=3)
    assert run_app(["rescore"], arena_app) == 0, capsys.readouterr()
    assert meta(solved).scores.tests == 1.0
    assert meta(solved).composite_score == 1.0
    assert meta(solved).outcome == "solved"
    assert [(flag.kind, flag.severity) for flag in meta(solved).flags] == [("network", "evidence"), ("network", "note")]
    assert meta(solved).total_tokens == 5
    assert meta(nothing).scores.tests == 0.25
    assert meta(nothing).outcome == "limit"
    assert meta(unfinished).composite_score == 0.0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split() == ["ORCHESTRATOR", "TASK", "TRIAL", "BEFORE", "NOW"]
    assert shown.splitlines()[-1] == "2 trials rescored, 2 changed, 0 failed"
    journal = [json.loads(line) for line in (results.run / "journal.jsonl").read_text().splitlines()]
    assert [line["event"] for line in journal] == ["trial_rescored"] * 2
    assert (solved / "rescore" / "artifacts" / "evaluators" / "validation" / "test.log").is_file()


def test_trees_of_the_original_harness(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    """They have no run.json, name tasks by the last part of the repository, and write 0 for what was not measured.

    Scripts, and tasks without results, need not exist.
    """
    more = ", {name: gone, adapter: gone.sh}]\n"
    text = ARENA.replace("]\n", more, 1) + "  - {id: other, repo: nowhere, tag: v1, test_cmd: x}\n"
    (results.root / "thunderdome.yaml").write_text(text)
    trial = results.add(results.solution, orchestrator="gone", task="task", total_tokens=0, total_cost_usd=0)
    assert run_app(["rescore", "--full", str(results.run)], arena_app) == 0, capsys.readouterr()
    assert meta(trial).scores.tests == 1.0
    assert meta(trial).outcome == "solved"
    assert (meta(trial).total_tokens, meta(trial).total_cost_usd) == (None, None)


def test_a_patch_that_does_not_apply_changes_nothing(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    good = results.add(results.solution)
    bad = results.add(
        b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", number=2
    )
    before = (bad / "meta.json").read_bytes()
    assert run_app(["rescore"], arena_app) == 1
    assert (bad / "meta.json").read_bytes() == before
    assert meta(good).composite_score == 1.0
    assert "cannot be applied" in capsys.readouterr().err


def test_only_what_is_asked_for(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    one = results.add(results.solution, orchestrator="one")
    two = results.add(results.solution, orchestrator="two")
    assert run_app(["rescore", "--orchestrator", "o*", "--task", "fix"], arena_app) == 0, capsys.readouterr()
    assert (meta(one).composite_score, meta(two).composite_score) == (1.0, 0.0)
    assert run_app(["rescore", "--task", "other"], arena_app) == 2
    assert "no such task" in capsys.readouterr().err
    assert run_app(["rescore", "no-such-run"], arena_app) == 2
    assert run_app(["rescore", "--orchestrator", "three"], arena_app) == 2
    assert "[NOTHING_SELECTED]" in capsys.readouterr().err
    assert run_app(["rescore", "--results", "elsewhere"], arena_app) == 2
    assert "elsewhere" in capsys.readouterr().err
    assert os.listdir(results.root / "cache" / "runs") == []
