"""Runs of real agents behind a real LiteLLM, and of Aider without one: every token is counted."""

from __future__ import annotations

from typing import Any

import pytest
from run_bench import Outcome, RunBench

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, bash, says, script, versions
from toolbox_tools import installed
from youbencha.log.model import Usage
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

TOKENS = {"input_tokens": 1000, "output_tokens": 25, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 50}
EDIT = "src/prices.py\n```\n<<<<<<< SEARCH\nTAX = 0.19\n=======\nTAX = 0.2\n>>>>>>> REPLACE\n```\n"
MODEL = "claude-sonnet-4-5"
SIDE = (8, 1)
"""Tokens in and out that the scripted model gives for what an agent asks on the side, besides the cached ones."""

pytestmark = [pytest.mark.real_cli, pytest.mark.full]


def of(kind: str) -> dict[str, Any] | str:
    if kind == "builtin":
        return "builtin"
    started = {"executable": str(installed("litellm").executable), "startup_timeout_s": 180}
    return {"type": "litellm", "litellm": started}


async def run(runs: RunBench, agent: dict[str, Any], answers: Any, gateway: Any) -> tuple[Outcome, ScriptedModel]:
    async with ScriptedModel(answers) as model:
        keys = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        return await runs.run(agent, env=keys, gateway=gateway), model


def metered(done: Outcome, kind: str) -> Usage:
    assert done.done.code == 0, done.done.out + done.done.err
    assert "+TAX = 0.2\n" in done.diff
    assert done.bundle.agent is not None
    report = done.bundle.agent.gateway
    assert report is not None
    assert report.type == kind
    assert report.usage is not None
    assert not report.usage.partial
    return report.usage


def sent_by(model: ScriptedModel) -> tuple[int, int]:
    """Turns, and what else the agent asked on the side, which the script answers in the same way."""
    kinds = [request.kind for request in model.requests if request.path.startswith("/v1/messages")]
    assert {request.headers["x-api-key"] for request in model.requests} == {API_KEY}
    return kinds.count("turn"), kinds.count("side")


@versions(NEWEST, OLD)
async def test_claude_code_behind_litellm(runs: RunBench, claude_cli: InstalledAgent) -> None:
    config = {"prompt": "Fix the tax.", "executable": str(claude_cli.executable)}
    agent = {"type": "claude-code", "model": MODEL, "config": config, "env": {"IS_SANDBOX": "1"}}
    done, model = await run(
        runs, agent, script(bash("echo 'TAX = 0.2' > src/prices.py"), says("Done."), usage=TOKENS), of("litellm")
    )
    usage = metered(done, "litellm")
    turns, side = sent_by(model)
    assert turns == 2
    assert (usage.input_tokens, usage.output_tokens) == (1000 * turns + SIDE[0] * side, 25 * turns + SIDE[1] * side)
    assert (usage.cache_read_tokens, usage.cache_creation_tokens) == (700 * (turns + side), 50 * (turns + side))


@pytest.mark.parametrize("kind", ["builtin", "litellm"])
async def test_aider(runs: RunBench, kind: str) -> None:
    config = {"prompt": "Fix the tax.", "executable": str(installed("aider").executable), "files": ["src/prices.py"]}
    agent = {"type": "aider", "model": f"anthropic/{MODEL}", "config": config}
    answers = script(says(EDIT), usage=TOKENS, tools_optional=True)
    done, model = await run(runs, agent, answers, of(kind))
    usage = metered(done, kind)
    assert sent_by(model) == (1, 0)
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_creation_tokens)
    assert counts == (1000, 25, 700, 50)
    assert usage.cost_source == "gateway"
