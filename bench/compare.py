"""`yb compare` over 10,000 results, with the start of the process."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.arena_report import write_results
from bench.measure import Figure, env_as_installed, installed_yb, median_of, ms

_FORMATS = ("table", "json", "html")
_GOAL_MS = 3_000


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as root:
        run = Path(root) / "runs" / "2026-01-01T00-00-00Z-00000000"
        files = write_results(run, agents=2, tasks=500, trials=10)
        env, yb = env_as_installed(), installed_yb()
        start = median_of(3, partial(subprocess.run, [yb, "--version"], env=env, stdout=subprocess.DEVNULL))
        for form in _FORMATS:
            command = [yb, "compare", "agent-0", "agent-1", "--results", root, "--format", form]
            taken = median_of(3, partial(subprocess.run, command, env=env, check=True, stdout=subprocess.DEVNULL))
            yield Figure(
                f"compare over {len(files):,} results, {form}",
                ms(taken),
                f"yb --version {ms(start)}",
                f"≤ {_GOAL_MS} ms",
                taken * 1000 <= _GOAL_MS,
            )
