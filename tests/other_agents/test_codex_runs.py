"""The real Codex, beyond the conformance kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from codex_bench import codex_bench, runs
from toolbox_agents import Bench, script

from youbencha.events import AssistantText, ToolCalled

pytestmark = [pytest.mark.real_cli, pytest.mark.full]

USAGE = {
    "input_tokens": 600,
    "cache_read_input_tokens": 1400,
    "cache_creation_input_tokens": 7,
    "output_tokens": 50,
    "reasoning_tokens": 10,
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return codex_bench(tmp_path)


async def test_a_complete_session(bench: Bench) -> None:
    turns = ({"thinking": "Hm.", "text": "I write.", **runs("echo hello > hello.txt; echo out")}, {"text": "Done."})
    done = await bench.run(script(*turns, usage=USAGE))
    assert done.result.status == "success", done.result.errors
    assert (bench.directory / "workspace" / "hello.txt").read_text() == "hello\n"
    assert [message.content for message in done.log.messages][1:] == ["I write.", "Done."]
    (call,) = done.log.tool_calls
    assert (call.name, call.result, call.is_error) == ("command_execution", "out\n", False)
    assert "echo hello" in call.arguments
    usage = done.log.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.partial) == (1200, 100, False)
    assert (usage.cache_read_tokens, usage.cache_creation_tokens) == (2800, 14)
    assert (done.log.model_info.name, done.log.model_info.provider, done.log.turns) == ("gpt-5-codex", "openai", 2)
    (notice,) = done.result.warnings
    assert (notice.code, "Model metadata" in notice.message) == ("CODEX_NOTICE", True)  # it does not know this model
    assert [type(event) for event in done.events if isinstance(event, AssistantText | ToolCalled)] == [
        AssistantText, ToolCalled, AssistantText,
    ]  # fmt: skip
    assert {request.wire for request in done.requests} == {"openai-responses"}


async def test_apply_patch(bench: Bench) -> None:
    """Models that Codex knows get other tools."""
    bench.model = "gpt-5.5"
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n"
    done = await bench.run(script({"tools": [{"name": "apply_patch", "input": {"input": patch}}]}, {"text": "Done."}))
    assert done.result.status == "success", done.result.errors
    assert (bench.directory / "workspace" / "new.txt").read_text() == "hi\n"
    assert [call.name for call in done.log.tool_calls] == ["file_change"]


async def test_codexs_default_model(bench: Bench) -> None:
    """Its events do not name it, its session file does."""
    bench.model = None
    done = await bench.run(script({"text": "Done."}))
    assert done.result.status == "success", done.result.errors
    assert done.log.model_info.name == done.requests[-1].body["model"]


async def test_a_rate_limit(bench: Bench) -> None:
    done = await bench.run(script({"error": {"status": 429}, "times": "forever"}))
    assert (done.result.status, done.codes()) == ("failed", ["CODEX_RATE_LIMIT"])


async def test_a_broken_stream_is_retried(bench: Bench) -> None:
    done = await bench.run(script({"text": "abc", "drop": {"after_events": 3}}, {"text": "Done."}))
    assert done.result.status == "success", done.result.errors
    assert [warning.code for warning in done.result.warnings] == ["CODEX_REQUESTS_RETRIED", "CODEX_NOTICE"]
    assert [message.content for message in done.log.messages][1:] == ["Done."]


async def test_a_stopped_run_has_usage(bench: Bench) -> None:
    done = await bench.cut_off(script(runs("true"), {"hang": True, "text": "..."}, usage=USAGE), 8_000)
    assert (done.result.status, done.codes()) == ("timeout", ["CODEX_TIMEOUT"])
    assert done.log.usage is not None
    assert (done.log.usage.input_tokens, done.log.usage.partial) == (600, True)


async def test_reasoning_effort_reaches_the_model(bench: Bench) -> None:
    bench.model = "gpt-5.5"
    done = await bench.run(script({"text": "Done."}), reasoning_effort="low")
    assert done.requests[-1].body["reasoning"]["effort"] == "low"
