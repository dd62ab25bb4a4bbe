"""A loop that is killed at any instant goes on: no iteration is lost or recorded twice, and nothing of the user's
repository changes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import pytest
from loop_bench import LoopBench

from systems import posix_only
from yb import PATIENCE_S

pytestmark = posix_only("the agents are shell scripts")

LAST = 4
SCRIPT = f"""
echo "$RALPH_ITERATION" >> ../started
echo "$N" > "file$N"; git status > /dev/null
sleep 0.05
echo "session $N"
[ "$RALPH_ITERATION" -ge {LAST} ] && echo LOOP_COMPLETE
exit 0
"""


def until_gone(loops: LoopBench) -> None:
    """Wait until no process of a killed loop is left."""
    end = time.monotonic() + PATIENCE_S
    while loops.processes():
        assert time.monotonic() < end, loops.processes()
        time.sleep(0.01)


def started(loops: LoopBench, *arguments: str) -> subprocess.Popen[str]:
    """Start the command, and wait until its loop has begun: it takes longer to start than the iterations take."""
    before = written_at(loops)
    process = loops.start("run", "-c", str(loops.root / "ralph.yml"), "--no-tui", *arguments)
    end = time.monotonic() + PATIENCE_S
    while process.poll() is None and written_at(loops) == before:
        assert time.monotonic() < end
        time.sleep(0.002)
    return process


def written_at(loops: LoopBench) -> list[int]:
    return [path.stat().st_mtime_ns for path in (loops.tree / ".ralph/loops").glob("*/loop.json")]


def kill_at_random_instants(loops: LoopBench, seed: int, kills: int) -> None:
    instants = random.Random(seed)
    loops.configure(SCRIPT, event_loop={"max_iterations": 100})
    (loops.tree / "README.md").write_text("changed, and staged\n")
    loops.git("add", "README.md")
    (loops.tree / "README.md").write_text("changed again\n")
    loops.git("stash", "push", "-q", "--keep-index")
    (loops.tree / "untracked.txt").write_text("mine\n")
    before = loops.users_state()
    process = started(loops)
    for _ in range(kills):
        time.sleep(instants.uniform(0.0, 0.3))
        process.kill()
        process.communicate()
        until_gone(loops)
        if loops.history().state.outcome is not None:
            break  # it was too late
        process = started(loops, "--continue")
    else:
        output, _ = process.communicate()
        assert process.returncode == 0, output
        assert list((loops.root / "cache/youbencha/runs").iterdir()) == [], "what a killed process left stays"
    assert loops.history().state.outcome == "completed"
    records = loops.history().records
    assert [record.iteration for record in records] == list(range(1, len(records) + 1))
    numbers = [int(line) for line in (loops.root / "started").read_text().split()]
    assert len(numbers) == len(set(numbers)), "an iteration ran twice"
    assert set(numbers) <= {record.iteration for record in records}, "an iteration was lost"
    interrupted = [record.iteration for record in records if record.outcome == "interrupted"]
    assert len(interrupted) <= kills
    assert set(range(1, len(records) + 1)) - set(numbers) <= set(interrupted)
    assert loops.users_state() == before
    assert (loops.tree / "untracked.txt").read_text() == "mine\n"
    until_gone(loops)


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_a_random_instant(loops: LoopBench, seed: int) -> None:
    kill_at_random_instants(loops, seed, 1)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 50))
def test_killed_at_another_random_instant(loops: LoopBench, seed: int) -> None:
    kill_at_random_instants(loops, seed, 3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.full)])
def test_a_signal_ends_the_loop_soon_and_saves_its_state(loops: LoopBench, number: signal.Signals) -> None:
    loops.configure("touch begun; trap '' TERM; sleep 1000")
    process = loops.start("run", "-c", str(loops.root / "ralph.yml"), "--no-tui")
    while not (loops.tree / "begun").exists():
        time.sleep(0.01)
    sent = time.monotonic()
    os.kill(process.pid, number)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert time.monotonic() - sent < 5
    assert process.returncode == 130, output
    assert "Traceback" not in output
    state, records = loops.history()
    assert (state.outcome, state.running, len(records)) == ("interrupted", None, 1)
    assert (loops.tree / ".ralph/loops" / state.loop_id / "summary.md").exists()
    until_gone(loops)
