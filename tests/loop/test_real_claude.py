"""Loops with the real Claude Code CLI in a real terminal, and a scripted model."""

from __future__ import annotations

import asyncio
import json
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from typing import Any

import pytest
from claude_loop import DONE, ClaudeLoop
from loop_bench import RALPH

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, ClaudeBench, bash, full, says, script, uses, versions
from systems import posix_only
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    ContextUsed,
    LoopStarted,
    LoopWaiting,
    ToolCalled,
    ToolReturned,
    ToolStarted,
    WarningRaised,
)
from youbencha.loop.control import LoopControl
from youbencha.process import OUTPUT_LIMIT_BYTES
from youbencha.scripted_model import ScriptedModel

pytestmark = posix_only("a console of Windows changes what a program prints")

FAST = {"retry": {"delay_seconds": 0.01}, "checkpoint_interval": 0}
OAUTH = {"CLAUDE_CODE_OAUTH_TOKEN": "fake-oauth-token"}
BOTH = versions(NEWEST, full(OLD))
OPUS = {"cli": {"model": "claude-opus-4-5"}}
EXPENSIVE = {"input_tokens": 1000, "output_tokens": 100_000}
FINISH = says(f"Done.\n\n{DONE}")


@pytest.fixture
def loop(claude: ClaudeBench) -> ClaudeLoop:
    return ClaudeLoop(claude)


def limited(reset: float) -> dict[str, Any]:
    """What Anthropic's API answers if a subscription's quota is used up."""
    window = "anthropic-ratelimit-unified"
    headers = {
        f"{window}-status": "rejected",
        f"{window}-reset": str(round(reset)),
        f"{window}-representative-claim": "five_hour",
        f"{window}-5h-status": "rejected",
        f"{window}-5h-reset": str(round(reset)),
        f"{window}-5h-utilization": "1.0",
        "retry-after": str(round(reset - time.time())),
    }
    return {"error": {"status": 429, "headers": headers}}


@versions(NEWEST, OLD)
async def test_iterations_until_the_promise(loop: ClaudeLoop) -> None:
    """The promise comes in the last allowed iteration. `auto` finds Claude, which gets a terminal."""
    loop.configure(cli={"backend": "auto", "pty_mode": False}, event_loop={"max_iterations": 2})
    first = {**bash("readlink /proc/$PPID/fd/1 > terminal.txt"), "text": "I begin."}
    done = await loop.run_script(script(first, says("More to do."), bash("echo 2 > two.txt"), FINISH))
    assert (done.state.outcome, done.outcomes) == ("completed", ["completed", "completed"]), done.reasons
    assert [event.backend for event in done.of(LoopStarted)] == ["claude"]
    assert (loop.tree / "terminal.txt").read_text().startswith("/dev/pts/")
    assert done.of(WarningRaised) == []
    started, called, returned = done.of(ToolStarted), done.of(ToolCalled), done.of(ToolReturned)
    assert [event.call_id for event in started] == [event.call_id for event in called]
    assert len(returned) == 2
    assert all(event.window in (200_000, 1_000_000) for event in done.of(ContextUsed))
    assert "".join(event.text for event in done.of(AssistantTextDelta)).startswith("I begin.More to do.")
    assert [record.files_changed for record in done.records] == [1, 1]
    assert all(record.cost_usd and record.input_tokens and record.output_tokens for record in done.records)


@BOTH
async def test_failures_are_retried(loop: ClaudeLoop) -> None:
    """A crash, a call that takes too long, a model that hangs, and an error of the API: one after the other."""
    is_old = loop.claude.cli.version == OLD
    limits = {"tool_timeout_secs": 1, "idle_timeout_secs": 8, "max_consecutive_failures": 9}
    loop.configure(event_loop={**FAST, **limits})
    times = 2 if is_old else 6  # the CLI changes the request and tries again
    refused = {"error": {"status": 400, "message": "the script says no"}, "times": times}
    endless = bash("python3 -c 'import time; time.sleep(600)'")
    turns = bash("kill -9 $PPID"), endless, {"hang": True, "text": "..."}, refused, FINISH
    done = await loop.run_script(script(*turns))
    assert (done.state.outcome, done.outcomes) == ("completed", ["failed"] * 4 + ["completed"]), done.reasons
    crash, too_long, silence, error, _ = (reason or "" for reason in done.reasons)
    assert "SIGKILL" in crash
    assert too_long == "a call of Bash took longer than 1.0 s"
    assert silence.startswith("the agent printed nothing for")
    assert "the script says no" in error
    assert [wait.kind for wait in done.of(LoopWaiting)] == ["backoff"] * 4


@versions(NEWEST)
async def test_a_subscriptions_limit_waits_for_its_reset(loop: ClaudeLoop) -> None:
    loop.configure(event_loop=FAST)
    reset = time.time() + 4
    done = await loop.run_script(script(limited(reset), FINISH), key=None, env=OAUTH)
    assert (done.state.outcome, done.outcomes) == ("completed", ["usage_limit", "completed"]), done.reasons
    (wait,) = done.of(LoopWaiting)
    assert (wait.kind, wait.until) == ("usage_limit", pytest.approx(reset, abs=2.5))
    assert time.time() > reset


@versions(full(OLD))
async def test_a_limit_that_only_a_text_tells(loop: ClaudeLoop) -> None:
    """Old versions print the hour and the minute; a person does not wait for it."""
    loop.configure(event_loop=FAST)
    reset, control = time.time() + 7200, LoopControl()
    done = await loop.run_script(
        script({**limited(reset), "times": 2}, FINISH), key=None, env=OAUTH, **trying_now(control)
    )
    assert done.outcomes == ["usage_limit", "completed"], done.reasons
    (wait,) = done.of(LoopWaiting)
    assert (wait.kind, wait.until) == ("usage_limit", pytest.approx(reset, abs=62))


@BOTH
async def test_a_limit_of_a_key_is_known_by_the_gateway(loop: ClaudeLoop) -> None:
    """2.0.62 would retry for minutes; newer versions say nothing about the time. A short limit is left to the agent."""
    loop.configure(event_loop=FAST)
    control = LoopControl()
    long, short = ({"error": {"status": 429, "headers": {"retry-after": seconds}}} for seconds in ("3600", "1"))
    done = await loop.run_script(script(long, short, FINISH), **trying_now(control))
    assert done.outcomes == ["usage_limit", "completed"], done.reasons
    (wait,) = done.of(LoopWaiting)
    assert (wait.kind, wait.until) == ("usage_limit", pytest.approx(time.time() + 3600, abs=60))


def trying_now(control: LoopControl) -> dict[str, Any]:
    """A person who does not wait."""
    return {"control": control, "on_event": lambda event: control.try_now() if isinstance(event, LoopWaiting) else None}


@versions(full(NEWEST))  # `test_iteration_watch.py` has it with recorded events
async def test_a_quota_that_is_almost_used_up(loop: ClaudeLoop) -> None:
    loop.configure(event_loop={**FAST, "stop_at_quota_percent": 90})
    done = await loop.run_script(script(limited(time.time() + 7200)), key=None, env=OAUTH)
    assert done.state.outcome == "usage_limit"
    assert done.outcomes == ["usage_limit"]


@versions(full(NEWEST))
async def test_a_long_tool_call_does_not_hang(loop: ClaudeLoop) -> None:
    loop.configure(event_loop={**FAST, "idle_timeout_secs": 2})
    done = await loop.run_script(script(bash("sleep 4"), FINISH))
    assert done.outcomes == ["completed"], done.reasons


@versions(full(NEWEST), full(OLD))  # as in `tests/claude_code/test_claude_terminal.py`
async def test_a_long_prompt_comes_by_a_file(loop: ClaudeLoop) -> None:
    prompt = "Straße\n" * 2_000
    loop.configure(event_loop={**FAST, "prompt": prompt})
    cache = loop.claude.home / ".cache"
    done = await loop.run_script(
        script(bash(f"cp \"$(find '{cache}' '{loop.tree}/.ralph' -name prompt.md)\" copy.md"), FINISH)
    )
    assert done.outcomes == ["completed"], done.reasons
    assert prompt in (loop.tree / "copy.md").read_text()
    assert "completely; it holds your task" in str(done.requests[0].body["messages"])
    assert not [*loop.tree.rglob("prompt.md"), *cache.rglob("prompt.md")]


@versions(full(NEWEST))  # as in `tests/claude_code/test_claude_terminal.py`
async def test_a_server_in_the_background_does_not_keep_the_iteration(loop: ClaudeLoop) -> None:
    loop.configure(event_loop=FAST, cli={"config": {"exit_grace_s": 0.5}})
    server = uses("Bash", command="sleep 600", description="a server", run_in_background=True)
    done = await loop.run_script(script(server, FINISH))
    assert done.outcomes == ["completed"], done.reasons
    assert (done.records[0].duration_ms or 0) < 20_000


@versions(NEWEST)
async def test_the_promise_after_more_output_than_is_kept(loop: ClaudeLoop) -> None:
    loop.configure(event_loop=FAST)
    text = "0123456789abcdé\n" * (OUTPUT_LIMIT_BYTES // 16)
    done = await loop.run_script(script(says(text + DONE)))
    assert (done.state.outcome, done.outcomes) == ("completed", ["completed"]), done.reasons


@versions(full(NEWEST))  # `tests/claude_code/test_claude_terminal.py` cuts what a CLI prints
async def test_characters_cut_anywhere(loop: ClaudeLoop) -> None:
    loop.configure(event_loop=FAST)
    text = f"größer 🦊🏳️‍🌈 e\u0301\n{DONE}"
    done = await loop.run_script(script({"text": text, "chunk_bytes": 1}))
    assert done.state.outcome == "completed"
    assert [event.text for event in done.of(AssistantText)] == [text]


@versions(NEWEST)
async def test_the_command(loop: ClaudeLoop) -> None:
    """`ralph run` as a user runs it, with a tool that publishes an event by `ralph emit`."""
    loop.configure(event_loop={**FAST, "required_events": ["work.done"]})
    turns = script(says(f"Too early.\n{DONE}"), bash("ralph emit work.done 'all of it'"), FINISH, across_sessions=True)
    async with ScriptedModel(turns) as model:
        env = {**loop.env, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        command = await asyncio.create_subprocess_exec(
            *(RALPH, "run", "--no-tui"), cwd=loop.tree, env=env, stdout=PIPE, stderr=STDOUT, stdin=DEVNULL
        )
        printed, _ = await asyncio.wait_for(command.communicate(), 60)
    assert command.returncode == 0, printed.decode()
    assert "work.done" in printed.decode()
    assert "says done, but these events were never published: work.done" in printed.decode()
    assert "2 iterations in" in printed.decode().splitlines()[-2]
    (summary,) = loop.tree.glob(".ralph/loops/*/summary.md")
    assert "iteration 1: these events were never published" in summary.read_text()
    assert API_KEY not in printed.decode()


@versions(NEWEST)
async def test_secrets_in_a_tool_call_are_masked_whatever_they_are_called(loop: ClaudeLoop) -> None:
    """On standard output and in the recording: the model chooses the arguments of a tool, and their names."""
    secret = "hunter2-distinct-aaaa"
    loop.configure(event_loop=FAST)
    deep = {"version": secret, "status": [secret], "kind": {"role": secret, "commit": secret}, secret: "a name"}
    call = uses("Bash", command="true", description=f"code {secret}", code=secret, type=secret, more=deep)
    turns = script(call, FINISH, across_sessions=True)
    async with ScriptedModel(turns) as model:
        env = {**loop.env, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY, "SHOP_PASSWORD": secret}
        command = await asyncio.create_subprocess_exec(
            *(RALPH, "run", "--json"), cwd=loop.tree, env=env, stdout=PIPE, stderr=STDOUT, stdin=DEVNULL
        )
        printed, _ = await asyncio.wait_for(command.communicate(), 60)
    assert command.returncode == 0, printed.decode()
    (recording,) = loop.tree.glob(".ralph/loops/*/recording.jsonl")
    for written in (printed.decode(), recording.read_text()):
        assert secret not in written
        (called,) = [event for line in written.splitlines() if (event := json.loads(line))["type"] == "tool_called"]
        assert called["arguments"]["more"]["[REDACTED]"] == "a name"


class TestMoney:
    """A limit ends the iteration, not only the loop after it."""

    @versions(NEWEST)
    async def test_with_the_gateway(self, loop: ClaudeLoop) -> None:
        loop.configure(**OPUS, event_loop={**FAST, "max_cost_usd": 1.0})
        done = await loop.run_script(script(bash("true"), bash("true"), FINISH, usage=EXPENSIVE))
        assert (done.state.outcome, done.outcomes) == ("max_cost", ["limit"]), done.reasons

    @versions(NEWEST)
    async def test_estimated(self, loop: ClaudeLoop) -> None:
        loop.configure(**OPUS, event_loop={**FAST, "max_cost_usd": 1.0}, gateway="none")
        done = await loop.run_script(script(bash("true"), bash("true"), FINISH, usage=EXPENSIVE))
        assert (done.state.outcome, done.outcomes) == ("max_cost", ["limit"]), done.reasons
        assert "about $2.5" in (done.reasons[0] or "")

    @versions(NEWEST)
    async def test_the_last_call_counts(self, loop: ClaudeLoop) -> None:
        loop.configure(**OPUS, event_loop={**FAST, "max_cost_usd": 1.0}, gateway="none")
        done = await loop.run_script(script(FINISH, usage=EXPENSIVE))
        assert (done.state.outcome, done.outcomes) == ("completed", ["completed"])
        assert (done.state.cost_usd or 0) > 1.0
