"""The project's own task suite: its tests find a solution, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from benchmarks.arena import CONFIG, scripted_arena
from benchmarks.build import build_task, read_tree, task_ids
from benchmarks.models import AIDER, CLAUDE_CODE, aider_script, claude_code_script, title_of

from youbencha.spec.arena import ArenaSpec
from youbencha.spec.arena_loader import load_arena_file

KINDS = {"bugfix", "feature", "greenfield", "refactoring", "recovery", "ambiguous"}
EMPTY_AT_START, BROKEN_AT_START = "bench-time-tracker", "finish-store-migration"
each_task = pytest.mark.parametrize("task", task_ids())


class Counts(NamedTuple):
    ran: int
    passed: int


def run_tests(directory: Path, files: dict[str, bytes], tests: str) -> Counts:
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    command = [sys.executable, "-B", "-m", "unittest", "discover", "-s", tests, "-t", "."]
    printed = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False).stderr
    ran = int(re.findall(r"^Ran (\d+) test", printed, re.MULTILINE)[-1])
    summary = printed.splitlines()[-1]
    return Counts(ran, ran - sum(int(count) for count in re.findall(r"(?:failures|errors|skipped)=(\d+)", summary)))


@each_task
def test_only_the_solution_passes_all_hidden_tests(task: str, tmp_path: Path) -> None:
    solution = run_tests(tmp_path / "solution", read_tree(task, "solution", "hidden"), "hidden_tests")
    assert solution.passed == solution.ran >= 10
    start = run_tests(tmp_path / "start", read_tree(task, "hidden"), "hidden_tests")
    assert start.passed == 0
    partial = run_tests(tmp_path / "partial", read_tree(task, "partial", "hidden"), "hidden_tests")
    assert 0 < partial.passed < partial.ran == solution.ran


@each_task
def test_given_tests(task: str, tmp_path: Path) -> None:
    solution = run_tests(tmp_path / "solution", read_tree(task, "solution"), "tests")
    assert solution.passed == solution.ran > 0
    if task != EMPTY_AT_START:
        start = run_tests(tmp_path / "start", read_tree(task), "tests")
        assert (start.passed == start.ran) is (task != BROKEN_AT_START)


@each_task
def test_nothing_hidden_is_in_the_start(task: str) -> None:
    start = read_tree(task)
    given = "\n".join(content.decode() for content in start.values())
    for name in read_tree(task, "hidden").keys() - start.keys():
        hidden = read_tree(task, "hidden")[name].decode()
        assert name not in given
        assert name.startswith("hidden_tests/")
        assert [test for test in re.findall(r"def (test_\w+)", hidden) if len(test) > 20 and test in given] == []
    for name, content in read_tree(task, "solution").items():
        assert name not in start or start[name] == content or content.decode() not in given
    assert "hidden" not in start["TASK.md"].decode().lower()


@each_task
async def test_repositories_are_the_same_everywhere(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = refs(await build_task(task, tmp_path / "first"))
    for name, value in {"TZ": "Asia/Tokyo", "GIT_AUTHOR_NAME": "Somebody", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / ".gitconfig").write_text("[core]\nautocrlf = true\n[user]\nname = Else\n")
    assert refs(await build_task(task, tmp_path / "second")) == first
    assert refs(await build_task(task, tmp_path / "second")) == first
    assert first.keys() == {"refs/heads/main", "refs/tags/v1", "refs/tags/v1-solution", "refs/tags/v1-validation"}


def refs(repository: Path) -> dict[str, str]:
    command = ["git", "for-each-ref", "--format=%(refname) %(objectname)"]
    printed = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout
    return dict(line.split() for line in printed.splitlines())  # type: ignore[misc]


def test_the_arena_has_every_task_and_every_kind(tmp_path: Path) -> None:
    spec = load_arena_file(CONFIG).spec
    assert sorted(task.key for task in spec.tasks) == task_ids()
    assert {(task.category or "").partition("/")[0] for task in spec.tasks} == KINDS
    assert [task.name for task in spec.tasks] == [title_of(task.key) for task in spec.tasks]
    scripted = ArenaSpec.model_validate(scripted_arena(tmp_path, aider=True, sandbox={"type": "local"}))
    assert [task.key for task in scripted.tasks] == [task.key for task in spec.tasks]
    assert {orchestrator.model for orchestrator in scripted.orchestrators} == {
        *CLAUDE_CODE,
        *(f"openai/{name}" for name in AIDER),
        None,
    }


def test_every_model_knows_every_task() -> None:
    for models, script in ((CLAUDE_CODE, claude_code_script()), (AIDER, aider_script())):
        assert all(sorted(skills) == task_ids() for skills in models.values())
        assert len(script.conversations) == len(models) * len(task_ids())
