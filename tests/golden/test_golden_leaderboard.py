"""Leaderboards and comparisons in every format: people have programs that read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from golden_files import Golden

import youbencha
from arena_trees import meta, small_results, write_run
from youbencha.cli.app import arena_app, run_app

FILES = {"table": "txt", "markdown": "md", "json": "json", "csv": "csv", "html": "html", "junit": "xml"}
RULES = ("--exclude", "task=unknown", "--exclude", "trial=claude-code/clock/1")


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    found = small_results(tmp_path / "results")
    limits = '{"tasks": {"parser": {"floor": 0.3, "ceiling": 1.0}, "clock": {"floor": 0, "ceiling": 0.9}}}'
    (found / "calibration.json").write_text(limits)
    return found


def printed(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> str:
    assert run_app(arguments, arena_app) == 0
    text = capsys.readouterr().out.replace(youbencha.__version__, "<version>")
    for root in (str(tmp_path), str(tmp_path).replace("_", "\\_")):  # as it is, and in Markdown
        text = text.replace(root, "<root>")
    text = re.sub(r"<style>.*?</style>", "<style></style>", text, flags=re.DOTALL)
    return re.sub(r"sha256-[\w+/=]+", "sha256-<digest>", text)


@pytest.mark.parametrize("form", FILES)
def test_report(form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, golden: Golden) -> None:
    golden.check(f"leaderboard/report.{FILES[form]}", printed(capsys, tmp_path, "report", "--format", form, *RULES))


@pytest.mark.parametrize("by", ["task", "suite"])
@pytest.mark.parametrize("form", ["table", "markdown", "csv"])
def test_groups(form: str, by: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, golden: Golden) -> None:
    text = printed(capsys, tmp_path, "leaderboard", "--format", form, "--by", by)
    golden.check(f"leaderboard/by-{by}.{FILES[form]}", text)


@pytest.mark.parametrize("form", ["table", "markdown", "html"])
def test_comparison(form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, golden: Golden) -> None:
    """Without the format json: its numbers have digits that differ between computers."""
    records = [
        meta(agent, f"task-{task}", trial, composite_score=score * (task % 3 + trial % 2) / 3, total_cost_usd=score)
        for agent, score in (("claude-code", 0.4), ("claude-code+skill", 0.9))
        for task in range(4)
        for trial in range(1, 4)
    ]
    write_run(tmp_path / "compared", records, planned=3, baselines={"claude-code+skill": "claude-code"})
    text = printed(capsys, tmp_path, "compare", "compared", "--format", form)
    golden.check(f"comparison/compare.{FILES[form]}", text)
