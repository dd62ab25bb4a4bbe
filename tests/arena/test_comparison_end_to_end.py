"""The project's own suite with models of known skill: the better one is found, and equal ones are not told apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.build import task_ids
from skilled_bench import QUICK_TASKS, SkilledBench

from agent_clis import NEWEST
from claude_bench import versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

TWO_TASKS = QUICK_TASKS[::2]


async def test_the_better_one_is_found_and_the_trials_end(tmp_path: Path) -> None:
    bench = SkilledBench(tmp_path, {"weak": 0.05, "strong": 0.95}, seed=2, tasks=TWO_TASKS)
    await bench.prepare()
    printed = await bench.run("--max-trials=60")
    assert "strong is better than weak" in printed
    found = await bench.compared("strong")
    assert found["verdict"] == "better"
    assert found["interval_on_these_tasks"][0] > 0
    assert found["trials"] < 60
    assert found["decided_early"]["saved"] == 60 - found["trials"]
    assert found["decided_early"]["intervals"][-1] == found["interval_on_these_tasks"]
    assert (await bench.compared("weak", "strong"))["verdict"] == "worse"
    page = await bench.thunderdome("compare", "strong", "--format=html")
    assert "strong is better than weak" in page
    assert "The confidence sequence over" in page


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
async def test_all_tasks_with_three_agents(tmp_path: Path, seed: int) -> None:
    skills = {"plain": 0.35, "skill": 0.95, "placebo": 0.35}
    bench = SkilledBench(tmp_path, skills, seed=seed, tasks=task_ids())
    await bench.prepare()
    await bench.run("--margin=0.25", "--max-trials=150")
    assert (await bench.compared("skill"))["verdict"] == "better"
    assert (await bench.compared("placebo"))["verdict"] in ("equivalent", "undecided")


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_two_that_always_solve_everything_are_equivalent(tmp_path: Path) -> None:
    bench = SkilledBench(tmp_path, {"one": 1.0, "other": 1.0}, seed=1)
    await bench.prepare()
    await bench.run("--margin=0.2", "--max-trials=200")
    found = await bench.compared("other")
    assert found["verdict"] == "equivalent"
    assert found["trials"] < 200


@pytest.mark.full
@pytest.mark.timeout(900)
@versions(NEWEST)
async def test_claude_code_with_two_models(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    """The real CLI, told what to do by scripted models of different skill."""
    bench = SkilledBench(tmp_path, {"haiku": 0.05, "opus": 0.95}, seed=1)
    await bench.prepare(orchestrators=bench.claude_code())
    async with ScriptedModel(bench.script()) as model:
        await bench.run("--max-trials=60", model=model.url)
    found = await bench.compared("opus")
    assert (found["verdict"], found["first"]["versions"]) == ("better", [claude_cli.version])
    assert found["cost_usd"]["first"] > 0
