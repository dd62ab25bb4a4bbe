"""The suite from end to end: real containers, the real Claude Code CLI, real Aider, scripted models."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.arena import CONFIG, THUNDERDOME, arena_env, scripted_arena
from benchmarks.build import build_all
from benchmarks.models import AIDER, CLAUDE_CODE, Skill, aider_script, claude_code_script
from ruamel.yaml import YAML

from agent_clis import NEWEST
from claude_bench import versions
from docker_engine import Engine, engine, image
from toolbox_tools import installed
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

__all__ = ["engine", "image"]

SKILLS: Mapping[str, Mapping[str, Skill]] = {
    "claude-opus": CLAUDE_CODE["claude-opus-4-5"],
    "claude-haiku": CLAUDE_CODE["claude-haiku-4-5"],
    "aider": AIDER["gpt-4.1"],
}
VERDICTS = {"solution": ("solved", 1.0, 1.0), "partial": ("unsolved", 0.1, 0.9), "nothing": ("unsolved", 0.0, 0.0)}


class SuiteBench:
    """The suite's arena in a directory, and its scripted models."""

    def __init__(self, directory: Path, engine: Engine | None = None, image: str | None = None) -> None:
        self.config = directory / "thunderdome.yaml"
        self.results = directory / "results"
        self._directory = directory
        self._sandbox = {"type": "docker", "image": image} if image else {"type": "local"}
        self._env = {"DOCKER_HOST": engine.host} if engine else {}

    async def prepare(self) -> None:
        await build_all(self._directory / "tasks")
        arena = scripted_arena(self._directory / "tasks", aider=True, sandbox=self._sandbox, parallel=3)
        with self.config.open("w") as file:
            YAML(typ="safe").dump(arena, file)

    async def thunderdome(self, *arguments: str, code: int = 0) -> str:
        async with ScriptedModel(claude_code_script()) as claude_model, ScriptedModel(aider_script()) as aider_model:
            process = await asyncio.create_subprocess_exec(
                *THUNDERDOME,
                *arguments,
                cwd=self._directory,
                env={**arena_env(claude_model.url, aider_model.url), **self._env},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            printed, errors = await process.communicate()
        assert process.returncode == code, errors.decode()
        return printed.decode()

    async def run(self, agents: Sequence[str], tasks: Sequence[str], trials: int) -> list[dict[str, Any]]:
        """Run a part of the suite, and return the results of its trials."""
        chosen = [f"--orchestrator={agent}" for agent in agents] + [f"--task={task}" for task in tasks]
        await self.thunderdome("run", *chosen, f"--trials={trials}", "--quiet")
        found = (self.results / "latest" / "trials").glob("*/*/trial-*/meta.json")
        metas = [json.loads(path.read_bytes()) for path in found]
        assert len(metas) == len(agents) * len(tasks) * trials
        return metas

    async def ranking(self) -> list[dict[str, Any]]:
        board = json.loads(await self.thunderdome("leaderboard", "--format=json"))
        agents: list[dict[str, Any]] = board["agents"]
        return agents


def check(meta: Mapping[str, Any], image: str) -> None:
    """A trial did what its model's script says, was measured, and left its evidence."""
    outcome, lowest, highest = VERDICTS[SKILLS[meta["orchestrator"]][meta["task"]]]
    assert (meta["outcome"], meta["valid"], meta["exit_reason"]) == (outcome, True, "completed"), meta["reason"]
    assert lowest <= meta["composite_score"] <= highest
    assert meta["total_cost_usd"] > 0.001
    assert meta["total_tokens"] > 1_000
    assert len(meta["attempts"]) == 1
    assert meta["flags"] == []
    assert meta["identity"]["image"] == image


@versions(NEWEST)
async def test_two_agents_in_containers(engine: Engine, image: str, claude_cli: InstalledAgent, tmp_path: Path) -> None:
    bench = SuiteBench(tmp_path, engine, image)
    await bench.prepare()
    metas = await bench.run(["claude-opus", "claude-haiku"], ["recur-month-ends", "bench-time-tracker"], 1)
    for meta in metas:
        check(meta, image)
        assert meta["identity"]["agent_version"] == claude_cli.version
    assert [row["agent"] for row in await bench.ranking()] == ["claude-opus", "claude-haiku"]


@pytest.mark.full
@versions(NEWEST)
def test_the_smoke_run(claude_cli: InstalledAgent) -> None:
    """`make smoke`: at the top of the repository, without a key and without containers."""
    smoke = [sys.executable, "-m", "benchmarks.arena", "--smoke"]
    done = subprocess.run(smoke, cwd=CONFIG.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "claude-code · bench-time-tracker · trial 1: solved" in done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.timeout(900)  # Aider alone needs a minute of processor time for its nine starts
@versions(NEWEST)
async def test_claude_code_and_aider_three_tasks_three_trials(
    engine: Engine, image: str, claude_cli: InstalledAgent, tmp_path: Path
) -> None:
    installed("aider")
    bench = SuiteBench(tmp_path, engine, image)
    await bench.prepare()
    tasks = ["recur-month-ends", "bench-time-tracker", "overdue-loans"]
    metas = await bench.run(["claude-opus", "aider"], tasks, 3)
    for meta in metas:
        check(meta, image)
    assert {meta["trial"] for meta in metas} == {1, 2, 3}
    patches = {path.read_bytes() for path in bench.results.glob("latest/trials/aider/overdue-loans/*/diff.patch")}
    assert len(patches) == 1
    assert [row["trials"]["valid"] for row in await bench.ranking()] == [9, 9]


@pytest.mark.full
async def test_calibration(tmp_path: Path) -> None:
    """Doing nothing and cheating score nothing, the reference solution everything; in each task."""
    bench = SuiteBench(tmp_path)
    await bench.prepare()
    calibration = json.loads(await bench.thunderdome("calibrate", "--json"))
    assert len(calibration["tasks"]) == 6
    for task, found in calibration["tasks"].items():
        scores = {name: score["composite"] for name, score in found["scores"].items() if score["applicable"]}
        assert scores.pop("reference") == 1.0, task
        assert max(scores.values()) <= 0.1, task
        assert {"nothing", "forged reports"} <= scores.keys(), task
