"""`ralph init` and `ralph doctor`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from yb import Done, yb
from youbencha.loop.presets import PRESETS
from youbencha.spec.loop_loader import load_loop_file

KEY = "sk-ant-dummy-0123456789abcdef"
CLAUDE = 'case "$1" in --version) echo "2.1.325 (Claude Code)";; *) exit 1;; esac'


@pytest.mark.parametrize("backend", ["auto", "claude", "kiro", "custom"])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_written_file_is_valid(tmp_path: Path, preset: str, backend: str) -> None:
    done = yb("loop", "init", "--preset", preset, "-b", backend, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    loaded = load_loop_file(tmp_path / "ralph.yml")
    assert (loaded.spec.cli.backend, loaded.warnings) == (backend, ())
    assert (tmp_path / "PROMPT.md").read_text()
    checked = yb("validate", "-c", "ralph.yml", cwd=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_an_invalid_loop_has_positions_and_warnings_do_not_fail(tmp_path: Path) -> None:
    file = tmp_path / "preset.yml"
    file.write_text("cli:\n  backend: cluade\nevent_loop: {max_iteration: 3}\n")
    done = yb("validate", "-c", str(file))
    assert done.returncode == 2
    assert "preset.yml:3:14: event_loop.max_iteration: unknown key (did you mean 'max_iterations'?)" in done.stderr
    file.write_text("cli: {backend: kiro, idle_timeout_secs: 30}")
    done = yb("validate", "-c", str(file), "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["valid"]) == (0, True)
    assert [warning["path"] for warning in answer["warnings"]] == ["cli.idle_timeout_secs"]


def test_commented_keys_are_valid_too(tmp_path: Path) -> None:
    """What a person may uncomment must work."""
    yb("loop", "init", "--preset", "plain", cwd=tmp_path)
    file = tmp_path / "ralph.yml"
    lines = [line.replace("# ", "", 1) if line.startswith("  # ") else line for line in file.read_text().splitlines()]
    text = "\n".join(line for line in lines if not line.startswith("  A failed"))
    file.write_text(text)
    spec = load_loop_file(file).spec
    assert (spec.cli.model, spec.event_loop.max_cost_usd, len(spec.event_loop.escalation)) == ("opus", 10, 2)


def test_existing_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "PROMPT.md").write_text("mine")
    (tmp_path / "ralph.yml").write_text("# mine")
    done = yb("loop", "init", cwd=tmp_path)
    assert (done.returncode, "LOOP_EXISTS" in done.stderr) == (1, True)
    assert (tmp_path / "ralph.yml").read_text() == "# mine"
    assert yb("loop", "init", "--force", cwd=tmp_path).returncode == 0
    assert "cli:" in (tmp_path / "ralph.yml").read_text()
    assert (tmp_path / "PROMPT.md").read_text() == "mine"


def test_unknown_names_are_errors(tmp_path: Path) -> None:
    done = yb("loop", "init", "--preset", "test", cwd=tmp_path)
    assert (done.returncode, "did you mean 'tests'" in done.stderr) == (2, True)
    done = yb("loop", "init", "-b", "cluade", cwd=tmp_path)
    assert (done.returncode, "did you mean 'claude'" in done.stderr) == (2, True)
    assert not (tmp_path / "ralph.yml").exists()


def test_presets_are_listed(tmp_path: Path) -> None:
    done = yb("loop", "init", "--list-presets", cwd=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(PRESETS)
    assert list(tmp_path.iterdir()) == []


class Computer:
    """A PATH with git, a home, and a project that is a repository with one commit."""

    def __init__(self, root: Path) -> None:
        self.bin, self.home, self.project = (root / name for name in ("bin", "home", "project"))
        for path in (self.bin, self.home, self.project):
            path.mkdir()
        git = shutil.which("git")
        assert git
        (self.bin / "git").symlink_to(git)
        (self.project / "PROMPT.md").write_text("Do it.")
        self.git("init", "-q")
        self.commit()

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=self.project, check=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "x")

    def has(self, program: str, script: str) -> None:
        (self.bin / program).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / program).chmod(0o755)

    def write(self, text: str) -> None:
        (self.project / "ralph.yml").write_text(text)

    def doctor(self, *arguments: str, **env: str) -> Done:
        own = {"PATH": str(self.bin), "HOME": str(self.home), "YOUBENCHA_TOOLBOX": str(self.home / "toolbox")}
        return yb("loop", "doctor", *arguments, cwd=self.project, **own, **env)

    def findings(self, **env: str) -> dict[str, dict[str, Any]]:
        report = json.loads(self.doctor("--json", **env).stdout)
        return {each["name"]: each for each in report["findings"]}


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_a_loop_that_can_start(computer: Computer) -> None:
    computer.has("claude", CLAUDE)
    computer.has("amp", "echo 0.1.2")
    done = computer.doctor(ANTHROPIC_API_KEY=KEY)
    assert (done.returncode, done.stderr) == (0, "")
    assert "✓ backend" in done.stdout
    assert "Claude Code, the first that is installed" in done.stdout
    assert "0.1.2 on PATH" in done.stdout
    assert f"✓ repository     {computer.project}" in done.stdout
    assert done.stdout.endswith("Ready: `ralph run` starts the loop.\n")
    assert KEY not in done.stdout


@pytest.mark.parametrize(
    ("text", "name", "detail"),
    [
        ("evnt_loop: {}", "configuration", "unknown key"),
        ("cli: {backend: codex}", "backend", "there is no codex"),
        ("cli: {backend: custom, command: mine}", "backend", "there is no mine"),
        ("cli: {backend: claude}\nsandbox: docker", "docker", ""),
        ("prompt_file: empty.md", "prompt", "is empty"),
    ],
)
def test_what_prevents_a_loop(computer: Computer, text: str, name: str, detail: str) -> None:
    computer.has("claude", CLAUDE)
    (computer.project / "empty.md").touch()
    computer.write(text)
    env = {"ANTHROPIC_API_KEY": KEY, "DOCKER_HOST": "unix:///nowhere.sock"}
    found = computer.findings(**env)[name]
    assert (found["state"], detail in found["detail"]) == ("failed", True)
    assert computer.doctor(**env).returncode == 2


def test_a_backend_without_a_login(computer: Computer) -> None:
    computer.has("claude", CLAUDE)
    found = computer.findings()["backend"]
    assert (found["state"], "authentication" in found["detail"]) == ("failed", True)


def test_what_is_only_noted(computer: Computer) -> None:
    computer.has("claude", CLAUDE)
    (computer.project / "PROMPT.md").unlink()
    computer.write("cli: {idle_timeout_secs: 30}")
    done = computer.doctor(ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 0
    assert "! prompt" in done.stdout
    assert "2 uncommitted files" in done.stdout
    assert "cli.idle_timeout_secs" in done.stdout


def test_outside_of_a_repository(computer: Computer) -> None:
    computer.has("claude", CLAUDE)
    shutil.rmtree(computer.project / ".git")
    found = computer.findings(ANTHROPIC_API_KEY=KEY)["repository"]
    assert (found["state"], "git init" in found["fix"]) == ("failed", True)
