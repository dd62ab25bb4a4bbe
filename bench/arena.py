"""A run of the arena with 1,000 trials that do nothing, beside the same trials without the engine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import psutil

from bench.measure import Figure, mb, ms
from youbencha import __version__
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.resume import cell_infos
from youbencha.engine.run import MatrixOptions, run_matrix
from youbencha.engine.updates import TrialFinished, Update
from youbencha.spec.settings import load_settings
from youbencha.spec.testcase import TestCase
from youbencha.store.arena import RunInfo
from youbencha.store.arena_run import create_run
from youbencha.trial.context import Host
from youbencha.trial.plan import plan_trial
from youbencha.trial.run import run_trial

_TRIALS, _EARLY, _BARE = 1_000, 200, 500
_PARALLEL = 16
_GOAL_MS = 15.0
_GOAL_GROWTH = 1.1
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="youbencha-bench-") as root:
        # In a process of its own, because its memory is measured.
        done = subprocess.run([sys.executable, "-m", "bench.arena", root], check=True, stdout=subprocess.PIPE)
    found = orjson.loads(done.stdout)
    for what, key in (("", "wall_s"), (", CPU of the harness", "cpu_s")):
        ours, bare = found["engine"][key], found["bare"][key]
        yield Figure(
            f"{_TRIALS:,} null trials, {_PARALLEL} at a time{what}",
            f"{ms(ours)} each, {ms(ours - bare)} above",
            f"run_trial alone {ms(bare)} each",
            f"≤ {_GOAL_MS:.0f} ms above",
            (ours - bare) * 1000 <= _GOAL_MS,
        )
    early, late = found["rss"][str(_EARLY)], found["rss"][str(_TRIALS)]
    yield Figure(
        f"memory after {_TRIALS:,} trials",
        mb(late),
        f"after {_EARLY}: {mb(early)}",
        f"≤ {_GOAL_GROWTH}×",
        late <= _GOAL_GROWTH * early,
    )


async def _measure(root: Path) -> dict[str, object]:
    host = Host(os.environ, load_settings(root, root))
    cell = _cell(root, host)
    await _bare(cell, host, root / "warm", 2 * _PARALLEL)
    clock = Clock()
    await _bare(cell, host, root / "before", _BARE // 2)  # half before and half after: other load is shared
    first = clock.lap()
    rss = await _engine(cell, host, root)
    ours = clock.lap()
    await _bare(cell, host, root / "after", _BARE // 2)
    second = clock.lap()
    bare = {key: (first[key] + second[key]) / _BARE for key in first}
    return {"engine": {key: value / _TRIALS for key, value in ours.items()}, "bare": bare, "rss": rss}


class Clock:
    def __init__(self) -> None:
        self._now = (0.0, 0.0)
        self.lap()

    def lap(self) -> dict[str, float]:
        """The time since the last call, and the CPU time of this process alone."""
        before = self._now
        self._now = (time.perf_counter(), time.process_time())
        return {"wall_s": self._now[0] - before[0], "cpu_s": self._now[1] - before[1]}


async def _engine(cell: Cell, host: Host, root: Path) -> dict[str, int]:
    matrix = Matrix(cells=(cell,), trials=_TRIALS)
    info = RunInfo(
        youbencha_version=__version__,
        created_at="2026-01-01T00:00:00Z",
        trials=_TRIALS,
        cells=cell_infos(matrix),
    )
    run, process = create_run(root / "results", info), psutil.Process()
    rss: dict[str, int] = {}
    finished = 0

    def on_update(update: Update) -> None:
        nonlocal finished
        if isinstance(update, TrialFinished):
            finished += 1
            if finished in (_EARLY, _TRIALS):
                rss[str(finished)] = process.memory_info().rss

    summary = await run_matrix(matrix, host, run, MatrixOptions(parallel=_PARALLEL), on_update)
    assert summary.complete
    assert not summary.not_valid
    return rss


async def _bare(cell: Cell, host: Host, directory: Path, trials: int) -> None:
    slots = asyncio.Semaphore(_PARALLEL)

    async def one(number: int) -> None:
        async with slots:
            await run_trial(cell.plan, host, directory=directory / str(number), delete_workspace=True)

    directory.mkdir()
    await asyncio.gather(*map(one, range(trials)))


def _cell(root: Path, host: Host) -> Cell:
    repository = root / "repository"
    repository.mkdir()
    (repository / "README.md").write_text("Nothing to do.\n")
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "start")):
        subprocess.run([*_GIT, *arguments], cwd=repository, check=True)
    case = TestCase.model_validate(
        {
            "name": "null",
            "repo": str(repository),
            "agent": {"type": "command", "config": {"command": ["true"], "prompt_by": "none"}},
            "evaluators": ["git-diff"],
        }
    )
    plan = plan_trial(case, host, directory=root)
    return Cell(orchestrator="null", task="null", plan=plan, task_text="", agent_hash="a", validation_hash="v")


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(asyncio.run(_measure(Path(sys.argv[1])))))
