"""A loop whose model does not exist is refused before its first iteration."""

from __future__ import annotations

import asyncio

import pytest
from claude_loop import DONE, ClaudeLoop

from agent_clis import NEWEST
from claude_bench import API_KEY, ClaudeBench, says, script, versions
from systems import posix_only
from yb import run_here
from youbencha.scripted_model import ScriptedModel

pytestmark = posix_only("a console of Windows changes what a program prints")


@pytest.fixture
def loop(claude: ClaudeBench) -> ClaudeLoop:
    return ClaudeLoop(claude)


@versions(NEWEST)
async def test_an_unknown_model(loop: ClaudeLoop) -> None:
    served = script(says(f"Done.\n\n{DONE}"), models=["claude-opus-5-5"])
    event_loop = {"escalation": [{"model": "claude-opus-5"}], "checkpoint_interval": 0}
    loop.configure(cli={"backend": "claude", "model": "claude-opus-5-5"}, event_loop=event_loop)
    async with ScriptedModel(served) as model:
        env = {**loop.env, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}

        async def ralph(*options: str) -> tuple[int, str]:
            done = await asyncio.to_thread(run_here, ("loop", "run", "-a", *options), cwd=loop.tree, env=env)
            return done.returncode, done.stderr

        refused = await ralph()
        continued = await ralph("--continue")
        assert {request.method for request in model.requests} == {"GET"}
    assert refused[0] == 2
    assert "does not know the model claude-opus-5 (did you mean 'claude-opus-5-5'?)" in refused[1]
    assert "[NO_LOOP]" in continued[1], "nothing is left of it"
