"""The user's terminal belongs to the harness: no program that it starts can write to it, or type into it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from run_bench import PATIENCE_S, RunBench

from systems import linux_only
from yb import SCRIPT

pytestmark = linux_only("the files of processes are in /proc")

PROBE = """\
#!/bin/sh
# Notes the descriptors of this process, and whether it has a terminal.
(readlink /proc/$$/fd/*; (: < /dev/tty) 2> /dev/null && echo opened; echo done) > "{probes}/$1"
"""
GIT = """\
#!/bin/sh
"{probe}" git
exec {git} "$@"
"""


def take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def terminals_of(pid: int) -> dict[str, list[str]]:
    """The terminals that the descendants of a process have: by a descriptor, or as their controlling terminal."""
    import psutil

    found = {}
    for process in psutil.Process(pid).children(recursive=True):
        about = Path("/proc", str(process.pid))
        try:
            files = [os.readlink(each) for each in (about / "fd").iterdir()]
            number = (about / "stat").read_text().rpartition(")")[2].split()[4]
            name = process.name()
        except (FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):
            continue  # it has ended since, as each `sleep` of the agent does
        found[f"{process.pid} {name}"] = [file for file in files if "/pts/" in file or "tty" in file] + (
            [f"controlled by {number}"] if number != "0" else []
        )
    return found


async def appears(path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not path.exists():
            await asyncio.sleep(0.02)


@pytest.fixture
def probes(runs: RunBench) -> Path:
    probes = runs.root / "probes"
    for directory in (probes, runs.root / "bin"):
        directory.mkdir()
    probe, git = runs.root / "probe", shutil.which("git")
    for path, text in ((probe, PROBE), (runs.root / "bin" / "git", GIT)):
        path.write_text(text.format(probes=probes, probe=probe, git=git))
        path.chmod(0o755)
    return probes


async def test_no_program_has_the_terminal(runs: RunBench, probes: Path) -> None:
    probe, done = runs.root / "probe", runs.root / "go-on"
    agent = runs.program(f"'{probe}' agent; while ! test -e '{done}'; do sleep 0.05; done")
    case = runs.write_case(
        agent,
        pre_execution=[{"name": "script", "config": {"command": str(probe), "args": ["hook"]}}],
        evaluators=[{"name": "command", "config": {"command": f"'{probe}' evaluator", "shell": True}}],
    )
    terminal, inside = os.openpty()
    path = f"{runs.root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        [SCRIPT, "run", "-c", case],
        cwd=runs.root,
        env={**runs.env, "PATH": path},
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    name = os.ttyname(inside)
    os.close(inside)
    reading = asyncio.create_task(asyncio.to_thread(drain, terminal))
    try:
        await appears(probes / "agent")
        found = terminals_of(process.pid)
        done.touch()
        await asyncio.to_thread(process.wait, PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        await reading
        os.close(terminal)
    assert len(found) >= 3  # the fork server, a guard, the agent
    assert {who: what for who, what in found.items() if what} == {}
    written = {path.name: path.read_text().split() for path in probes.iterdir()}
    assert set(written) == {"agent", "evaluator", "git", "hook"}
    for lines in written.values():
        assert lines[-1] == "done"
        assert "opened" not in lines
        assert name not in lines


def drain(terminal: int) -> None:
    """Read what it shows, so that it does not block, until its end."""
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return
