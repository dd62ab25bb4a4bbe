"""When a comparison says that a variant changed nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arena_trees import HASH, meta, write_run
from youbencha.cli.app import arena_app, run_app

Asked = tuple[str, ...] | None


def trial(agent: str, task: str, number: int, asked: Asked, **changes: Any) -> dict[str, Any]:
    variant = {"agent_hash": "c" * 64, "changes": ["config.effort"]} if "+" in agent else {}
    return meta(agent, task, number, identity={**HASH, **variant, "request_fingerprints": asked}, **changes)


def compare(tmp_path: Path, capsys: pytest.CaptureFixture[str], *names: str) -> str | None:
    assert run_app(("compare", *names, "--results", str(tmp_path), "--format", "json"), arena_app) == 0
    unchanged: str | None = json.loads(capsys.readouterr().out)["unchanged"]
    return unchanged


CASES: dict[str, tuple[list[Asked], list[Asked], bool]] = {
    "the same": ([("a",), ("a",)], [("a",), ("a",)], True),
    "another": ([("a",), ("a",)], [("b",), ("b",)], False),
    "another in one trial": ([("a",), ("a",)], [("a",), ("b",)], False),
    "a kind more": ([("a",), ("a",)], [("a",), ("a", "subagent")], False),
    "a kind less": ([("a",), ("a", "subagent")], [("a",), ("a",)], True),
    "one is not known": ([("a",), ("a",)], [("a",), None], False),
    "without a gateway": ([None, None], [None, None], False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_variant_whose_requests_are_all_the_baselines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    baseline, variant, expected = CASES[name]
    records = [trial("cc", "t", number, each) for number, each in enumerate(baseline, 1)]
    records += [trial("cc+effort", "t", number, each) for number, each in enumerate(variant, 1)]
    write_run(tmp_path / "runs" / "run", records)
    found = compare(tmp_path, capsys, "cc+effort", "cc")
    assert (found is not None) is expected
    assert compare(tmp_path, capsys, "cc", "cc+effort") == found, "whichever is named first"
    if found:
        assert "cc+effort" in found
        assert "config.effort" in found


def test_each_task_has_its_own_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"t": ("a",), "u": ("b",)}
    records = [trial(agent, task, 1, each) for agent in ("cc", "cc+effort") for task, each in asked.items()]
    write_run(tmp_path / "runs" / "run", records)
    assert compare(tmp_path, capsys, "cc+effort", "cc")
    (swapped := [*records])[2:] = [trial("cc+effort", "t", 1, ("b",)), trial("cc+effort", "u", 1, ("a",))]
    write_run(tmp_path / "runs" / "run", swapped)
    assert compare(tmp_path, capsys, "cc+effort", "cc") is None


def test_trials_that_are_not_valid_do_not_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = trial("cc+effort", "t", 2, None, valid=False, outcome="provider_error", composite_score=None)
    write_run(tmp_path / "runs" / "run", [trial("cc", "t", 1, ("a",)), trial("cc+effort", "t", 1, ("a",)), failed])
    assert compare(tmp_path, capsys, "cc+effort", "cc")


@pytest.mark.parametrize("form", ["table", "markdown", "html"])
def test_the_leaderboard_names_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    records = [trial("cc", "t", 1, ("a",)), trial("cc+effort", "t", 1, ("a",))]
    run = write_run(tmp_path / "runs" / "run", records, planned=1, baselines={"cc+effort": "cc"})
    assert run_app(("report", str(run), "--format", form), arena_app) == 0
    assert "config.effort changed nothing" in " ".join(capsys.readouterr().out.split()).replace("\\_", "_")
