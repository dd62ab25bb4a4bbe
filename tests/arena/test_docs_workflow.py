"""The workflow of docs/compare.md, step by step: it answers the question of a pull request."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from ruamel.yaml import YAML
from workflow_bench import Github, printed, with_program, with_real_cli

from agent_clis import OLD
from claude_bench import full, says, script, uses, versions
from yb import run_here
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel
from youbencha.user_dirs import TOOLBOX_VARIABLE, toolbox_dir

GOOD, GOOD_TOO, BAD = "Always answer with 42.\n", "You always answer with 42.\n", "Be brief.\n"
MODEL = script(
    says("Done."),
    after="repeat-last",
    conversations=[
        {
            "when": {"user_contains": "answer with 42"},
            "turns": [uses("Write", file_path="${cwd}/answer.py", content="ANSWER = 42\n"), says("Done.")],
        }
    ],
)
"""It solves a task if the instructions say how."""


def files(instructions: str) -> dict[str, str]:
    return {"CLAUDE.md": instructions, "given/CLAUDE.md": instructions}


def started(output: str) -> int:
    """How many trials a job ran, by its lines."""
    return output.count(": solved, score") + output.count(": unsolved, score")


def check_pull_requests(github: Github, arena: str) -> None:
    github.commit({**files(GOOD), "bench/thunderdome.yaml": arena})
    merged = github.run("push", "main")
    assert (merged.code, started(merged.output)) == (0, 2 * 2 * 2), merged.output
    assert (github.root / "pip.log").read_text() == "install youbencha\n"

    github.commit(files(BAD), "worse")
    worse = github.run("pull_request", "worse")
    assert (worse.code, started(worse.output)) == (1, 2 * 2), worse.output
    assert "::error title=yb compare --fail-if worse::failed by score and solved: sonnet+pr against" in worse.output
    assert (worse.home / "work/shop/bench/compare.xml").is_file()

    again = github.run("pull_request", "worse")
    assert (again.code, started(again.output)) == (1, 0), "everything was reused, although the gate had failed"

    github.commit(files(GOOD_TOO), "as-good")
    passed = github.run("pull_request", "as-good")
    assert (passed.code, started(passed.output)) == (0, 2 * 2), passed.output
    assert "::notice title=yb compare --fail-if worse::passed: sonnet+pr against sonnet+main: " in passed.output
    assert "sonnet+pr is better than sonnet by 1.00" in passed.output, "and it helps"

    assert github.run("pull_request", "as-good", fork=True).code is None


@versions(OLD)
def test_a_pull_request_is_compared_with_main(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    github = Github(tmp_path, {TOOLBOX_VARIABLE: str(toolbox_dir())})
    check_pull_requests(github, with_program(printed("orchestrators")))


@versions(full(OLD))
async def test_a_pull_request_is_compared_with_main_by_the_real_cli(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    async with ScriptedModel(MODEL) as model:
        github = Github(tmp_path, {"ANTHROPIC_BASE_URL": model.url, TOOLBOX_VARIABLE: str(toolbox_dir())})
        await asyncio.to_thread(check_pull_requests, github, with_real_cli(printed("orchestrators")))


def test_the_arena_is_right_as_it_is_printed(tmp_path: Path) -> None:
    """A dry run needs no containers, keys or agents: files, tags and budgets are checked."""
    github = Github(tmp_path, {})
    github.commit({"CLAUDE.md": GOOD, "bench/nothing": ""})
    (tmp_path / "main").mkdir()
    (tmp_path / "main" / "CLAUDE.md").write_text(BAD)
    with (github.upstream / "bench" / "thunderdome.yaml").open("w") as file:
        YAML().dump(printed("orchestrators"), file)
    home = str(tmp_path / "home")
    done = run_here(("bench", "run", "--dry-run", "--json"), cwd=github.upstream / "bench", env={"HOME": home})
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert {each["name"]: each["baseline"] for each in plan["orchestrators"]} == {
        "sonnet": "sonnet+main",
        "sonnet+main": None,
        "sonnet+pr": "sonnet+main",
    }
    assert (plan["trials"], plan["worst_case_usd"]) == (30, 30)
    assert plan["orchestrators"][0]["version"] == OLD
