"""`thunderdome report` compares each orchestrator with its baseline, if the run has recorded one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arena_trees import meta, write_run
from youbencha.cli.app import arena_app, run_app

HEADING = "Compared with the baseline"


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A variant that is better in every trial, and a placebo that never differs."""
    monkeypatch.chdir(tmp_path)
    scores = {"claude-code": 0.2, "claude-code+skill": 0.8, "claude-code+placebo": 0.2}
    records = [
        meta(agent, f"task-{task}", trial, composite_score=score + 0.02 * trial + 0.01 * task)
        for agent, score in scores.items()
        for task in range(8)
        for trial in range(1, 4)
    ]
    baselines = {agent: "claude-code" for agent in scores if agent != "claude-code"}
    return write_run(tmp_path / "results" / "runs" / "one", records, planned=3, baselines=baselines)


def reported(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_app(["report", *arguments], arena_app) == 0
    return capsys.readouterr().out


def test_each_variant_has_a_row_with_both_intervals_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    text = reported(capsys).partition(f"\n{HEADING}\n")[2]
    placebo, skill = (line.split() for line in text.splitlines() if line.startswith("claude-code+"))
    assert "is better than" not in text, "several are a table"
    assert placebo[:3] == ["claude-code+placebo", "claude-code", "equivalent"]
    assert skill[:4] == ["claude-code+skill", "claude-code", "better", "+0.60"]
    assert text.count("[") >= 4


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    placebo, skill = json.loads(reported(capsys, "--format", "json"))["comparisons"]
    assert (placebo["first"], placebo["second"], placebo["verdict"]) == (
        "claude-code+placebo",
        "claude-code",
        "equivalent",
    )
    assert (skill["first"], skill["verdict"], skill["verdict_on_tasks_like_these"]) == (
        "claude-code+skill",
        "better",
        "better",
    )
    for name in ("interval_on_these_tasks", "interval_on_tasks_like_these"):
        low, high = skill[name]
        assert 0 < low <= skill["difference"] <= high <= 1


def test_markdown_and_html_have_it(capsys: pytest.CaptureFixture[str]) -> None:
    markdown = reported(capsys, "--format", "markdown").partition(f"\n## {HEADING}\n")[2]
    assert "| claude-code+skill | claude-code | better |" in markdown.replace("\\", "")
    page = reported(capsys, "--format", "html")
    assert f"<h2>{HEADING}" in page
    assert "<title>claude-code+skill and claude-code: +0.60 [" in page


def test_excluded_trials_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(reported(capsys, "--format", "json", "--exclude", "task=task-[0-4]"))["comparisons"]
    assert [each["tasks"] for each in found] == [3, 3]


def test_what_was_not_selected_is_not_compared(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    info = json.loads((run / "run.json").read_text())
    info["baselines"] = {"claude-code+skill": "another", "unknown": "claude-code"}
    (run / "run.json").write_text(json.dumps(info))
    assert HEADING not in reported(capsys)
    assert "comparisons" not in json.loads(reported(capsys, "--format", "json"))


def test_several_runs_are_not_one_comparison(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    write_run(run.parent / "two", [meta("claude-code", "task-1")], planned=1, baselines={"a": "b"})
    assert HEADING not in reported(capsys, "one", "two")
    assert HEADING in reported(capsys, "one")
