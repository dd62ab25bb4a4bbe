"""`ralph run` in a real terminal: watch, scroll, pause, resume, guide, stop, quit, resize; and what is left behind."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from systems import ON_WINDOWS
from tmux import Pane, terminal

pytestmark = pytest.mark.skipif(ON_WINDOWS, reason="there is no tmux on Windows")

RALPH = Path(sysconfig.get_path("scripts")) / "ralph"

AGENT = r"""#!/bin/bash
# Each iteration waits for a file of its number, so that a test decides what happens when.
number=$(($(cat number 2>/dev/null || echo 0) + 1))
echo $number > number
echo $$ > pid
echo "this is iteration $number"
printf '10%%\r55%%\rready\n'
echo "a complaint" >&2
printf '%s' "$1" > prompt-$number
for line in $(seq 60); do echo "row $number-$line"; done
echo "waiting for go-$number"
while [ ! -e go-$number ]; do sleep 0.02; done
echo "iteration $number is over"
[ -e complete ] && echo LOOP_COMPLETE
exit 0
"""

CONFIG = """
cli: {backend: custom, command: ./agent, pty_mode: true}
event_loop: {prompt: Do the work., max_iterations: 9}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    agent = directory / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    (directory / "ralph.yml").write_text(CONFIG)
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments], cwd=directory, check=True
        )
    return directory


@pytest.fixture
def pane(project: Path, tmp_path: Path) -> Iterator[Pane]:
    env = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with terminal(project, env=env) as opened:
        yield opened


def stty(pane: Pane) -> str:
    """The state of the terminal, as the shell sees it."""
    pane.press("C-l")
    pane.run("stty", "-g")
    return re.findall(r"^[0-9a-f:]{40,}$", pane.wait_for(r"^[0-9a-f:]{40,}$"), re.MULTILINE)[-1]


def go(project: Path, number: int) -> None:
    (project / f"go-{number}").touch()


def start(pane: Pane, command: str = f"'{RALPH}' run", wait_for: str = r"waiting for go-1") -> None:
    pane.type(f"{command}; echo code=$?")
    pane.press("Enter")
    pane.wait_for(wait_for)


def test_a_loop_is_watched_scrolled_paused_guided_and_completed(project: Path, pane: Pane) -> None:
    before = stty(pane)
    start(pane)
    shown = pane.text()
    assert "row 1-60" in shown
    assert "this is iteration 1" not in shown  # it is above
    pane.press("g")
    shown = pane.wait_for(r"this is iteration 1")
    assert re.search(r"  ready\b", shown)
    assert "55%" not in shown
    pane.press("G")
    pane.wait_for(r"waiting for go-1")
    pane.press("p")
    pane.wait_for(r"pauses after this iteration")
    go(project, 1)
    pane.wait_for(r"‖ paused")
    pane.press(":")
    pane.type("look at the other file")
    pane.press("Enter")
    pane.wait_for(r"included in the next prompt")
    pane.press("p")
    pane.wait_for(r"waiting for go-2")
    assert "look at the other file" in (project / "prompt-2").read_text()
    pane.resize(140, 36)
    pane.wait_for(r"^.{110,}LIVE")
    (project / "complete").touch()
    go(project, 2)
    shown = pane.wait_for(r"^code=0$")
    assert "completed" in shown
    assert stty(pane) == before
    assert recorded_types(project).count("iteration_ended") == 2


def recorded_types(project: Path) -> list[str]:
    (file,) = project.glob(".ralph/loops/*/recording.jsonl")
    return re.findall(r'^{"type":"([a-z_]+)"', file.read_text(), re.MULTILINE)


def is_restored(pane: Pane) -> bool:
    """Whether the terminal shows its first screen and the cursor, and does not report the mouse."""
    return pane.tmux("display", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}").split() == ["0", "1", "0"]


@pytest.mark.parametrize("key", ["s", "q", "C-c"])
def test_a_loop_is_stopped_now(project: Path, pane: Pane, key: str) -> None:
    before = stty(pane)
    start(pane)
    assert not is_restored(pane)
    pane.press(key)
    pane.wait_for(r"esc go back")
    pane.press("Escape")
    pane.wait_until_gone(r"esc go back")
    pane.press(key)
    pane.wait_for(r"esc go back")
    pane.press("y")
    pane.wait_for(r"^code=(1|130)$")
    assert is_restored(pane)
    assert stty(pane) == before
    assert recorded_types(project)[-1] == "loop_ended"


def ralph_processes(pane: Pane) -> list[psutil.Process]:
    shell = psutil.Process(int(pane.tmux("display", "-p", "#{pane_pid}")))
    return shell.children()


def test_sigterm_restores_the_terminal(project: Path, pane: Pane) -> None:
    before = stty(pane)
    start(pane)
    (ralph,) = ralph_processes(pane)
    agent = psutil.Process(int((project / "pid").read_text()))
    ralph.terminate()
    pane.wait_for(r"^code=130$")
    assert is_restored(pane)
    assert stty(pane) == before
    assert psutil.wait_procs([agent], timeout=10)[1] == []


CRASH = """
import asyncio, os, sys
from youbencha.cli import ralph
from youbencha.loop import run
from youbencha.tui import app

async def crash(*_, **__):
    while not os.path.exists("go-1"):
        await asyncio.sleep(0.02)
    raise RuntimeError("a fault of the loop")

def tick(self):
    if os.path.exists("fail"):
        raise RuntimeError("a fault of the screen")

if sys.argv.pop(1) == "loop":
    run.run_loop = crash
else:
    app.ScreenApp.tick = tick
ralph()
"""


def test_a_fault_of_the_loop_restores_the_terminal_and_is_reported(project: Path, pane: Pane) -> None:
    (project / "crash.py").write_text(CRASH)
    before = stty(pane)
    start(pane, f"'{sys.executable}' crash.py loop run", "LIVE")
    go(project, 1)
    shown = pane.wait_for(r"^code=2$")
    assert "a fault of the loop" in shown
    assert is_restored(pane)
    assert stty(pane) == before


def test_without_its_screen_a_loop_goes_on(project: Path, pane: Pane) -> None:
    """It prints lines from then on."""
    (project / "crash.py").write_text(CRASH)
    before = stty(pane)
    pane.type(f"'{sys.executable}' crash.py screen run; echo code=$?")
    pane.press("Enter")
    pane.wait(lambda _: (project / "prompt-1").exists(), "the first iteration")
    (project / "fail").touch()
    pane.wait(lambda _: "The screen failed" in pane.history(), "the message, which may have scrolled away")
    go(project, 1)
    pane.wait_for(r"waiting for go-2")
    (project / "complete").touch()
    go(project, 2)
    assert "loop completed" in pane.wait_for(r"^code=0$")
    assert is_restored(pane)
    assert stty(pane) == before
    assert recorded_types(project)[-1] == "loop_ended"
