"""`thunderdome run --until-decided` with real trials: decided, killed, reused, out of trials or money, bad options."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from arena_process import ArenaProject
from engine_bench import EngineBench, events, metas

from youbencha.engine.matrix import Matrix
from youbencha.engine.run import MatrixOptions, run_matrix
from youbencha.engine.schedule import plan_comparisons
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.store.read import load_runs

GOOD, BAD = "echo x > made.txt", "true"


def arena(root: Path, tasks: int = 2, gateway: str = "none", **scripts: str) -> ArenaProject:
    """Agents by name, all compared with the first."""
    orchestrators: list[dict[str, Any]] = [
        {
            "name": name,
            "agent": "command",
            "config": {"command": f"{script}; : {root}", "shell": True, "prompt_by": "none"},
        }
        for name, script in scripts.items()
    ]
    more = {"orchestrators": orchestrators, "baseline": next(iter(scripts)), "gateway": gateway}
    return ArenaProject(root, tasks=tasks, **more)


class Decided(NamedTuple):
    project: ArenaProject
    said: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Decided:
    """A finished run: one agent is as good as the baseline, the other is better."""
    project = arena(tmp_path_factory.mktemp("decided"), tasks=1, base=BAD, same=BAD, good=GOOD)
    return Decided(
        project, project.run_here("--until-decided", "--margin", "0.6", "--max-trials", "200", "--parallel", "4")
    )


def test_the_result_says_what_is_known_and_what_was_saved(decided: Decided) -> None:
    done = decided.said
    assert done.returncode == 0, done.stderr
    assert "running at most 200 trials" in done.stderr
    assert "good vs base: round 1, difference +1.00 (" in done.stderr
    rows = [line.split()[:4] for line in done.stdout.partition("\nFIRST ")[2].splitlines()]
    assert ["same", "base", "equivalent", "+0.00"] in rows
    assert ["good", "base", "better", "+1.00"] in rows
    assert "of at most 200 saved" in done.stdout


def test_the_better_one_is_found_and_the_rest_is_saved(decided: Decided) -> None:
    run = decided.project.latest
    rounds = [line for line in events(run, "round_finished") if line["first"] == "good"]
    done = decided.project.run_here("--resume", "--json")  # nothing is left to run
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    same, comparison = found["comparisons"]
    assert (same["first"], same["second"], same["verdict"]) == ("same", "base", "equivalent")
    assert (comparison["first"], comparison["second"], comparison["verdict"]) == ("good", "base", "better")
    assert comparison["difference"] == 1
    assert 0 < comparison["interval"]["low"] < comparison["interval"]["high"] <= 1
    assert found["complete"]
    assert found["max_trials"] == 200
    assert found["saved_trials"] == 200 - found["finished"] > 0
    assert (
        len(metas(run))
        == found["finished"]
        == same["pairs"] + comparison["pairs"] + max(same["pairs"], comparison["pairs"])
    )
    info = run.info()
    assert info.baselines == {"same": "base", "good": "base"}
    assert info.until_decided is not None
    assert (info.until_decided.margin, info.until_decided.max_trials) == (0.6, 200)
    assert [line["rounds"] for line in rounds] == list(range(1, comparison["rounds"] + 1))
    assert [line["verdict"] for line in rounds] == ["undecided"] * (len(rounds) - 1) + ["better"]
    results = load_runs([run.path])
    assert results.planned_known
    assert results.unfinished == (), "trials that were not needed are not missing"


def test_out_of_trials_it_ends_properly_and_can_go_on_with_more(tmp_path: Path) -> None:
    project = arena(tmp_path, tasks=1, base=GOOD, same=GOOD)
    done = project.run_here("--until-decided", "--max-trials", "5", "--parallel", "4")
    assert done.returncode == 0, done.stderr
    assert "Undecided: same and base differ by +0.00 (on these tasks" in done.stdout
    assert "saved" not in done.stdout
    before = len(metas(project.latest))
    assert before == 4, "half a round is not run"
    less = project.run_here("--resume", "--max-trials", "4")
    assert less.returncode == 2
    assert "can only be raised" in less.stderr
    more = project.run_here("--resume", "--max-trials", "8")
    assert more.returncode == 0, more.stderr
    assert len(metas(project.latest)) == 8
    info = project.latest.info()
    assert info.until_decided is not None
    assert info.until_decided.max_trials == 8


def test_a_killed_run_ends_with_the_same_decision(tmp_path: Path) -> None:
    """The third trial kills the harness."""
    until = ("--until-decided", "--margin", "0.6", "--max-trials", "200")
    not_killed = arena(tmp_path / "not killed", tasks=1, base=BAD, good=GOOD).run_here(*until, "--json")
    tries = f"'{tmp_path}/tries'"
    suicide = f"echo x >> {tries}; test $(wc -l < {tries}) -ne 3 || kill -9 $(cat '{tmp_path}/pid')"
    project = arena(tmp_path / "killed", tasks=1, base=BAD, good=f"{suicide}; {GOOD}")
    process = project.start(*until, "--parallel", "2")
    (tmp_path / "pid").write_text(str(process.pid))
    process.communicate()
    assert process.returncode == -9
    project.wait_until_no_process_is_left()
    assert len(metas(project.latest)) in (4, 5)
    done = project.run_here("--resume", "--json")
    assert done.returncode == 0, done.stderr
    expected, found = json.loads(not_killed.stdout), json.loads(done.stdout)
    assert found["comparisons"] == expected["comparisons"]
    assert [comparison["verdict"] for comparison in found["comparisons"]] == ["better"]
    assert found["finished"] == expected["finished"] == len(metas(project.latest))
    assert len((tmp_path / "tries").read_text().splitlines()) == found["finished"] / 2 + 1, "one trial ran twice"


def test_the_baselines_trials_of_an_earlier_run_count(tmp_path: Path) -> None:
    project = arena(tmp_path, tasks=1, base=BAD, good=GOOD)
    until = ("--until-decided", "--parallel", "4", "--json", "--max-trials")
    first = project.run_here(*until, "6")
    assert first.returncode == 0, first.stderr
    earlier = project.latest
    shutil.rmtree(earlier.path / "trials/good")
    again = project.run_here(*until, "3", "--reuse", earlier.name)
    assert again.returncode == 0, again.stderr
    one, two = (json.loads(done.stdout) for done in (first, again))
    assert one["comparisons"] == two["comparisons"]
    assert [each["pairs"] for each in two["comparisons"]] == [3]
    assert {row["orchestrator"]: row["reused_from"] for row in two["results"]} == {"base": earlier.name, "good": None}


def test_a_plan_says_when_the_run_ends(tmp_path: Path) -> None:
    project = arena(tmp_path, base=BAD, good=GOOD)
    shown = project.run_here("--until-decided", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "at most 80 (2 orchestrators x 2 tasks), until decided with a margin of 0.05" in shown.stdout
    data = json.loads(project.run_here("--until-decided", "--max-trials", "9", "--dry-run", "--json").stdout)
    assert (data["trials"], data["trials_each"]) == (9, None)
    assert data["until_decided"] == {"margin": 0.05, "max_trials": 9}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--until-decided", "--trials", "3"), "Use --max-trials"),
        (("--margin", "0.1"), "Add --until-decided"),
        (("--max-trials", "9"), "Add --until-decided"),
        (("--until-decided", "--margin", "0"), "not between 0 and 1"),
        (("--until-decided", "--margin", "nan"), "not between 0 and 1"),
        (("--until-decided", "--max-trials", "3"), "the first round alone has 4 trials"),
        (("--until-decided", "--orchestrator", "good"), "baseline: NAME"),
        (("--resume", "--margin", "0.1"), "keeps the margin"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = arena(tmp_path, base=BAD, good=GOOD).run_here(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in " ".join(done.stderr.split())


def test_a_run_with_a_fixed_number_of_trials_stays_one(tmp_path: Path) -> None:
    project = arena(tmp_path, base=BAD, good=GOOD)
    assert project.run_here("--task", "task-1").returncode == 0
    for more in (("--until-decided",), ("--max-trials", "10")):
        done = project.run_here("--resume", *more)
        assert done.returncode == 2
        assert "begun without --until-decided" in done.stderr


ASK = """
import json, os, urllib.request
body = {"model": "claude-opus-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "work"}]}
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()
"""


@pytest.fixture
async def model_env() -> AsyncIterator[dict[str, str]]:
    """Of a model that takes half a dollar for each answer."""
    turns = [{"text": "answer", "usage": {"input_tokens": 100_000, "output_tokens": 10}, "times": "forever"}]
    script = {"tools_optional": True, "conversations": [{"when": {"prompt_contains": "work"}, "turns": turns}]}
    async with ScriptedModel(Script.model_validate(script)) as model:
        yield {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"}


async def test_a_spent_budget_is_an_end_as_well(tmp_path: Path, model_env: dict[str, str]) -> None:
    """A round of two trials costs two dollars. The second is cut off."""
    (tmp_path / "ask.py").write_text(ASK)
    ask = f"python3 '{tmp_path}/ask.py' && python3 '{tmp_path}/ask.py'"
    project = arena(tmp_path, tasks=1, gateway="builtin", base=ask, same=ask)
    project.more_env = model_env
    done = await asyncio.to_thread(project.run_here, "--until-decided", "--budget", "2.2", "--parallel", "2")
    assert done.returncode == 0, done.stderr
    assert "Undecided: same and base differ by +0.00 (on these tasks" in done.stdout
    assert "same vs base: round 1, difference +0.00 (" in done.stderr
    assert "round 2" not in done.stderr
    assert "the budget of the run is spent" in done.stderr
    assert f"--resume {project.latest.name}" in done.stderr


async def test_what_cannot_go_on_does_not_hold_up_the_others(tmp_path: Path, model_env: dict[str, str]) -> None:
    """The second question of `poor` is refused, and the commit of `wrong` does not exist."""
    bench = EngineBench(tmp_path)
    host = bench.host(model_env)
    (tmp_path / "ask.py").write_text(ASK)
    ask = f"python3 '{tmp_path}/ask.py'"
    budget = {"type": "builtin", "budget_per_agent_usd": 0.4}
    cells = (
        bench.cell(host, "base", "task", "exit 3"),
        bench.cell(host, "poor", "task", f"{ask} && {ask}", gateway=budget),
        bench.cell(host, "wrong", "task", commit="0" * 40),
        bench.cell(host, "good", "task"),
    )
    matrix = Matrix(cells=cells, trials=1, baselines=dict.fromkeys(("poor", "wrong", "good"), "base"))
    planned = plan_comparisons(matrix, margin=0.05)
    summary = await run_matrix(planned, host, bench.new_run(planned), MatrixOptions(parallel=4))
    assert [(comparison.first, comparison.verdict) for comparison in summary.comparisons] == [
        ("poor", "undecided"),
        ("wrong", "undecided"),
        ("good", "better"),
    ]
    assert (summary.complete, summary.ended) == (False, False)
    assert [(each.orchestrator, each.task) for each in summary.skipped] == [("wrong", "task")]
    assert summary.trials == len(summary.finished) + 2
