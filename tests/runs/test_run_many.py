"""`yb run` with several test cases, models and trials: all run, with one table, one JUnit file and one exit code."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from run_bench import RunBench

from youbencha.store.arena import TrialMeta

EDIT = "echo 'TAX = 0.2' > src/prices.py"
ONE_FILE = [{"name": "git-diff", "config": {"assertions": {"max_files_changed": 0}}}]


def write(runs: RunBench, file: str, program: str = EDIT, **more: Any) -> str:
    path = runs.root / file
    path.parent.mkdir(exist_ok=True)
    case = {"repo": str(runs.repository), "agent": runs.program(program), "evaluators": ["git-diff"], **more}
    path.write_text(json.dumps(case))
    return str(path)


def metas(runs: RunBench) -> dict[str, TrialMeta]:
    """By their directories, such as `command/a/trial-1`."""
    run = (runs.workspace / "bench" / "latest").resolve()
    return {
        str(file.parent.relative_to(run / "trials")): TrialMeta.model_validate_json(file.read_bytes())
        for file in run.glob("trials/*/*/*/meta.json")
    }


async def test_a_second_test_case_does_not_replace_the_first(runs: RunBench) -> None:
    junit = runs.root / "report.xml"
    done = await runs.yb(
        *("run", "-c", write(runs, "a.json"), "-c", write(runs, "b.json", name="The second: b")),
        *("--trials", "2", "--parallel", "2", "--junit", str(junit)),
    )
    assert done.code == 0, done.err
    found = metas(runs)
    assert set(found) == {f"command/{task}/trial-{n}" for task in ("a", "The-second-b") for n in (1, 2)}
    for meta in found.values():
        assert (meta.outcome, meta.valid, meta.composite_score) == ("solved", True, 1.0)
        assert meta.identity is not None
        assert meta.identity.task_commit == runs.git("rev-parse", "HEAD")
    run = (runs.workspace / "bench" / "latest").resolve()
    assert "+TAX = 0.2" in (run / "trials/command/a/trial-1/diff.patch").read_text()
    assert "4 of 4 trials finished" in done.out
    assert "command" in done.out
    listed = await runs.yb("runs")
    assert listed.out == f"1 run of several trials; the newest: `yb report --from {run} -o -`\n"
    suites = ElementTree.parse(junit).getroot()
    assert [suite.get("name") for suite in suites] == ["youbencha.command"]
    names = {case.get("name") for case in suites.iter("testcase")}
    assert names == {f"{task} trial {number}" for task in ("a", "The-second-b") for number in (1, 2)}
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("4", "0", "0")


async def test_the_exit_code_is_0_only_if_all_passed(runs: RunBench) -> None:
    junit = runs.root / "report.xml"
    good, bad = write(runs, "good.json"), write(runs, "bad.json", evaluators=ONE_FILE)
    done = await runs.yb("run", "-c", good, "-c", bad, "--json", "--junit", str(junit))
    assert done.code == 1, done.err
    document = json.loads(done.out)
    assert {(row["task"], row["outcome"]) for row in document["results"]} == {("good", "solved"), ("bad", "unsolved")}
    assert (document["complete"], document["not_valid"]) == (True, 0)
    root = ElementTree.parse(junit).getroot()
    assert [(case.get("name"), [child.tag for child in case]) for case in root.iter("testcase")] == [
        ("bad trial 1", ["failure"]),
        ("good trial 1", []),
    ]


async def test_a_directory_of_test_cases(runs: RunBench) -> None:
    write(runs, "cases/b.json")
    write(runs, "cases/a.json")
    (runs.root / "cases" / "other.yaml").write_text("directory: .\n")
    (runs.root / "cases" / "README.md").write_text("# Cases\n")
    done = await runs.yb("run", "-c", "cases", "--dry-run", "--json")
    assert done.code == 0, done.err
    assert [task["id"] for task in json.loads(done.out)["tasks"]] == ["a", "b"]
    assert "cases/other.yaml is not a test case, and is skipped" in done.err
    assert "README" not in done.err
    assert not runs.workspace.exists()
    done = await runs.yb("run", "-c", "cases")
    assert done.code == 0, done.err
    assert set(metas(runs)) == {"command/a/trial-1", "command/b/trial-1"}


async def test_a_dry_run_names_what_has_no_cost_limit(runs: RunBench) -> None:
    """Only a judge has a cost; a second evaluator of another kind does not."""
    judge = {"name": "agentic-judge", "config": {"type": "claude-code", "assertions": ["It is good."]}}
    for evaluators, what in ((["git-diff", *ONE_FILE], "command"), ([judge], "the judge of a")):
        done = await runs.yb(
            "run", "-c", write(runs, "a.json", evaluators=evaluators), "--trials", "2", "--dry-run", "--json"
        )
        assert done.code == 0, done.err
        assert json.loads(done.out)["worst_case_reason"].startswith(f"nothing limits {what}:")


async def test_models_and_agents_can_be_repeated(runs: RunBench) -> None:
    agents = ("--agent", "command", "--agent", "command", "--model", "small", "--model", "vendor/large")
    done = await runs.yb("run", "-c", write(runs, "a.json"), *agents)
    assert done.code == 0, done.err
    assert set(metas(runs)) == {"command+small/a/trial-1", "command+vendor-large/a/trial-1"}


async def test_a_single_trial_is_a_run_as_ever(runs: RunBench) -> None:
    junit = runs.root / "report.xml"
    options = ("--agent", "command", "--model", "small", "--trials", "1", "--parallel", "4", "--junit", str(junit))
    done = await runs.run(runs.program(EDIT), *options)
    assert done.done.code == 0, done.done.err
    assert done.artifacts.parent.parent == runs.workspace
    assert not (runs.workspace / "bench").exists()
    names = [case.get("name") for case in ElementTree.parse(junit).getroot().iter("testcase")]
    assert names == ["agent command", "git-diff"]


async def test_workspaces_are_removed_on_request(runs: RunBench) -> None:
    done = await runs.yb("run", "-c", write(runs, "a.json"), "--trials", "2", "--delete-workspace")
    assert done.code == 0, done.err
    attempts = list((runs.workspace / "bench" / "runs").glob("*/trials/*/*/*/attempts/1"))
    assert len(attempts) == 2
    for attempt in attempts:
        assert (attempt / "artifacts" / "results.json").is_file()
        assert not (attempt / "src-modified").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-c", "a.json", "-c", "b.json", "--replay", "tape"), "need a single test case"),
        (("-c", "a.json", "-c", "same.json"), "Two test cases have the name a:"),
        (("-c", "empty"), "There is no test case in empty."),
        (("-c", "a.json", "-c", "nowhere.json"), "nowhere.json"),
        (("-c", "a.json", "-c", "bad-1.json", "-c", "bad-2.json"), "The test cases have 2 problems:"),
        (("-c", "a.json", "-c", "b.json", "--resume", "latest"), "There is no run in"),
        (("-c", "a.json", "-c", "b.json", "--agent", "nobody"), "nobody"),
    ],
)
async def test_mistakes(runs: RunBench, options: tuple[str, ...], message: str) -> None:
    write(runs, "a.json")
    write(runs, "b.json")
    write(runs, "same.json", name="a")
    write(runs, "bad-1.json", timeoutt=1)
    write(runs, "bad-2.json", evaluators=["nothing"])
    (runs.root / "empty").mkdir()
    done = await runs.yb("run", *options)
    assert done.code == 2
    assert message in done.err
    assert not list(runs.workspace.glob("bench/runs/*/trials"))


async def test_ctrl_c_drains_and_the_rest_can_be_resumed(runs: RunBench) -> None:
    """The running trial ends as usual; nothing that is finished runs again."""
    gate = runs.root / "gate"
    program = (
        f"echo x >> '{runs.root}/count'; touch '{runs.root}/started'; "
        f"while [ ! -e '{gate}' ]; do sleep 0.05; done; {EDIT}"
    )
    case = write(runs, "a.json", program)
    process = await runs.start("run", "-c", case, "--trials", "3")
    async with asyncio.timeout(120):
        while not (runs.root / "started").exists():
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while b"no further trials are started" not in await process.stderr.readline():
            pass
        gate.touch()
        _, err = await process.communicate()
    assert process.returncode == 130
    assert b"continue with: the same options and --resume" in err
    assert set(metas(runs)) == {"command/a/trial-1"}
    done = await runs.yb("run", "-c", case, "--trials", "3", "--resume", "latest")
    assert done.code == 0, done.err
    assert set(metas(runs)) == {f"command/a/trial-{n}" for n in (1, 2, 3)}
    assert (runs.root / "count").read_text() == "x\n" * 3
    assert len(list((runs.workspace / "bench" / "runs").iterdir())) == 1
    Path(case).write_text(Path(case).read_text().replace("0.2", "0.3"))
    done = await runs.yb("run", "-c", case, "--trials", "3", "--resume", "latest")
    assert done.code == 2
    assert "its configuration has changed since it began" in done.err
    assert "--reuse" not in done.err, "an option of `thunderdome run` alone"


async def test_files_for_the_agent_are_the_same_in_all_trials(runs: RunBench) -> None:
    """The first trial changes them, as a user would who continues to work."""
    (runs.root / "for-agents").mkdir()
    (runs.root / "for-agents" / "note.txt").write_text("a note\n")
    agent = {**runs.program(f"echo more >> '{runs.root}/for-agents/note.txt'"), "files": "for-agents"}
    case = write(runs, "a.json", agent=agent)
    done = await runs.yb("run", "-c", case, "--trials", "2")
    assert done.code == 1, done.err
    assert "The files of command have changed since the run began." in done.err
    assert set(metas(runs)) == {"command/a/trial-1"}
    done = await runs.yb("run", "-c", case, "--trials", "2", "--resume", "latest")
    assert done.code == 2
    assert "command on a: the agent, its files" in done.err


async def test_reports(runs: RunBench) -> None:
    write(runs, "a.json")
    write(runs, "b.json", evaluators=ONE_FILE)
    assert (await runs.yb("run", "-c", "a.json", "-c", "b.json")).code == 1
    run = (runs.workspace / "bench" / "latest").resolve()
    printed = await runs.yb("report", "--format", "json", "--output", "-")
    assert printed.code == 0, printed.err
    assert {trial["task"] for trial in json.loads(printed.out)["trials"]} == {"a", "b"}
    for source in (run, runs.workspace, runs.workspace / "bench", runs.root):
        junit = await runs.yb("report", "--from", str(source), "--format", "junit", "--output", "-")
        assert junit.code == 0, junit.err
        assert ElementTree.fromstring(junit.out).get("failures") == "1"
    written = await runs.yb("report", "--from", str(run))
    assert written.out.strip() == str(run / "report.md")
    assert "| command |" in (run / "report.md").read_text()
    await asyncio.sleep(1.1)  # the names of runs have seconds
    later = await runs.run(runs.program(EDIT))
    assert (await runs.yb("report")).out.strip() == str(later.artifacts / "report.md")
