"""The control protocol with real CLIs: both transports, and the same session as in print mode."""

from __future__ import annotations

import asyncio
from typing import Any

import psutil
import pytest

from agent_clis import NEWEST, OLD, OLDEST
from claude_bench import API_KEY, ClaudeBench, Session, bash, says, script, uses
from systems import posix_only
from youbencha.adapters.claude_code import agent
from youbencha.events import Event, SessionResult, ToolDecided, WarningRaised
from youbencha.gateway.call import Labels
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.upstreams import same_for_all

pytestmark = posix_only("the commands are those of a shell")

WORK = script(
    bash("cat given.txt > copy.txt"),
    uses("Read", file_path="${workspace}/given.txt"),
    says("All is done."),
)
FORBIDDEN = script(
    uses("Read", file_path="${workspace}/given.txt"),
    bash("echo yes > allowed.txt"),
    bash("rm given.txt"),
    says("I did what I could."),
)


def by(*pairs: tuple[str, str], only_full: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Run a test with these versions and transports. `make test` leaves out versions in `only_full`, and rare ones."""
    often = {NEWEST, OLD} - set(only_full)
    params = [pytest.param(*pair, marks=[] if pair[0] in often else [pytest.mark.full]) for pair in pairs]
    return pytest.mark.parametrize(("claude_cli", "transport"), params, indirect=["claude_cli"])


def decisions(events: list[Event]) -> list[tuple[str, bool]]:
    return [(event.name, event.allowed) for event in events if isinstance(event, ToolDecided)]


def summary(session: Session) -> dict[str, Any]:
    """All that a session says of itself, but for its times, its ids, and what some versions ask a smaller model."""
    log = session.log.model_dump(exclude={"execution", "session_id", "usage"})
    for call in log["tool_calls"]:
        call.pop("id", None)
    return {**log, "messages": [(each["role"], each["content"]) for each in log["messages"]]}


def offered(session: Session) -> list[list[str]]:
    return [[tool["name"] for tool in request.body["tools"]] for request in session.main_requests]


@by((NEWEST, "stdio"), (OLD, "websocket"), only_full=(OLD,))
async def test_the_session_is_the_same_as_in_print_mode(claude: ClaudeBench, transport: str) -> None:
    (claude.workspace / "given.txt").write_text("a text\n")
    printed = await claude.run(WORK, config={"transport": "print"})
    session = await claude.run(WORK, config={"transport": transport})
    assert (session.result.status, session.result.exit_code) == ("success", 0)
    assert summary(session) == summary(printed)
    assert offered(session) == offered(printed)
    assert session.prompt == printed.prompt
    for each in (printed, session):
        usage = each.log.usage
        assert usage is not None
        assert not usage.partial
        assert usage.input_tokens is not None
        assert usage.input_tokens >= 300  # a hundred for each of the three calls
        assert [call.name for call in each.log.tool_calls] == ["Bash", "Read"]
    assert [path.name for path in claude.artifacts.iterdir()] == ["claude-code-logs"]


@by((NEWEST, "stdio"), (OLD, "websocket"), (OLDEST, "stdio"))
async def test_denied_tools_do_not_run_and_the_session_continues(claude: ClaudeBench, transport: str) -> None:
    """Over a WebSocket the CLI asks about what needs approval. The prompt is long, and still one message."""
    prompt = "-- " + "All of this counts. " * 20_000 + "/help"
    (claude.workspace / "given.txt").write_text("a text\n")
    config = {"transport": transport, "prompt": prompt, "allowed_tools": ["Bash(echo:*)", "Read"]}
    session = await claude.run(FORBIDDEN, config=config)
    assert session.result.status == "success"
    assert session.prompt == prompt
    assert (claude.workspace / "given.txt").exists()
    assert [event for event in decisions(session.events) if event[1]] == []
    assert session.warning_codes() == ["CLAUDE_TOOL_DENIED"]
    assert "Bash" in session.result.warnings[0].context["tools"]
    assert [call.name for call in session.log.tool_calls] == ["Read", "Bash", "Bash"]


@by(("1.0.90", "print"), ("1.0.90", "stdio"))
async def test_a_debug_log_between_the_messages_is_not_reported(claude: ClaudeBench, transport: str) -> None:
    session = await claude.run(WORK, config={"transport": transport})
    assert "[DEBUG] " in session.result.output
    assert (session.result.status, session.codes(), session.warning_codes()) == ("success", [], [])
    assert not [event for event in session.events if isinstance(event, WarningRaised)]


@pytest.mark.full
@by((NEWEST, "stdio"))
async def test_a_slow_model_is_not_a_silence_timeout(claude: ClaudeBench, transport: str) -> None:
    """The gateway knows that it was asked."""
    async with (
        claude.model(script(says("At last.", delay="12s"))) as model,
        Gateway(upstreams=same_for_all(model.url, API_KEY)) as gateway,
    ):
        config = {"transport": transport, "silence_timeout_s": 8}
        context = claude.context(model, config=config, gateway=gateway.issue(Labels("agent")))
        result = await claude.adapter().execute(context)
    assert result.status == "success", result.errors
    assert result.duration_ms > 12_000


@by((NEWEST, "stdio"), (OLD, "websocket"), only_full=(OLD,))
async def test_a_stopped_session_reports_usage_and_leaves_no_process(
    claude: ClaudeBench, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "INTERRUPT_S", 60.0)  # a busy machine may need more than the usual second
    stop = asyncio.Event()
    (claude.workspace / "busy").symlink_to("/bin/sleep")
    busy = script(bash(f"'{claude.workspace}/busy' 1000"))
    running = asyncio.create_task(claude.run(busy, config={"transport": transport}, stop=stop))
    while not running.done():
        if any(f"{claude.workspace}/busy" in line for line in commands()):
            stop.set()
        await asyncio.sleep(0.05)
    session = await running
    assert (session.result.status, session.codes()) == ("failed", ["CLAUDE_STOPPED"])
    subtypes = [event.subtype for event in session.events if isinstance(event, SessionResult)]
    assert subtypes == ["error_during_execution"]
    assert session.log.usage is not None
    assert session.log.usage.partial
    known = session.log.usage.output_tokens
    assert known is not None
    assert known >= 20  # of the one call: with these versions, only a result knows
    assert [line for line in commands() if f"{claude.workspace}/busy" in line] == []


def commands() -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found


@pytest.mark.full
@by((NEWEST, "stdio"))
async def test_a_model_that_never_answers(claude: ClaudeBench, transport: str) -> None:
    silent = script({"hang": True, "times": "forever"})
    session = await claude.run(silent, config={"transport": transport, "silence_timeout_s": 2})
    assert (session.result.status, session.codes()) == ("failed", ["CLAUDE_UNRESPONSIVE"])
    assert "sent no message" in session.result.errors[0].message
