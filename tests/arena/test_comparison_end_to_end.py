"""The project's own suite with models of known skill: the better one is found, and equal ones are never told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.build import task_ids
from skilled_bench import SkilledBench

from agent_clis import NEWEST
from claude_bench import versions
from youbencha.gateway.script import ScriptedModel
from youbencha.sandbox.toolbox.installed import InstalledAgent


async def verdict_of(bench: SkilledBench, name: str) -> dict[str, Any]:
    compared = await bench.thunderdome("compare", name, "--format=json")
    assert compared.returncode == 0, compared.stderr
    found: dict[str, Any] = json.loads(compared.stdout)
    return found


async def test_the_better_one_is_found_and_the_trials_end(tmp_path: Path) -> None:
    bench = SkilledBench(tmp_path, {"weak": 0.1, "strong": 0.9}, seed=1)
    await bench.prepare()
    ran = await bench.thunderdome("run", "--until-decided", "--max-trials=60", "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert "strong is better than weak" in ran.stdout
    found = await verdict_of(bench, "strong")
    assert found["verdict"] == "better"
    assert found["interval_on_these_tasks"][0] > 0
    assert found["trials"] < 60
    assert found["decided_early"]["saved"] == 60 - found["trials"]
    assert (await verdict_of_pair(bench, "weak", "strong"))["verdict"] == "worse"
    page = (await bench.thunderdome("compare", "strong", "--format=html")).stdout
    assert "strong is better than weak" in page
    assert "The confidence sequence over" in page
    report = (await bench.thunderdome("report")).stdout
    assert "Compared with the baseline" in report


async def verdict_of_pair(bench: SkilledBench, first: str, second: str) -> dict[str, Any]:
    compared = await bench.thunderdome("compare", first, second, "--format=json")
    found: dict[str, Any] = json.loads(compared.stdout)
    return found


async def test_equal_ones_are_not_told_apart(tmp_path: Path) -> None:
    bench = SkilledBench(tmp_path, {"one": 0.5, "other": 0.5}, seed=2)
    await bench.prepare()
    ran = await bench.thunderdome("run", "--until-decided", "--max-trials=18", "--quiet")
    assert ran.returncode == 0, ran.stderr
    found = await verdict_of(bench, "other")
    assert found["verdict"] in ("equivalent", "undecided")
    assert found["trials"] == 18


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
async def test_all_tasks_with_three_agents(tmp_path: Path, seed: int) -> None:
    skills = {"plain": 0.35, "skill": 0.95, "placebo": 0.35}
    bench = SkilledBench(tmp_path, skills, seed=seed, tasks=task_ids())
    await bench.prepare()
    ran = await bench.thunderdome("run", "--until-decided", "--margin=0.25", "--max-trials=240", "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert (await verdict_of(bench, "skill"))["verdict"] == "better"
    assert (await verdict_of(bench, "placebo"))["verdict"] in ("equivalent", "undecided")


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_two_that_always_solve_everything_are_equivalent(tmp_path: Path) -> None:
    bench = SkilledBench(tmp_path, {"one": 1.0, "other": 1.0}, seed=1)
    await bench.prepare()
    ran = await bench.thunderdome("run", "--until-decided", "--margin=0.2", "--max-trials=200", "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert (await verdict_of(bench, "other"))["verdict"] == "equivalent"


@pytest.mark.full
@pytest.mark.timeout(900)
@versions(NEWEST)
async def test_claude_code_with_two_models(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    """The real CLI, told what to do by scripted models of different skill."""
    bench = SkilledBench(tmp_path, {"haiku": 0.1, "opus": 0.9}, seed=1)
    await bench.prepare(orchestrators=bench.claude_code())
    async with ScriptedModel(bench.script()) as model:
        ran = await bench.thunderdome("run", "--until-decided", "--max-trials=60", "--quiet", model=model.url)
    assert ran.returncode == 0, ran.stderr
    found = await verdict_of(bench, "opus")
    assert (found["verdict"], found["first"]["versions"]) == ("better", [claude_cli.version])
    assert found["cost_usd"]["first"] > 0
