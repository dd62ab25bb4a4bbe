"""`kill -9` at any instant: `--resume` loses no finished trial, repeats none, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import html
import random
import subprocess
import time
from pathlib import Path

import pytest
from arena_process import ANSWER, ArenaProject, project_with_one_model_call
from engine_bench import appear, events, metas

from docker_engine import Engine, engine, image  # noqa: F401 (fixtures)
from youbencha.scripted_model import ScriptedModel
from youbencha.store.arena_run import ArenaRun

AGENTS, TASKS = 2, 2


def kill_harness(project: ArenaProject, process: subprocess.Popen[str], after_s: float) -> None:
    """Kill the harness, unless it is finished before."""
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    project.wait_until_no_process_is_left()


def disturbed(project: ArenaProject, seed: int | None, kills: int, longest_s: float) -> ArenaRun:
    """A run that was killed at random instants, and then resumed to its end."""
    seed = random.randrange(10**6) if seed is None else seed
    chance = random.Random(seed)
    print(f"seed {seed}")  # shown if the test fails
    begun = project.start("--parallel", "4")
    while not (project.results / "latest").exists():
        assert begun.poll() is None, begun.communicate()
        time.sleep(0.01)
    kill_harness(project, begun, chance.uniform(0, longest_s))
    for _ in range(kills - 1):
        kill_harness(project, project.start("--parallel", "4", "--resume"), chance.uniform(0.2, longest_s))
    done = project.run_here("--parallel", "4", "--resume")
    assert done.returncode == 0, done.stderr
    return project.latest


def assert_as_undisturbed(run: ArenaRun, agents: int, tasks: int, trials: int) -> None:
    found = metas(run)
    expected = {
        f"agent-{agent}/task-{task}/trial-{trial}"
        for agent in range(1, agents + 1)
        for task in range(1, tasks + 1)
        for trial in range(1, trials + 1)
    }
    assert found.keys() == expected
    for place, meta in found.items():
        assert (meta.outcome, meta.valid, meta.composite_score, meta.exit_reason) == ("solved", True, 1.0, "completed")
        assert f"+agent {place[6]}\n" in (run.path / "trials" / place / "diff.patch").read_text()
        *before, last = meta.attempts
        assert {attempt.outcome for attempt in before} <= {"killed", "interrupted"}
        assert last.outcome == "solved"
        assert [attempt.number for attempt in meta.attempts] == list(range(1, len(meta.attempts) + 1))


def assert_nothing_was_repeated(run: ArenaRun) -> None:
    finished = set()
    for line in events(run, "attempt_started", "trial_finished"):
        key = (line["orchestrator"], line["task"], line["number"])
        assert key not in finished, f"{key} was repeated"
        if line["event"] == "trial_finished":
            finished.add(key)


@pytest.mark.parametrize(
    ("seed", "kills", "trials"),
    [(None, 3, 6), *(pytest.param(seed, 10, 10, marks=pytest.mark.full) for seed in range(4))],
)
def test_a_run_that_is_killed_repeatedly_ends_as_if_it_had_not_been(
    tmp_path: Path, seed: int | None, kills: int, trials: int
) -> None:
    project = ArenaProject(tmp_path, agents=AGENTS, tasks=TASKS, trials=trials)
    run = disturbed(project, seed, kills, longest_s=1.8)
    assert_as_undisturbed(run, AGENTS, TASKS, trials)
    assert_nothing_was_repeated(run)
    assert project.private_directories() == []
    assert list(run.path.glob("trials/*/*/*/attempts/*/src-modified")) == []


def test_a_run_in_containers_that_is_killed_leaves_none(tmp_path: Path, engine: Engine, image: str) -> None:  # noqa: F811
    arena = {"sandbox": {"type": "docker", "image": image}, "gateway": "none"}
    project = ArenaProject(tmp_path, agents=1, tasks=1, trials=4, script="sleep 1", **arena)
    run = disturbed(project, None, kills=2, longest_s=3.5)
    assert_as_undisturbed(run, 1, 1, 4)
    assert_nothing_was_repeated(run)
    labels = [each["Labels"] for each in engine.get("/containers/json", all="1")]
    assert [label for label in labels if label.get("youbencha.run", "").startswith(run.name)] == []


async def test_what_a_killed_attempt_cost_is_known(tmp_path: Path) -> None:
    project = project_with_one_model_call(tmp_path)
    async with ScriptedModel(ANSWER) as model:
        project.more_env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"}
        process = project.start()
        await appear(tmp_path / "asked")
        process.kill()
        await asyncio.to_thread(process.communicate)
        (tmp_path / "go").touch()
        done = await asyncio.to_thread(project.run_here, "--resume")
    assert done.returncode == 0, done.stderr
    (meta,) = metas(project.latest).values()
    killed, last = meta.attempts
    assert (killed.outcome, killed.cost_usd, killed.total_tokens, killed.partial) == ("killed", 0.50025, 100_010, True)
    assert killed.reason == "youBencha was killed during the attempt."
    assert meta.all_attempts_cost_usd == pytest.approx(2 * 0.50025)
    assert meta.total_cost_usd == last.cost_usd == 0.50025
    shown = "attempt 1: killed (≥ $0.5002): youBencha was killed during the attempt."
    for form in ("table", "markdown", "html"):
        report = await asyncio.to_thread(project.run_here_as, "report", "--format", form)
        assert shown in html.unescape(report.stdout).replace("\\", ""), form
