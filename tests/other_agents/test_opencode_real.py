"""The real opencode against the scripted model, beyond the conformance kit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from opencode_bench import MODEL, opencode_bench, runs
from toolbox_agents import Bench, script

pytestmark = [pytest.mark.real_cli, pytest.mark.full]

TOKENS = {"input_tokens": 1000, "output_tokens": 25, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 50}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return opencode_bench(tmp_path)


async def test_session_in_a_repository_with_another_base_url(bench: Bench) -> None:
    """Its `opencode.json` must not lead the key to another address."""
    workspace = bench.directory / "workspace"
    workspace.mkdir()
    elsewhere = {"provider": {"anthropic": {"options": {"baseURL": "http://127.0.0.1:9/v1"}}}}
    (workspace / "opencode.json").write_text(json.dumps(elsewhere))
    session = await bench.run(script(runs("echo hello > hello.txt"), {"text": "Done."}, usage=TOKENS), timeout=120_000)
    result, log = session.result, session.log
    assert (result.status, result.errors, result.warnings) == ("success", (), ())
    assert (workspace / "hello.txt").read_text() == "hello\n"
    assert [message.content for message in log.messages] == ["Do what you are told.", "Done."]
    assert [(call.name, call.is_error) for call in log.tool_calls] == [("bash", False)]
    assert (log.model_info.name, log.model_info.provider, log.turns) == (MODEL, "anthropic", 2)
    assert log.usage is not None
    assert (log.usage.input_tokens, log.usage.output_tokens, log.usage.cache_read_tokens) == (2000, 50, 1400)
    assert log.usage.cost_source == "agent"
    assert [request.kind for request in session.requests] == ["turn", "turn"]  # no request for a title
    assert sorted(path.name for path in workspace.iterdir()) == ["hello.txt", "opencode.json"]


async def test_the_model_that_it_chooses_itself(bench: Bench) -> None:
    bench.model = None
    session = await bench.run(script(runs("true"), {"text": "Done."}), timeout=120_000)
    asked = {request.body["model"] for request in session.requests}
    assert (session.result.status, asked) == ("success", {session.log.model_info.name})
    assert session.log.model_info.provider == "anthropic"


async def test_an_unknown_agent(bench: Bench) -> None:
    session = await bench.run(script({"text": "Said by another."}), agent_name="nosuch", timeout=120_000)
    assert (session.result.status, session.codes()) == ("failed", ["OPENCODE_EXECUTION_ERROR"])


async def test_a_provider_without_a_key(bench: Bench) -> None:
    bench.model = "openai/gpt-5"
    session = await bench.run(script({"text": "Never said."}), timeout=120_000)
    assert (session.result.status, session.codes(), session.requests) == ("failed", ["OPENCODE_API_ERROR"], [])
    assert "Model not found" in session.result.errors[0].message
