"""What people see: every command that prints a list, in a pipe, on a terminal of 80 columns, and with NO_COLOR."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest
from test_cli_report import DOCUMENT

from yb import on_terminal, run_here
from youbencha.cli.terminal import steps_on_stderr
from youbencha.text import table

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")

RUN = "run-2026-03-01-093000-0123456789ab"
KEY = "gateway.upstreams.anthropic.key_env"
CASE = """\
name: screen
description: Shows every part of a result.
repo: ./repo
agent: {type: command, config: {command: [sh, -c, "echo hello > new.txt"], prompt: x}}
evaluators:
  - {name: "command:tests", config: {command: "echo one of the tests is red; exit 1", shell: true}}
"""
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "runs": (["runs"], [RUN, "passed", "VERDICT"]),
    "agents": (["agents", "list"], ["claude-code  1.0.7    PATH"]),
    "config": (["config", "list"], [KEY, "a-model-with-quite-a-long-name-for-a-column"]),
    "list": (["list"], ["  agentic-judge  ", "  claude-code    "]),
    "doctor": (["doctor"], ["✓ git          ", "python       3."]),
    "prune": (["prune", "--dry-run", "--keep", "0"], [RUN]),
    "report": (["report"], [f"{RUN}/artifacts/report.md"]),
    "help": (["run", "--help"], ["--delete-workspace", "--workspace-dir"]),
    "error": (["report", "--from", "gone"], ["error [RESULTS_NOT_FOUND] ", "hint  "]),
    "run": (["run", "-c", "case.yaml"], ["  │ one of the tests is red", "Verdict        failed"]),
}
"""Each with what must be in one line."""

UNBROKEN = frozenset({"report", "run", "doctor"})
"""Those that print a path, which may be longer than a line."""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A project with a run, an agent on PATH, and a setting from a file with a long path."""
    artifacts = tmp_path / ".youbencha-workspace" / RUN / "artifacts"
    artifacts.mkdir(parents=True)
    agent = {"type": "claude-code", "version": "2.1.3", "status": "success", "model": "claude-sonnet-4-5-20250929"}
    (artifacts / "results.json").write_text(json.dumps({**DOCUMENT, "agent": agent}), encoding="utf-8")
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho '1.0.7 (Claude Code)'\n")
    program.chmod(0o755)
    (tmp_path / ".youbencharc").write_text("agent: {model: a-model-with-quite-a-long-name-for-a-column}\n")
    (tmp_path / "case.yaml").write_text(CASE)
    git = "git -c user.name=T -c user.email=t@example.org -c commit.gpgsign=false"
    os.system(f"cd '{tmp_path}' && git init -q repo && cd repo && {git} commit -q --allow-empty -m x")
    return tmp_path


def environment(here: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "PYTHONPATH")}
    path = f"{here / 'bin'}:/usr/bin:/bin"
    return {**kept, "PATH": path, "HOME": str(here), "TERM": "xterm", "YOUBENCHA_TOOLBOX": "/none", **more}


def shown(arguments: list[str], here: Path, **env: str) -> str:
    return on_terminal(arguments, cwd=here, env=environment(here, **env), columns=80)


def piped(arguments: list[str], here: Path) -> str:
    done = run_here(arguments, cwd=here, env=environment(here, COLUMNS="80"))
    return done.stdout + done.stderr


def lines_with(text: str, words: list[str]) -> None:
    for word in words:
        assert any(word in line for line in text.splitlines()), (word, text)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_gets_whole_lines_without_escape_sequences(command: str, here: Path) -> None:
    arguments, words = COMMANDS[command]
    text = piped(arguments, here)
    assert "\x1b" not in text
    lines_with(text, words)


@pytest.mark.parametrize("command", COMMANDS)
def test_80_columns_break_no_key_and_no_row(command: str, here: Path) -> None:
    arguments, words = COMMANDS[command]
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(arguments, here))
    lines_with(text, words)
    if command not in UNBROKEN:
        assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_no_color_is_plain(command: str, here: Path) -> None:
    arguments, words = COMMANDS[command]
    text = shown(arguments, here, NO_COLOR="1")
    assert "\x1b" not in text
    lines_with(text, words)


@pytest.mark.parametrize("command", ["run", "doctor", "help", "error"])
def test_a_terminal_gets_colours(command: str, here: Path) -> None:
    assert "\x1b[" in shown(COMMANDS[command][0], here)


def test_the_steps_of_a_download_are_plain_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def written() -> str:
        monkeypatch.setattr(sys, "stderr", Terminal())
        with steps_on_stderr() as progress:
            progress("unpacking", "12 s")
        assert isinstance(sys.stderr, Terminal)
        return sys.stderr.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in written()
    monkeypatch.setenv("NO_COLOR", "1")
    assert written() == "unpacking ... 12 s\n"


def test_a_pipe_gets_every_column(here: Path) -> None:
    head, row = piped(["runs"], here).splitlines()
    every = "BEGAN VERDICT OUTCOME TEST CASE AGENT MODEL TOKENS COST TIME RUN"
    assert head.split() == every.split()
    assert "claude-sonnet-4-5-20250929" in row


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (99, ["NAME        SIZE  WHEN", "a          10 MB  today", "long-name   9 MB  yesterday"]),
        (27, ["NAME        SIZE  WHEN", "a          10 MB  today", "long-name   9 MB  yesterday"]),
        (26, ["NAME        SIZE", "a          10 MB", "long-name   9 MB"]),
        (15, ["NAME", "a", "long-name"]),
        (3, ["NAME", "a", "long-name"]),
    ],
)
def test_columns_are_left_out_until_rows_fit(width: int, lines: list[str]) -> None:
    rows = [("a", "10 MB", "today"), ("long-name", "9 MB", "yesterday")]
    found = table(("NAME", "SIZE", "WHEN"), rows, width=width, right=["SIZE"], drop=["WHEN", "SIZE"])
    assert found.splitlines() == lines
