"""`yb run --tui`, for one trial and for many, in a real terminal."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from systems import ON_WINDOWS
from tmux import terminal
from yb import SCRIPT, yb

pytestmark = pytest.mark.skipif(ON_WINDOWS, reason="there is no tmux on Windows")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org")
    for arguments in (("init", "-q"), ("commit", "-q", "-m", "start", "--allow-empty")):
        subprocess.run([*git, *arguments], check=True)
    agent = {"type": "command", "config": {"command": ["sh", "-c", "echo I changed it; echo x > new.txt"]}}
    (tmp_path / "case.json").write_text(json.dumps({"repo": ".", "agent": agent, "evaluators": ["git-diff"]}))
    return tmp_path


def run_in_terminal(project: Path, *options: str, shows: str, prints: str) -> None:
    env = {"HOME": str(project), "XDG_CACHE_HOME": str(project / "cache")}
    with terminal(project, env=env) as pane:
        pane.type(f"'{SCRIPT}' run -c case.json --tui {' '.join(options)}; echo code=$?")
        pane.press("Enter")
        pane.wait_for(shows)
        pane.wait_for(r"ENDED")
        pane.press("q")
        assert prints in pane.wait_for(r"^code=0$")


def test_one_trial(project: Path) -> None:
    run_in_terminal(project, shows="I changed it", prints="Verdict")


def test_many_trials(project: Path) -> None:
    run_in_terminal(project, "--trials", "2", shows=r"2/2", prints="2 of 2 trials finished")


def test_without_a_terminal_it_is_an_error(project: Path) -> None:
    done = yb("run", "-c", "case.json", "--tui", cwd=project)
    assert done.returncode == 2
    assert "[NO_TERMINAL] --tui needs a terminal." in done.stderr
