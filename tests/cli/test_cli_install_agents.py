"""`yb install-agents`: the judge's definition where Claude Code and Copilot look for it."""

from __future__ import annotations

from pathlib import Path

from yb import yb
from youbencha.adapters.claude_code.own_files import agent_definition
from youbencha.evaluators.judge import judge_definition

COPILOT, CLAUDE = Path(".github/agents/agentic-judge.md"), Path(".claude/agents/agentic-judge.md")


def test_both_are_created(tmp_path: Path) -> None:
    done = yb("install-agents", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"created      {COPILOT.as_posix()}\ncreated      {CLAUDE.as_posix()}\n"
    assert (tmp_path / COPILOT).read_text() == (tmp_path / CLAUDE).read_text() == judge_definition()


def test_claude_code_finds_the_definition_by_its_name(tmp_path: Path) -> None:
    assert yb("install-agents", cwd=tmp_path).returncode == 0
    assert "You judge work" in agent_definition("agentic-judge", workspace=tmp_path, env={})


def test_an_existing_file_is_skipped_and_the_other_created(tmp_path: Path) -> None:
    (tmp_path / COPILOT).parent.mkdir(parents=True)
    (tmp_path / COPILOT).write_text("mine\n")
    done = yb("install-agents", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith(f"skipped      {COPILOT.as_posix()}  (already exists")
    assert f"created      {CLAUDE.as_posix()}" in done.stdout
    assert (tmp_path / COPILOT).read_text() == "mine\n"


def test_with_force_an_existing_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / COPILOT).parent.mkdir(parents=True)
    (tmp_path / COPILOT).write_text("mine\n")
    done = yb("install-agents", "--force", cwd=tmp_path)
    assert done.returncode == 0
    assert f"overwritten  {COPILOT.as_posix()}" in done.stdout
    assert (tmp_path / COPILOT).read_text() == judge_definition()


def test_an_unwritable_file_does_not_prevent_the_other(tmp_path: Path) -> None:
    (tmp_path / ".github").write_text("a file where a directory should be\n")
    done = yb("install-agents", cwd=tmp_path)
    assert done.returncode == 1
    assert f"error        {COPILOT.as_posix()}" in done.stderr
    assert done.stdout == f"created      {CLAUDE.as_posix()}\n"
