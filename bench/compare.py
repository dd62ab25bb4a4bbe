"""`yb compare` over 10,000 results, with the start of the process."""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import orjson

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


def write_results(run: Path, *, agents: int, tasks: int, trials: int) -> list[Path]:
    rng = random.Random(5)
    files = []
    for agent in range(agents):
        for task in range(tasks):
            for trial in range(1, trials + 1):
                directory = run / "trials" / f"agent-{agent}" / f"task-{task}" / f"trial-{trial}"
                directory.mkdir(parents=True)
                files.append(directory / "meta.json")
                files[-1].write_bytes(orjson.dumps(_meta(rng, f"agent-{agent}", f"task-{task}", trial)))
    return files


def _meta(rng: random.Random, agent: str, task: str, trial: int) -> dict[str, object]:
    score, cost = rng.random(), rng.random()
    tokens = rng.randrange(1_000_000)
    moment = "2026-01-01T00:00:00.000Z"
    attempt = {"number": 1, "outcome": "solved", "started_at": moment, "duration_s": 60.5, "cost_usd": cost}
    return {
        "orchestrator": agent,
        "task": task,
        "trial": trial,
        "duration_s": rng.random() * 600,
        "exit_code": 0,
        "exit_reason": "completed",
        "scores": {"tests": score, "static_analysis": 1.0, "hidden_tests": None, "agent_tests": None},
        "composite_score": score,
        "total_tokens": tokens,
        "input_tokens": tokens // 2,
        "output_tokens": tokens - tokens // 2,
        "total_cost_usd": cost,
        "budget_exceeded": False,
        "usage_partial": False,
        "outcome": "solved" if score > 0.5 else "unsolved",
        "valid": True,
        "reason": "all tests pass",
        "category": f"suite-{len(task) % 3}/{task}",
        "all_attempts_cost_usd": cost,
        "attempts": [attempt],
        "flags": [],
        "identity": {"agent_hash": "a" * 64, "validation_hash": "b" * 64, "youbencha_version": "0.1.0", "cpus": 2.0},
        "started_at": moment,
        "completed_at": moment,
    }
