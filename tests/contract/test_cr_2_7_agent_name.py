"""CR-2.7, FR-008: a custom agent is really the one that works; never silently another."""

from __future__ import annotations

import pytest
from wrapped_cli import system_of

from agent_clis import NEWEST, OLD, OLDEST
from claude_lab import ClaudeLab, says, script, versions
from youbencha.errors import ConfigError

AGENT = """---
name: code-reviewer
description: Reviews code
model: claude-haiku-4-5-20251001
tools: Read, Grep
---
You are REVIEWER-7f3a. You look, and never touch.
"""


def define(lab: ClaudeLab, place: str = "workspace") -> None:
    agents = (lab.workspace if place == "workspace" else lab.home) / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "code-reviewer.md").write_text(AGENT)


@versions(NEWEST)  # the older ones are refused, see below
@pytest.mark.parametrize("place", ["workspace", "home"])
async def test_cr_2_7_fr_008_the_agents_prompt_and_model_are_on_the_wire(lab: ClaudeLab, place: str) -> None:
    define(lab, place)
    session = await lab.run(script(says("Reviewed.")), config={"agent_name": "code-reviewer"})
    assert session.result.status == "success", session.result.errors
    request = session.main_requests[0]
    assert "REVIEWER-7f3a" in system_of(request)
    assert request.body["model"] == "claude-haiku-4-5-20251001"


@versions(OLD, OLDEST)  # 2.0.62 has a flag of that name, but takes only the model from the definition
async def test_cr_2_7_a_cli_without_agents_is_refused_with_the_version_needed(lab: ClaudeLab) -> None:
    define(lab)
    async with lab.model(script(says("never"))) as model:
        with pytest.raises(ConfigError) as caught:
            await lab.adapter().execute(lab.context(model, config={"agent_name": "code-reviewer"}))
        assert model.requests == []
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    assert "2.1.9 or later" in str(caught.value)


@versions(NEWEST)  # the older ones are refused for their age, see above
async def test_cr_2_7_an_undefined_agent_is_an_error_that_names_the_places(lab: ClaudeLab) -> None:
    async with lab.model(script(says("never"))) as model:
        with pytest.raises(ConfigError) as caught:
            await lab.adapter().execute(lab.context(model, config={"agent_name": "nobody"}))
        assert model.requests == []
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    for place in (".claude/agents of the repository", str(lab.home / ".claude" / "agents")):
        assert place in str(caught.value)
