"""The real Gemini CLI, beyond the conformance kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from gemini_bench import gemini_bench, runs
from toolbox_agents import Bench, script

pytestmark = [pytest.mark.real_cli, pytest.mark.full]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return gemini_bench(tmp_path)


async def test_a_complete_session(bench: Bench) -> None:
    write = {"name": "write_file", "input": {"file_path": "${cwd}/hello.txt", "content": "hello\n"}}
    first = {"thinking": "Hm.", "text": "I write.", "tools": [write, *runs("cat hello.txt")["tools"]]}
    usage = {"input_tokens": 600, "cache_read_input_tokens": 1400, "output_tokens": 50, "reasoning_tokens": 10}
    done = await bench.run(script(first, {"text": "Done."}, usage=usage))
    assert done.result.status == "success", done.result.errors
    assert (bench.directory / "workspace" / "hello.txt").read_text() == "hello\n"
    assert [message.content for message in done.log.messages][1:] == ["I write.", "Done."]
    assert [(call.name, call.is_error) for call in done.log.tool_calls] == [
        ("write_file", False), ("run_shell_command", False),
    ]  # fmt: skip
    assert done.log.usage is not None
    assert (done.log.usage.input_tokens, done.log.usage.output_tokens) == (1200, 100)
    assert done.log.usage.cache_read_tokens == 2800
    assert (done.log.model_info.name, done.log.model_info.provider) == ("gemini-2.5-pro", "google")
    assert done.result.warnings == ()
    assert not (bench.directory / "home" / ".gemini").exists()  # the user's home is unchanged


async def test_a_loop_that_it_detects_is_a_warning(bench: Bench) -> None:
    done = await bench.run(script({**runs("echo same"), "times": "forever"}))
    assert (done.result.status, len(done.log.tool_calls or ())) == ("success", 4)
    assert [warning.code for warning in done.log.warnings] == ["GEMINI_NOTICE"]
    assert "Loop detected" in done.log.warnings[0].message


async def test_a_key_that_is_refused(bench: Bench) -> None:
    done = await bench.run(script({"error": {"status": 401}}))
    assert (done.result.status, done.codes()) == ("failed", ["GEMINI_AUTH_FAILED"])


async def test_a_repositorys_env_file_is_not_the_agents_environment(bench: Bench) -> None:
    (bench.directory / "workspace").mkdir()
    (bench.directory / "workspace" / ".env").write_text("KIT_LEAK=leaked\n")
    done = await bench.run(script(runs('echo "<$KIT_LEAK>"'), {"text": "Done."}))
    assert done.result.status == "success", done.result.errors
    assert [call.result for call in done.log.tool_calls] == ["<>"]


async def test_a_mode_that_would_ask_denies_the_tool(bench: Bench) -> None:
    turns = (runs("echo hello > hello.txt"), {"text": "Done."})
    done = await bench.run(script(*turns), approval_mode="default")
    assert done.result.status == "success", done.result.errors
    assert [call.is_error for call in done.log.tool_calls] == [True]
    assert not (bench.directory / "workspace" / "hello.txt").exists()
