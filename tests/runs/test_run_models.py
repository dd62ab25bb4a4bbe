"""A model that does not exist is an error in the configuration, found before a run costs anything."""

from __future__ import annotations

from run_bench import RunBench

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, says, script, versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

KNOWN = ["claude-fable-9", "claude-haiku-4-5-20251001"]


@versions(NEWEST)
async def test_an_unknown_model(runs: RunBench, claude_cli: InstalledAgent) -> None:
    """Of the agent and of the judge; nothing is requested from a model, and nothing left behind."""
    config = {"prompt": "Do it.", "executable": str(claude_cli.executable)}
    judge = {"type": "claude-code", "model": "claude-haiku-9", "assertions": {"good": "it is good"}}
    async with ScriptedModel(script(says("done"), models=KNOWN, require_key=API_KEY)) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        case = runs.write_case(
            {"type": "claude-code", "model": "claude-fabel-9", "config": config, "env": {"IS_SANDBOX": "1"}},
            evaluators=[{"name": "agentic-judge", "config": judge}],
        )
        planned = await runs.yb("run", "-c", str(case), "--dry-run", env=env)
        valid = await runs.yb("validate", "-c", str(case), env=env)
        assert (planned.code, valid.code, model.requests) == (0, 0, [])
        done = await runs.yb("run", "-c", str(case), env=env)
    assert done.code == 2
    assert "[MODEL_UNUSABLE]" in done.err
    assert f"claude-code: {env['ANTHROPIC_BASE_URL']} does not know the model claude-fabel-9" in done.err
    assert "did you mean 'claude-fable-9'?" in done.err
    assert "agentic-judge" in done.err
    assert {request.method for request in model.requests} == {"GET"}
    assert runs.runs() == []


@versions(NEWEST, OLD)
async def test_an_alias_of_an_unknown_model(runs: RunBench, claude_cli: InstalledAgent) -> None:
    """Only the CLI knows what it stands for. The older one requests a haiku that exists before its sonnet."""
    config = {"prompt": "Do it.", "executable": str(claude_cli.executable)}
    async with ScriptedModel(script(says("done"), models=KNOWN)) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        runs.write_case({"type": "claude-code", "model": "sonnet", "config": config, "env": {"IS_SANDBOX": "1"}})
        done = await runs.yb("run", "-c", str(runs.case_file), env=env)
    assert done.code == 2
    assert "[MODEL_UNUSABLE]" in done.err
    assert ", which `sonnet` stands for (404)" in done.err
    assert runs.runs() == []
