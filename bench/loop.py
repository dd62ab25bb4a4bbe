"""What a loop adds to each iteration, beside a loop of the shell over the same program."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import ComponentMissing, Figure, env_as_installed, ms

_ROUNDS = 3
_ITERATIONS = 10
_GOAL_S = 0.010
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")

_AGENT = """#!/bin/bash
echo "$EPOCHREALTIME" >> {starts}
echo "$EPOCHREALTIME" > changed.txt
sleep 0.2
echo done
"""
_CONFIG = """
cli: {{backend: custom, command: {agent}}}
event_loop: {{prompt: Do it., max_iterations: {iterations}, checkpoint_interval: {interval}, stale_after: 0}}
"""
_SHELL = 'for i in $(seq {iterations}); do {agent} "$(cat PROMPT.md)" > output.txt; done'


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="youbencha-bench-") as name:
        project = LoopProject(Path(name))
        shell, plain, with_checkpoints = [], [], []
        for _ in range(_ROUNDS):  # alternating, so that all are measured under the same conditions
            shell += project.shell()
            plain += project.ralph(0)
            with_checkpoints += project.ralph(1)
    bare = statistics.median(shell)
    for what, times in (("without checkpoints", plain), ("with a checkpoint after each", with_checkpoints)):
        above = statistics.median(times) - bare
        yield Figure(
            f"an iteration of a loop, {what} (0.2 s agent)",
            f"{ms(statistics.median(times))}, {ms(above)} above",
            f"bash loop {ms(bare)}",
            "≤ 10 ms above",
            above <= _GOAL_S,
        )


class LoopProject:
    """A repository with a program as the agent, which notes when it starts."""

    def __init__(self, directory: Path) -> None:
        self._tree = directory / "project"
        self._tree.mkdir()
        self._starts, self._agent = directory / "starts", directory / "agent"
        self._agent.write_text(_AGENT.format(starts=self._starts))
        self._agent.chmod(0o755)
        (self._tree / "PROMPT.md").write_text("Do it.\n")
        for number in range(200):
            (self._tree / f"file-{number}.txt").write_text(f"{number}\n" * 50)
        for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
            subprocess.run([*_GIT, *arguments], cwd=self._tree, check=True)
        self._env = {**env_as_installed(), "HOME": str(directory), "XDG_CACHE_HOME": str(directory / "cache")}
        self._ralph = Path(sys.executable).parent / "ralph"
        if not self._ralph.exists():
            raise ComponentMissing("`ralph` is not installed with this Python: use `make bench`, which installs it")

    def shell(self) -> list[float]:
        command = _SHELL.format(iterations=_ITERATIONS, agent=self._agent)
        return self._periods(["bash", "-c", command], code=0)

    def ralph(self, interval: int) -> list[float]:
        config = _CONFIG.format(agent=self._agent, iterations=_ITERATIONS, interval=interval)
        (self._tree / "ralph.yml").write_text(config)
        return self._periods([str(self._ralph), "run", "--quiet"], code=2)  # 2: the limit of iterations

    def _periods(self, command: list[str], *, code: int) -> list[float]:
        """The times from each start of the agent to the next."""
        self._starts.unlink(missing_ok=True)
        done = subprocess.run(command, cwd=self._tree, env=self._env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if done.returncode != code:
            raise RuntimeError(f"{command[0]} failed: {os.fsdecode(done.stderr)}")
        starts = [float(line) for line in self._starts.read_text().split()]
        return [after - before for before, after in itertools.pairwise(starts)]
