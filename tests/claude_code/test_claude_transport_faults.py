"""The control protocol with a CLI that has faults seen in real ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from talking_cli import talking_cli

from systems import posix_only
from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.events import Event, ToolCalled, WarningRaised
from youbencha.gateway.access import GatewayAccess
from youbencha.usage import SessionUsage

pytestmark = posix_only("the small CLI is a script with its interpreter in the first line")

BUSY_UNTIL_INTERRUPTED = """
welcomed()
call("Bash", "1")
while (asked := hear()).get("request", {}).get("subtype") != "interrupt": pass
result("error_during_execution", modelUsage={"claude-x": {"inputTokens": 70, "outputTokens": 7}})
time.sleep(600)
"""


async def run(directory: Path, rest: str, **options: Any) -> AgentExecutionResult:
    cli = talking_cli(directory / "claude", rest)
    config = {"prompt": "x", "executable": str(cli), "transport": "stdio", **options.pop("config", {})}
    context = AgentExecutionContext(
        workspace_dir=directory,
        repo_dir=directory,
        artifacts_dir=directory / "artifacts",
        config=config,
        env={"IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-ant-0123456789"},
        timeout=options.pop("timeout", 60_000),
        **options,
    )
    return await ClaudeCodeAdapter(env={"PATH": "/usr/bin:/bin", "HOME": str(directory)}).execute(context)


def codes(result: AgentExecutionResult) -> list[str | None]:
    return [error.code for error in result.errors]


def usage(result: AgentExecutionResult) -> SessionUsage:
    assert result.session is not None
    assert result.session.facts.usage is not None
    return result.session.facts.usage


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the five seconds in which a program may exit."""
    monkeypatch.setattr("youbencha.adapters.claude_code.transports.EXIT_TIMEOUT_S", 0.2)


@pytest.mark.usefixtures("impatient")
async def test_the_cli_stays_after_its_result(tmp_path: Path) -> None:
    """Before 2.1.38, over a WebSocket, all do."""
    result = await run(tmp_path, "welcomed(); text('hi'); result(); time.sleep(600)")
    assert (result.status, result.exit_code, result.errors) == ("success", 0, ())
    assert not usage(result).partial


@pytest.mark.usefixtures("impatient")
async def test_the_cli_stays_after_an_error(tmp_path: Path) -> None:
    result = await run(tmp_path, "welcomed(); result('error_max_turns'); time.sleep(600)")
    assert (result.status, result.exit_code, codes(result)) == ("failed", 1, ["CLAUDE_MAX_TURNS"])


async def test_the_cli_exits_at_the_end_of_its_input(tmp_path: Path) -> None:
    result = await run(tmp_path, "print(welcomed(), file=sys.stderr); result(); hear(); hear()")
    assert (result.status, result.exit_code) == ("success", 0)
    assert "\nx\n" in result.output


async def test_invalid_messages_are_skipped(tmp_path: Path) -> None:
    events: list[Event] = []
    rest = "welcomed(); print('not JSON at all'); print('[1, 2]'); print('{\"type\": '); result()"
    result = await run(tmp_path, rest, on_event=events.append)
    assert result.status == "success"
    assert "CONTROL_MALFORMED_MESSAGE" in [event.code for event in events if isinstance(event, WarningRaised)]


async def test_a_running_tool_is_not_silence(tmp_path: Path) -> None:
    rest = "welcomed(); call('Bash', '1'); time.sleep(3); result()"
    result = await run(tmp_path, rest, config={"silence_timeout_s": 2})
    assert result.status == "success"


async def test_a_slow_model_is_not_silence(tmp_path: Path) -> None:
    """The gateway knows that it was asked."""
    gateway = GatewayAccess("http://127.0.0.1:9", "yb-virtual-0123456789", is_busy=lambda: True)
    rest = "welcomed(); text('hm'); time.sleep(2); result()"
    result = await run(tmp_path, rest, config={"silence_timeout_s": 1}, gateway=gateway)
    assert result.status == "success", result.errors


async def test_silence_ends_the_session(tmp_path: Path) -> None:
    result = await run(tmp_path, "welcomed(); text('hm'); time.sleep(600)", config={"silence_timeout_s": 2.5})
    assert (result.status, codes(result)) == ("failed", ["CLAUDE_UNRESPONSIVE"])
    assert "the agent sent no message for 2.5 s" in result.errors[0].message
    assert (usage(result).tokens.input, usage(result).partial) == (30, True)


async def test_the_cli_dies_during_the_session(tmp_path: Path) -> None:
    result = await run(tmp_path, "welcomed(); text('hm'); print('I break', file=sys.stderr); sys.exit(3)")
    assert (result.status, result.exit_code, codes(result)) == ("failed", 3, ["CLAUDE_EXIT_CODE"])
    assert "I break" in result.errors[0].message
    assert usage(result).partial


async def test_at_the_deadline_it_is_interrupted_and_usage_is_reported(tmp_path: Path) -> None:
    result = await run(tmp_path, BUSY_UNTIL_INTERRUPTED, timeout=4_000)
    assert (result.status, result.exit_code, codes(result)) == ("timeout", -1, ["CLAUDE_TIMEOUT"])
    assert not result.errors[0].context["result_seen"]
    assert (usage(result).tokens.input, usage(result).partial) == (70, True)
    assert usage(result).tokens.output == 7


async def test_at_the_deadline_the_interrupt_is_ignored(tmp_path: Path) -> None:
    result = await run(tmp_path, "welcomed(); call('Bash', '1'); time.sleep(600)", timeout=2_000)
    assert (result.status, result.exit_code, codes(result)) == ("timeout", -1, ["CLAUDE_TIMEOUT"])


async def test_stop_during_a_tool_call(tmp_path: Path) -> None:
    stop = asyncio.Event()

    def at_the_call(event: Event) -> None:
        if isinstance(event, ToolCalled):
            stop.set()

    result = await run(tmp_path, BUSY_UNTIL_INTERRUPTED, stop=stop, on_event=at_the_call)
    assert (result.status, codes(result)) == ("failed", ["CLAUDE_STOPPED"])
    assert (usage(result).tokens.input, usage(result).partial) == (70, True)


async def test_a_rejected_key_needs_no_interrupt(tmp_path: Path) -> None:
    rest = (
        "welcomed(); say(type='system', subtype='api_retry', attempt=1, error_status=401, error='e'); time.sleep(600)"
    )
    result = await run(tmp_path, rest)
    assert (result.status, codes(result)) == ("failed", ["CLAUDE_AUTH_FAILED"])
