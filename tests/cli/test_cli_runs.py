"""`yb runs`: a list of the runs and their results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from test_cli_report import DOCUMENT

from yb import yb
from youbencha.workspace import RunDirectory

USAGE = {"input_tokens": 1000, "output_tokens": 234, "total_tokens": 1234, "cost_usd": 0.0125, "cost_source": "gateway"}
NAMES = [f"run-2026-03-0{day}-093000-00000{day}" for day in range(1, 6)]


def finished(root: Path, name: str, **changes: Any) -> None:
    artifacts = root / name / "artifacts"
    artifacts.mkdir(parents=True)
    (artifacts / "results.json").write_text(json.dumps({**DOCUMENT, **changes}), encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One run each: passed, interrupted, dead, with invalid results, and of `yb eval`."""
    root = tmp_path / ".youbencha-workspace"
    agent = {"type": "claude-code", "version": "2.1.3", "status": "success", "exit_code": 0, "model": "some_model"}
    finished(root, NAMES[0], agent={**agent, "usage": {**USAGE, "partial": False}})
    limit = {"name": "provider_error", "valid": False, "reason": "rate limited"}
    finished(root, NAMES[1], agent={**agent, "usage": {**USAGE, "partial": True}}, outcome=limit)
    (root / NAMES[2] / "artifacts").mkdir(parents=True)
    finished(root, NAMES[3])
    (root / NAMES[3] / "artifacts" / "results.json").write_text("{")
    finished(root, NAMES[4], agent=None, outcome=None)
    return root


def rows(done: Any) -> list[list[str]]:
    """Cells stand two spaces apart."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in done.stdout.splitlines()]


def test_each_run_in_a_line_the_newest_first(root: Path) -> None:
    done = yb("runs", cwd=root.parent)
    assert (done.returncode, done.stderr) == (0, "")
    head, *found = rows(done)
    assert head[:3] == ["BEGAN", "VERDICT", "OUTCOME"]
    case = "Größe | <b>"
    assert found == [
        ["2026-03-05 09:30", "passed", "-", case, "-", "-", "-", "-", "2.0 s", NAMES[4]],
        ["2026-03-04 09:30", "unreadable", "-", "-", "-", "-", "-", "-", "-", NAMES[3]],
        ["2026-03-03 09:30", "died", "-", "-", "-", "-", "-", "-", "-", NAMES[2]],
        [
            *["2026-03-02 09:30", "passed", "provider error", case, "claude-code", "some_model"],
            *["≥ 1,234", "≥ $0.0125", "2.0 s", NAMES[1]],
        ],
        [
            *["2026-03-01 09:30", "passed", "solved", case, "claude-code", "some_model"],
            *["1,234", "$0.0125", "2.0 s", NAMES[0]],
        ],
    ]


def test_unknown_values_are_null_in_json(root: Path) -> None:
    listed = json.loads(yb("runs", "--json", "-n", "4", cwd=root.parent).stdout)
    assert [run["run"] for run in listed] == NAMES[:0:-1]
    died, cut_off = listed[2], listed[3]
    assert {died[name] for name in ("outcome", "test_case", "model", "total_tokens", "cost_usd", "partial")} == {None}
    assert (cut_off["state"], cut_off["outcome"], cut_off["partial"]) == ("passed", "provider_error", True)
    assert (cut_off["total_tokens"], cut_off["cost_usd"], cut_off["agent_version"]) == (1234, 0.0125, "2.1.3")
    assert Path(cut_off["path"]) == root / NAMES[1]


def states(root: Path) -> list[str]:
    done = yb("runs", "--json", "--workspace-dir", root.name, cwd=root.parent)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout, parse_constant=pytest.fail)
    assert all(Path(run["path"]).is_absolute() for run in listed)
    assert {run["duration_ms"] for run in listed if run["state"] in ("running", "died", "interrupted")} <= {None}
    return [run["state"] for run in listed]


@pytest.mark.parametrize("begun", [False, True])
def test_a_running_run_and_a_dead_run(tmp_path: Path, begun: bool) -> None:
    """From its beginning on there are results, which hold no verdict yet."""
    with RunDirectory.create(tmp_path) as run:
        if begun:
            unfinished = {**DOCUMENT, "execution": {**DOCUMENT["execution"], "complete": False}}
            (run.artifacts / "results.json").write_text(json.dumps(unfinished))
        assert states(tmp_path) == ["running"]
    assert states(tmp_path) == ["died"]


def test_an_interrupted_run(tmp_path: Path) -> None:
    execution = {**DOCUMENT["execution"], "complete": False, "interrupted": True}
    finished(tmp_path, NAMES[0], execution=execution)
    assert states(tmp_path) == ["interrupted"]


def test_invalid_results_are_listed_too(tmp_path: Path) -> None:
    usage = {**USAGE, "cost_usd": "COST", "total_tokens": 10**300}
    agent = {**DOCUMENT["agent"], "usage": usage}
    finished(tmp_path, NAMES[0], agent=agent, execution={**DOCUMENT["execution"], "duration_ms": 10**400})
    results = tmp_path / NAMES[0] / "artifacts" / "results.json"
    results.write_text(results.read_text().replace('"COST"', "1e999"))
    finished(tmp_path, NAMES[1])
    (tmp_path / "x-0001-01-01-000000-abcdef" / "artifacts").mkdir(parents=True)
    (tmp_path / NAMES[2]).symlink_to("nowhere")
    assert states(tmp_path) == ["passed", "passed"]
    assert rows(yb("runs", "--workspace-dir", ".", cwd=tmp_path))[2][-4:] == ["-", "-", "-", NAMES[0]]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_run(tmp_path: Path) -> None:
    finished(tmp_path, NAMES[0])
    finished(tmp_path, NAMES[1])
    (tmp_path / NAMES[0]).chmod(0)
    try:
        assert states(tmp_path) == ["passed", "unreadable"]
    finally:
        (tmp_path / NAMES[0]).chmod(0o755)


def test_runs_of_eval_are_listed(tmp_path: Path) -> None:
    finished(tmp_path / ".youbencha-workspace", NAMES[0])
    finished(tmp_path / ".youbencha-eval", NAMES[1], agent=None)
    assert [row[-1] for row in rows(yb("runs", cwd=tmp_path))] == ["RUN", NAMES[1], NAMES[0]]


def test_an_invalid_workspace(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "nothing"):
        done = yb("runs", "--workspace-dir", name, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "WORKSPACE_NOT_FOUND" in done.stderr


def test_control_characters_in_a_name_are_escaped(tmp_path: Path) -> None:
    finished(tmp_path, NAMES[0], test_case={**DOCUMENT["test_case"], "name": "a\x1b[2Jb\nc" + "d" * 100})
    (line,) = yb("runs", "--workspace-dir", str(tmp_path), cwd=tmp_path).stdout.splitlines()[1:]
    assert "\x1b" not in line
    assert "a␛[2Jb cddd" in line
    assert "d…  command" in line


@pytest.mark.parametrize(("options", "text"), [([], "no runs in"), (["--json"], "[]")])
def test_no_runs(tmp_path: Path, options: list[str], text: str) -> None:
    done = yb("runs", *options, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert text in done.stdout
