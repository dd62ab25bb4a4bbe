"""Agents other than Claude Code and the faults of a provider, behind the gateway: none is the agent's."""

from __future__ import annotations

from typing import Any

import pytest
from run_bench import RunBench

from claude_bench import API_KEY, script
from toolbox_tools import installed
from youbencha.scripted_model import ScriptedModel
from youbencha.user_dirs import toolbox_dir

pytestmark = pytest.mark.full

TOOLBOX = str(toolbox_dir())
MODELS = {
    "gemini-cli": "gemini-2.5-pro",
    "opencode": "anthropic/claude-sonnet-4-5",
    "aider": "anthropic/claude-sonnet-4-5",
}
CUT = {"text": "I was about to say something longer.", "drop": {"after_events": 3}}
FAULTS: dict[str, dict[str, Any]] = {
    "an error": {"error": {"status": 500}},
    "a rate limit": {"error": {"status": 429}},
    "an answer that is cut off": CUT,
    "a stream that ends early": {**CUT, "drop": {"after_events": 3, "clean": True}},
    "no answer": {"hang": True, "text": "..."},
}
UNSOLVED = [{"name": "command", "config": {"command": "false", "shell": True}}]


@pytest.mark.parametrize("agent", MODELS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
async def test_a_fault_of_the_provider_is_not_the_agents(runs: RunBench, agent: str, fault: dict[str, Any]) -> None:
    """Most of them try again until their time is up."""
    given = {
        "type": agent,
        "model": MODELS[agent],
        "config": {"prompt": "Do it.", "version": installed(agent).version},
        "env": {"OPENCODE_DISABLE_MODELS_FETCH": "1"},
    }
    answers = script({**fault, "times": "forever"}, tools_optional=agent == "aider")
    async with ScriptedModel(answers) as model:
        env = {
            "YOUBENCHA_TOOLBOX": TOOLBOX,
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": API_KEY,
            "GOOGLE_GEMINI_BASE_URL": model.url,
            "GEMINI_API_KEY": API_KEY,
        }
        for timeout_ms in (20_000, 60_000):  # a CLI that starts slowly has hardly asked
            done = await runs.run(given, env=env, evaluators=UNSOLVED, gateway="builtin", timeout=timeout_ms)
            assert done.bundle.outcome is not None
            if done.bundle.outcome.name != "limit":
                break
    assert model.requests
    assert (done.bundle.outcome.name, done.bundle.outcome.valid) == ("provider_error", False), done.bundle.outcome
