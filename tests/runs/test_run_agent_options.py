"""`yb run --agent TYPE[@VERSION] --model NAME`: the same test case, another agent, another model."""

from __future__ import annotations

import json

import pytest
from run_bench import RunBench

from agent_clis import NEWEST
from claude_bench import bash, says, script, versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel


@versions(NEWEST)
async def test_the_chosen_agent_and_model_run(runs: RunBench, claude_cli: InstalledAgent) -> None:
    async with ScriptedModel(script(bash("echo done > done.txt"), says("Done."))) as model:
        written = runs.claude(claude_cli, model) | {"type": "codex", "version": "0.1.2", "model": "gpt-of-the-file"}
        done = await runs.run(written, "--agent", "claude-code", "--model", "claude-sonnet-4-5")
    assert done.done.code == 0, done.done.err
    assert (done.tree / "done.txt").read_text() == "done\n"
    assert done.bundle.agent is not None
    assert (done.bundle.agent.type, done.bundle.agent.model) == ("claude-code", "claude-sonnet-4-5")
    assert {request.body["model"] for request in model.requests if request.kind == "turn"} == {"claude-sonnet-4-5"}


async def test_the_plan_and_its_hash_reflect_the_options(runs: RunBench) -> None:
    file = str(runs.write_case({"type": "codex", "model": "m", "config": {"prompt": "Work."}}))
    plans = [
        json.loads((await runs.yb("run", "-c", file, "--dry-run", "--json", *options)).out)
        for options in ([], ["--agent", "opencode@1.2.3"], ["--model", "n"])
    ]
    assert [(plan["agent"], plan["agent_version"], plan["model"]) for plan in plans] == [
        ("codex", None, "m"),
        ("opencode", "1.2.3", "m"),
        ("codex", None, "n"),
    ]
    assert len({plan["config_hash"] for plan in plans}) == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--agent", "codx"], "'codex'"),
        (["--agent", "codex@"], "--agent codex@"),
        (["--model", "-x"], "OPTION_INVALID"),
        (["--model", "two words"], "OPTION_INVALID"),
        (["--agent", "command"], "agent.config"),
    ],
)
async def test_invalid_options(runs: RunBench, options: list[str], says: str) -> None:
    file = str(runs.write_case({"type": "codex", "config": {"prompt": "Work."}}))
    done = await runs.yb("run", "-c", file, "--dry-run", *options)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
