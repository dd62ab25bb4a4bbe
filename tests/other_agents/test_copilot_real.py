"""The real Copilot CLI against the scripted model, beyond the conformance kit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from copilot_bench import MODEL, copilot_bench, home_env, runs
from toolbox_agents import Bench, prompt_of, script

from youbencha.adapters.copilot_cli import CopilotCliAdapter
from youbencha.events import AssistantText, SessionStarted, ToolCalled, ToolReturned

pytestmark = [pytest.mark.real_cli, pytest.mark.full]

TOKENS = {"input_tokens": 1000, "output_tokens": 25, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 50}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return copilot_bench(tmp_path)


async def test_a_complete_session(bench: Bench) -> None:
    session = await bench.run(
        script({**runs("echo hello > hello.txt"), "text": "I write."}, {"text": "Done."}, usage=TOKENS)
    )
    result, log = session.result, session.log
    assert (result.status, result.errors, result.warnings) == ("success", (), ())
    assert (bench.directory / "workspace" / "hello.txt").read_text() == "hello\n"
    assert [message.content for message in log.messages] == ["Do what you are told.", "I write.", "Done."]
    (call,) = log.tool_calls
    assert (call.name, json.loads(call.arguments)["command"]) == ("bash", "echo hello > hello.txt")
    assert call.is_error is False
    assert (log.model_info.name, log.model_info.provider, log.turns) == (MODEL, "anthropic", 2)
    assert log.usage is not None
    assert log.usage.model_dump(exclude_none=True) == {
        "input_tokens": 2000,
        "output_tokens": 50,
        "total_tokens": 3550,
        "cache_read_tokens": 1400,
        "cache_creation_tokens": 100,
        "partial": False,
    }
    assert log.session_id
    seen = [type(event) for event in session.events]
    assert seen.count(SessionStarted) == 1
    assert seen.index(AssistantText) < seen.index(ToolCalled) < seen.index(ToolReturned)
    assert any(path.name.startswith("process-") for path in (bench.directory / "artifacts" / "copilot-logs").iterdir())
    assert [path.name for path in (bench.directory / "workspace").iterdir()] == ["hello.txt"]


async def test_usage_of_a_session_that_was_cut_off(bench: Bench) -> None:
    hang = {"hang": True, "text": "..."}
    session = await bench.cut_off(script({**runs("true"), "text": "One."}, hang, usage=TOKENS), 10_000)
    assert (session.result.status, session.codes()) == ("timeout", ["COPILOT_TIMEOUT"])
    assert session.log.usage is not None
    assert (session.log.usage.input_tokens, session.log.usage.partial) == (1000, True)
    assert session.log.session_id


async def test_a_prompt_too_long_for_an_argument(bench: Bench) -> None:
    prompt = "-- " + "long " * 40_000 + "end"
    session = await bench.run(script({"text": "Read."}), prompt=prompt)
    assert session.result.status == "success", session.result.errors
    assert prompt_of(session.requests[0]) == prompt


async def test_an_agent_of_the_repository(bench: Bench) -> None:
    agents = bench.directory / "workspace" / ".github" / "agents"
    agents.mkdir(parents=True)
    (agents / "reviewer.agent.md").write_text("---\nname: reviewer\ndescription: reviews\n---\nYou are KIT-REVIEWER.\n")
    session = await bench.run(script({"text": "Reviewed."}), agent_name="reviewer")
    assert session.result.status == "success", session.result.errors
    assert "KIT-REVIEWER" in json.dumps(session.requests[0].body["system"])


@pytest.mark.parametrize("place", ["project/.github/agents", "persons-home/.copilot/agents"])
async def test_an_agent_from_outside_the_repository(bench: Bench, place: str) -> None:
    """Beside the test case or above it, or in the user's home, which the agent does not see."""
    cases = bench.directory / "project" / "cases"
    (bench.directory / "project" / ".git").mkdir(parents=True)
    cases.mkdir()
    agents = bench.directory / place
    agents.mkdir(parents=True)
    (agents / "reviewer.agent.md").write_text("---\nname: reviewer\ndescription: reviews\n---\nYou are KIT-REVIEWER.\n")
    bench.adapter = CopilotCliAdapter(env={**home_env(bench.directory), "HOME": str(bench.directory / "persons-home")})
    bench.variables = {**bench.variables, "HOME": str(bench.directory / "home")}
    session = await bench.run(script({"text": "Reviewed."}), config_dir=cases, agent_name="reviewer")
    assert session.result.status == "success", session.result.errors
    assert "KIT-REVIEWER" in json.dumps(session.requests[0].body["system"])
    assert list((bench.directory / "workspace").iterdir()) == []


async def test_an_invalid_definition_does_not_hide_another(bench: Bench) -> None:
    """A link that leads out of the repository, or a pipe."""
    agents, cases = bench.directory / "workspace" / ".github" / "agents", bench.directory / "cases"
    (cases / ".github" / "agents").mkdir(parents=True)
    agents.mkdir(parents=True)
    (agents / "reviewer.md").symlink_to("/etc/hostname")
    os.mkfifo(cases / ".github" / "agents" / "reviewer.agent.md")
    text = "---\nname: reviewer\ndescription: reviews\n---\nYou are KIT-REVIEWER.\n"
    (cases / ".github" / "agents" / "reviewer.md").write_text(text)
    session = await bench.run(script({"text": "Reviewed."}), config_dir=cases, agent_name="reviewer")
    assert session.result.status == "success", session.result.errors
    assert "KIT-REVIEWER" in json.dumps(session.requests[0].body["system"])


async def test_an_unknown_agent(bench: Bench) -> None:
    session = await bench.run(script({"text": "Never said."}), agent_name="nosuch")
    assert (session.result.status, session.codes(), session.requests) == ("failed", ["COPILOT_EXECUTION_ERROR"], [])


async def test_a_rejected_key(bench: Bench) -> None:
    session = await bench.run(script({"error": {"status": 401, "message": "no"}, "times": "forever"}))
    assert (session.result.status, session.codes()) == ("failed", ["COPILOT_AUTH_FAILED"])


async def test_tools_that_are_not_allowed(bench: Bench) -> None:
    session = await bench.run(script(runs("touch no.txt"), {"text": "Done."}), allow_all_tools=False)
    assert session.result.status == "success"
    assert [warning.code for warning in session.result.warnings] == ["COPILOT_TOOL_DENIED"]
    assert not (bench.directory / "workspace" / "no.txt").exists()
