"""`yb eval`: judging a user's directory without changing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_bench import Outcome, RunBench


async def judged(runs: RunBench, directory: Path, evaluators: list[Any], **more: Any) -> Outcome:
    file = runs.root / "eval.yaml"
    file.write_text(json.dumps({"name": "e", "directory": str(directory), "evaluators": evaluators, **more}))
    done = await runs.yb("eval", "-c", str(file))
    (made,) = [path for path in (runs.root / ".youbencha-eval").iterdir() if path.is_dir()]
    return Outcome(done, made / "artifacts")


def state(runs: RunBench) -> tuple[str, bytes, list[str]]:
    files = sorted(str(path) for path in runs.repository.rglob("*") if ".git" not in path.parts)
    return runs.git("status", "--porcelain"), (runs.repository / ".git/index").read_bytes(), files


async def test_uncommitted_changes_are_seen_and_the_directory_is_unchanged(runs: RunBench) -> None:
    (runs.repository / "README.md").write_text("# Another shop\n")
    (runs.repository / "new.py").write_text("x = 1\n")
    runs.git("status")  # git itself refreshes its index when asked
    before = state(runs)
    tests = {"name": "command", "config": {"command": ["/bin/sh", "-c", "touch made-by-tests; test -f new.py"]}}
    done = await judged(runs, runs.repository, [{"name": "git-diff", "config": {"max_files_changed": 2}}, tests])
    assert done.done.code == 0, done.done.err
    assert state(runs) == before
    assert done.bundle.agent is None
    assert done.bundle.outcome is None
    assert done.bundle.summary.overall_status == "passed"
    assert sorted(f["path"] for f in done.bundle.evaluators[0].metrics["changed_files"]) == ["README.md", "new.py"]
    assert done.bundle.test_case.directory == str(runs.repository)


async def test_two_directories_compared(runs: RunBench) -> None:
    for name, text in (("out", "one two three\n"), ("reference", "one two four\n")):
        (runs.root / name).mkdir()
        (runs.root / name / "a.txt").write_text(text)
    done = await judged(
        runs,
        runs.root / "out",
        [{"name": "expected-diff", "config": {"threshold": 0.99}}],
        expected_directory="reference",
    )
    assert done.done.code == 1
    assert done.bundle.evaluators[0].status == "failed"
    assert 0.5 < done.bundle.evaluators[0].metrics["aggregate_similarity"] < 0.99


@pytest.mark.parametrize("start", [".", ".."], ids=["the file", "the current directory"])
async def test_a_relative_directory_starts_at_the_file_or_at_the_current_directory(runs: RunBench, start: str) -> None:
    cases = runs.root / "cases"
    cases.mkdir()
    for name in ("out", "reference"):
        (cases / start / name).mkdir()
        (cases / start / name / "a.txt").write_text("one\n")
    config = {"directory": "./out", "expected_directory": "./reference", "evaluators": ["expected-diff"]}
    (cases / "eval.yaml").write_text(json.dumps(config))
    done = await runs.yb("eval", "-c", str(cases / "eval.yaml"))
    assert done.code == 0, done.err


async def test_a_directory_outside_a_repository_has_no_changes(runs: RunBench) -> None:
    (runs.root / "plain").mkdir()
    done = await judged(runs, runs.root / "plain", ["git-diff"])
    assert done.done.code == 1
    assert done.bundle.evaluators[0].status == "skipped"


async def test_an_unreadable_repository_is_not_an_interruption(runs: RunBench) -> None:
    (runs.repository / ".git/objects" / (tree := runs.git("rev-parse", "HEAD^{tree}"))[:2] / tree[2:].strip()).unlink()
    done = await judged(runs, runs.repository, ["git-diff"])
    assert done.done.code == 2, done.done.err
    assert (done.bundle.execution.complete, done.bundle.execution.interrupted) == (False, False)


async def test_a_missing_directory(runs: RunBench) -> None:
    file = runs.root / "eval.yaml"
    file.write_text("directory: nowhere\nexpected_directory: neither\nevaluators: [git-diff]\n")
    done = await runs.yb("eval", "-c", str(file))
    assert done.code == 2
    assert "eval.yaml:1:12" in done.err
    assert "eval.yaml:2:21" in done.err
    assert not (runs.root / ".youbencha-eval").exists()
