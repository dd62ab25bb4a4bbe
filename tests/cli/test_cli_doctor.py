"""`yb doctor`, with stub programs on PATH for each state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from docker_engine import the_engine
from yb import yb

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the programs on PATH are shell scripts")

CLAUDE = 'case "$1" in --version) echo "2.1.325 (Claude Code)";; *) exit 1;; esac'
"""Prints its version; answers `auth status` with no login."""
KEY = "sk-ant-dummy-0123456789abcdef"


class Computer:
    """What `yb doctor` finds: a PATH, a home, a project."""

    def __init__(self, directory: Path) -> None:
        self.bin, self.home, self.project = (directory / name for name in ("bin", "home", "project"))
        for path in (self.bin, self.home, self.project):
            path.mkdir()
        git = shutil.which("git")
        assert git
        (self.bin / "git").symlink_to(git)

    def has(self, program: str, script: str) -> None:
        (self.bin / program).unlink(missing_ok=True)
        (self.bin / program).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / program).chmod(0o755)

    def doctor(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        own = {"PATH": str(self.bin), "HOME": str(self.home), "YOUBENCHA_TOOLBOX": str(self.home / "toolbox")}
        return yb("doctor", *arguments, cwd=self.project, **own, **env)

    def findings(self, *arguments: str, **env: str) -> dict[str, dict[str, Any]]:
        report = json.loads(self.doctor("--json", *arguments, **env).stdout)
        return {each["name"]: each for each in report["findings"]}


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_with_git_and_one_agent_it_is_ready(computer: Computer) -> None:
    computer.has("claude", CLAUDE)
    done = computer.doctor(ANTHROPIC_API_KEY=KEY)
    assert (done.returncode, done.stderr) == (0, "")
    assert "  ✓ git" in done.stdout
    assert "  ✓ claude-code" in done.stdout
    assert f"2.1.325 on PATH ({computer.bin / 'claude'})" in done.stdout
    assert done.stdout.endswith("Ready: claude-code can be run here.\n")
    assert KEY not in done.stdout


def test_missing_agents_are_only_a_note(computer: Computer) -> None:
    computer.has("claude", CLAUDE)
    found = computer.findings(ANTHROPIC_API_KEY=KEY)
    assert (found["codex"]["state"], found["codex"]["detail"]) == ("note", "not installed")
    assert found["codex"]["fix"] == "To use it: yb agents install codex"


def test_without_any_agent_it_is_not_ready(computer: Computer) -> None:
    done = computer.doctor()
    assert done.returncode == 2
    assert done.stdout.endswith("Not ready. Missing: an agent that can be used.\n")


def test_an_agent_without_a_login_has_a_hint(computer: Computer) -> None:
    computer.has("claude", CLAUDE)
    done = computer.doctor()
    assert done.returncode == 2
    assert "  ✗ claude-code" in done.stdout
    assert "no valid authentication" in done.stdout
    assert "→ Set ANTHROPIC_API_KEY" in done.stdout


def test_an_agent_that_hangs_does_not_block_the_others(computer: Computer) -> None:
    computer.has("claude", f'echo $$ > "{computer.home}/pid"; exec /bin/sleep 600')
    found = computer.findings("--timeout", "5", ANTHROPIC_API_KEY=KEY)
    assert found["claude-code"]["state"] == "failed"
    assert found["claude-code"]["detail"] == "gave no answer within 5 s"
    assert found["git"]["state"] == "ok"
    assert not psutil.pid_exists(int((computer.home / "pid").read_text()))


def test_a_broken_agent(computer: Computer) -> None:
    computer.has("claude", "echo nonsense; exit 3")
    found = computer.findings(ANTHROPIC_API_KEY=KEY)
    assert found["claude-code"]["state"] == "failed"
    assert "which is not a version" in found["claude-code"]["detail"]


def test_without_git_it_is_not_ready(computer: Computer) -> None:
    (computer.bin / "git").unlink()
    computer.has("claude", CLAUDE)
    done = computer.doctor(ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 2
    assert "  ✗ git" in done.stdout
    assert "Missing: git." in done.stdout


@pytest.mark.parametrize(
    ("script", "state", "words"),
    [
        ("echo git version 2.24.9", "failed", "2.24.9 is too old"),
        ("echo git version 2.25.0", "ok", "2.25.0"),
        ("echo git version 3.0", "ok", "3.0"),
        ("exit 1", "failed", "does not report its version"),
    ],
)
def test_versions_of_git(computer: Computer, script: str, state: str, words: str) -> None:
    computer.has("git", script)
    found = computer.findings()["git"]
    assert found["state"] == state
    assert words in found["detail"]


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("unix:///there/is/none.sock", "does not answer"),
        ("tcp://10.0.0.1:2375", "not by a Unix socket"),
    ],
)
def test_a_container_engine_is_never_required(computer: Computer, host: str, words: str) -> None:
    computer.has("claude", CLAUDE)
    done = computer.doctor("--json", ANTHROPIC_API_KEY=KEY, DOCKER_HOST=host)
    assert done.returncode == 0
    found = next(each for each in json.loads(done.stdout)["findings"] if each["name"] == "docker")
    assert found["state"] == "note"
    assert words in found["detail"]
    assert "Only runs with `sandbox: docker` need one." in found["fix"]


def test_a_container_engine_that_answers(computer: Computer) -> None:
    engine = the_engine()
    found = computer.findings(DOCKER_HOST=engine.host)["docker"]
    assert found["state"] == "ok"
    assert engine.get("/version")["Version"] in found["detail"]


def test_an_old_node_is_only_a_note(computer: Computer) -> None:
    computer.has("node", "echo v18.1.0")
    found = computer.findings()["node"]
    assert found["state"] == "note"
    assert "18.1.0 is too old" in found["detail"]


def test_invalid_settings_are_reported_with_their_position(computer: Computer) -> None:
    (computer.project / ".youbencharc").write_text("timeout_mss: 5\n")
    computer.has("claude", CLAUDE)
    done = computer.doctor(ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 2
    assert "  ✗ settings" in done.stdout
    assert ".youbencharc:1:1: timeout_mss: unknown key" in done.stdout
    assert "Missing: settings." in done.stdout


def test_the_workspace_is_taken_from_the_settings(computer: Computer) -> None:
    (computer.project / ".youbencharc").write_text("workspace_dir: elsewhere\n")
    found = computer.findings()["workspace"]
    assert (found["state"], found["detail"]) == ("ok", str(computer.project / "elsewhere"))
    assert not (computer.project / "elsewhere").exists()  # looking makes nothing


def test_a_workspace_that_cannot_be_written(computer: Computer) -> None:
    (computer.project / ".youbencha-workspace").write_text("a file where a directory should be\n")
    computer.has("claude", CLAUDE)
    done = computer.doctor(ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 2
    assert "  ✗ workspace" in done.stdout
    assert "Missing: workspace." in done.stdout


def test_a_disk_is_listed_once(computer: Computer) -> None:
    report = json.loads(computer.doctor("--json", XDG_CACHE_HOME=str(computer.home / "cache")).stdout)
    disks = [each for each in report["findings"] if each["name"] == "disk"]
    assert len(disks) == 1
    assert disks[0]["detail"].endswith(" GB free for workspace, cache, toolbox")


def test_output_in_a_pipe_is_plain(computer: Computer) -> None:
    assert "\x1b" not in computer.doctor(TERM="xterm-256color", NO_COLOR="").stdout


def test_which_models_a_gateway_could_reach(computer: Computer) -> None:
    found = computer.findings(ANTHROPIC_API_KEY="sk-ant-never-shown", OPENAI_API_KEY="x", OPENAI_BASE_URL="http://o/v1")
    assert found["gateway"]["state"] == "ok"
    assert found["gateway"]["detail"].endswith("anthropic (https://api.anthropic.com), openai (http://o)")
    assert computer.findings()["gateway"]["state"] == "note"
    (computer.home / ".youbencharc").write_text("gateway: {secrets_file: keys.env}\n")
    assert computer.findings()["gateway"]["state"] == "failed"
    (computer.home / "keys.env").write_text("GEMINI_API_KEY=abc\n")
    (computer.home / "keys.env").chmod(0o600)
    assert "gemini" in computer.findings()["gateway"]["detail"]
