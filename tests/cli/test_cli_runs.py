"""`yb runs`: what was run here, and how it went."""

from __future__ import annotations

import json
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
    """A run each: that passed, that was cut off, that died, whose results are no results, and of `yb eval`."""
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
            *["≥ 1 234", "≥ $0.0125", "2.0 s", NAMES[1]],
        ],
        [
            *["2026-03-01 09:30", "passed", "solved", case, "claude-code", "some_model"],
            *["1 234", "$0.0125", "2.0 s", NAMES[0]],
        ],
    ]


def test_for_programs_unknown_is_null(root: Path) -> None:
    listed = json.loads(yb("runs", "--json", "-n", "4", cwd=root.parent).stdout)
    assert [run["run"] for run in listed] == NAMES[:0:-1]
    died, cut_off = listed[2], listed[3]
    assert {died[name] for name in ("outcome", "test_case", "model", "total_tokens", "cost_usd", "partial")} == {None}
    assert (cut_off["state"], cut_off["outcome"], cut_off["partial"]) == ("passed", "provider_error", True)
    assert (cut_off["total_tokens"], cut_off["cost_usd"], cut_off["agent_version"]) == (1234, 0.0125, "2.1.3")
    assert Path(cut_off["path"]) == root / NAMES[1]


def test_one_that_goes_on(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path):
        done = yb("runs", "--workspace-dir", str(tmp_path), cwd=tmp_path)
    assert rows(done)[1][1] == "running"


def test_a_name_gives_the_terminal_no_orders(tmp_path: Path) -> None:
    finished(tmp_path, NAMES[0], test_case={**DOCUMENT["test_case"], "name": "a\x1b[2Jb\nc" + "d" * 100})
    (line,) = yb("runs", "--workspace-dir", str(tmp_path), cwd=tmp_path).stdout.splitlines()[1:]
    assert "\x1b" not in line
    assert "a␛[2Jb cddd" in line
    assert "d…  command" in line


@pytest.mark.parametrize(("options", "told"), [([], "no runs in"), (["--json"], "[]")])
def test_nothing_was_run(tmp_path: Path, options: list[str], told: str) -> None:
    done = yb("runs", *options, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert told in done.stdout
