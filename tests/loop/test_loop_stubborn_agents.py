"""Loops with agents that do what no real one should; and a hundred iterations without growth."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from claude_loop import DONE, ClaudeLoop, ClaudeProject, Looped
from loop_bench import LoopBench

from agent_clis import NEWEST
from claude_bench import API_KEY, ClaudeBench, full, says, script, versions
from systems import PLAIN_PYTHON, posix_only
from youbencha.events import AssistantText, Event, IterationEnded, LoopEnded, WarningRaised
from youbencha.scripted_model import ScriptedModel

pytestmark = posix_only("the agents are programs with a shebang line")

FAST = {"retry": {"delay_seconds": 0.01}, "checkpoint_interval": 0}
START = """#!{python} -S
import json, os, signal, sys, time
if sys.argv[1:] == ["--version"]:
    print("2.1.325 (Claude Code)")
    sys.exit()
FIRST = os.environ["RALPH_ITERATION"] == "1"
def send(**record):
    print(json.dumps(record, ensure_ascii=False), flush=True)
def finish(text="LOOP_COMPLETE"):
    send(type="result", subtype="success", is_error=False, result=text)
send(type="system", subtype="init", session_id="s-1", model="claude-x")
"""


class LookAlike:
    """A program called `claude` that does what it is told to."""

    def __init__(self, directory: Path) -> None:
        self.home, self.tree = directory / "home", directory / "project"
        self.program = self.home / "bin" / "claude"
        self.program.parent.mkdir(parents=True)
        self.tree.mkdir()

    async def run(
        self,
        code: str,
        *,
        config: dict[str, Any] | None = None,
        start: str = START,
        gateway: str = "none",
        **event_loop: Any,
    ) -> Looped:
        self.program.write_text(start.replace("{python}", PLAIN_PYTHON) + code)
        self.program.chmod(0o755)
        path = os.pathsep.join([str(self.program.parent), os.environ["PATH"]])
        env = {"PATH": path, "HOME": str(self.home), "IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-ant-0123456789"}
        project = ClaudeProject(self.tree, self.home, {**env, "PYTHONIOENCODING": "utf-8"})
        project.configure(cli={"config": config or {}}, event_loop={**FAST, **event_loop}, gateway=gateway)
        async with asyncio.timeout(60):
            return await project.run()


@pytest.fixture
def look_alike(tmp_path: Path) -> LookAlike:
    return LookAlike(tmp_path)


async def test_an_agent_that_ignores_sigterm(look_alike: LookAlike) -> None:
    stubborn = """
if FIRST:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
    time.sleep(600)
finish()
"""
    done = await look_alike.run(stubborn, idle_timeout_secs=1)
    assert done.outcomes == ["failed", "completed"], done.reasons
    assert not any(process.cmdline()[1:] and "bin/claude" in process.cmdline()[-1] for process in descendants())


async def test_an_agent_that_stays_after_its_result(look_alike: LookAlike) -> None:
    """Even if it ignores SIGTERM: it has finished."""
    stays = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nfinish()\ntime.sleep(600)"
    done = await look_alike.run(stays, config={"exit_grace_s": 1})
    assert (done.state.outcome, done.outcomes) == ("completed", ["completed"]), done.reasons
    assert 1_000 < (done.records[0].duration_ms or 0) < 20_000


async def test_fifteen_megabytes_and_characters_in_pieces(look_alike: LookAlike) -> None:
    pieces = """
text = "grün 🦊 " + "é" * 7_500_000
record = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": text}]}}
data = (json.dumps(record, ensure_ascii=False) + "\\r\\n").encode()
sys.stdout.flush()
for at in range(200):  # each byte of the first characters alone
    os.write(1, data[at : at + 1])
rest = data[200:]
while rest:
    rest = rest[os.write(1, rest[:65_537]) :]
finish()
"""
    done = await look_alike.run(pieces)
    assert done.outcomes == ["completed"], done.reasons
    (text,) = done.of(AssistantText)
    assert text.text == "grün 🦊 " + "é" * 7_500_000
    assert done.of(WarningRaised) == []


async def test_lines_that_are_no_events_are_skipped_with_a_warning(look_alike: LookAlike) -> None:
    noise = 'print("plain words\\n{\\"type\\": 1}\\n{\\"type\\":", flush=True)\nsend(type="some_new_type")\nfinish()'
    done = await look_alike.run(noise)
    assert done.outcomes == ["completed"], done.reasons
    assert [warning.code for warning in done.of(WarningRaised)] == ["CLAUDE_MALFORMED_LINE"] * 3


async def test_an_error_in_the_result_fails_the_iteration(look_alike: LookAlike) -> None:
    """Whatever the exit code, and even with the promise."""
    failing = 'send(type="result", subtype="success", is_error=True, result="LOOP_COMPLETE") if FIRST else finish()'
    done = await look_alike.run(failing)
    assert done.outcomes == ["failed", "completed"]


async def test_an_agent_that_prints_without_end(look_alike: LookAlike) -> None:
    """It is not silent; the time of the loop ends it."""
    flood = 'while FIRST:\n    print("x" * 100_000)\nfinish()'
    done = await look_alike.run(flood, idle_timeout_secs=1, max_runtime_seconds=3)
    assert (done.state.outcome, done.outcomes) == ("max_runtime", ["limit"])


def descendants() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]


class Growth(list[Event]):
    """Takes the events of a loop, and compares what this process uses after its 20th iteration and at its end.

    The first iterations import modules and fill caches.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.files = self.children = self.memory = 0

    def append(self, event: Event) -> None:
        if (isinstance(event, IterationEnded) and event.iteration == 20) or isinstance(event, LoopEnded):
            gc.collect()
            super().append(event)
            before = (self.files, self.children, self.memory)
            now = (self._process.num_fds(), len(descendants()), self._process.memory_info().rss)
            self.files, self.children, self.memory = (value - old for value, old in zip(now, before, strict=True))

    def check(self, megabytes: int = 8) -> None:
        assert len(self) == 2
        assert self.files <= 1
        assert self.children <= 0
        assert self.memory < megabytes * 1024 * 1024


async def test_forty_iterations_do_not_grow(loops: LoopBench) -> None:
    loops.configure(
        'echo "This is session $N"; [ "$N" = 40 ] && echo LOOP_COMPLETE; true',
        event_loop={"checkpoint_interval": 0, "max_iterations": 200},
    )
    loops.events = growth = Growth()
    state = await loops.run()
    assert (state.outcome, state.iterations) == ("completed", 40)
    growth.check(megabytes=4)


@pytest.mark.timeout(1200)
@versions(full(NEWEST))
async def test_a_hundred_iterations_of_claude_do_not_grow(claude: ClaudeBench) -> None:
    loop, growth = ClaudeLoop(claude), Growth()
    loop.configure(event_loop={**FAST, "max_iterations": 200, "stale_after": 0})
    turns = script({**says("Not yet."), "times": 99}, says(DONE), across_sessions=True)
    async with ScriptedModel(turns) as model:

        def take(event: Event) -> None:
            growth.append(event)
            model.requests.clear()  # each has 100 KB

        done = await loop.run(env={"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}, on_event=take)
    assert (done.state.outcome, done.state.iterations) == ("completed", 100)
    growth.check()


LIMITS = [
    ("You're out of extra usage · resets 3am (UTC)", {"subtype": "error_during_execution"}, "usage_limit"),
    ("You've hit your weekly limit", {"subtype": "error_during_execution", "is_error": False}, "usage_limit"),
    ("You've reached your team's pooled group budget", {"subtype": "success"}, "usage_limit"),
    ("API Error: Request rejected (429) · slow down", {"subtype": "success"}, "usage_limit"),
    ("Credit balance is too low", {"subtype": "success"}, "failed"),
    ("Your org is out of usage · contact your admin", {"subtype": "success", "api_error_status": 429}, "failed"),
    ("There's an issue with the selected model", {"subtype": "success", "api_error_status": 404}, "failed"),
]


@pytest.mark.parametrize(("text", "result", "outcome"), LIMITS)
async def test_usage_limits_are_told_from_permanent_failures(
    look_alike: LookAlike, text: str, result: dict[str, Any], outcome: str
) -> None:
    """A limit that is reset after some time is a usage limit; any other ends the loop at once, without a retry."""
    record = {"type": "result", "is_error": True, "result": text, **result}
    done = await look_alike.run(f"send(**{record!r})\nsys.exit(1)\n", on_usage_limit="stop")
    assert (done.state.outcome, done.outcomes) == (outcome, [outcome])
    assert text in (done.reasons[0] or ""), "its own words are shown"


@pytest.mark.parametrize(
    "text",
    [
        "error: unknown option '--no-such'",
        "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
    ],
)
async def test_permanent_failures_are_not_retried(look_alike: LookAlike, text: str) -> None:
    version = START.partition("FIRST")[0]
    done = await look_alike.run(f"sys.exit({text!r})\n", start=version)
    assert (done.state.outcome, done.outcomes) == ("failed", ["failed"])
    assert text in (done.reasons[0] or "")


async def test_usage_outside_the_gateway_is_not_shown_as_free(look_alike: LookAlike) -> None:
    """Without the gateway, the agent's own figures are shown and marked; without any, it is unknown."""
    usage = {"inputTokens": 700, "outputTokens": 30, "costUSD": 0.25}
    told = {"total_cost_usd": 0.25, "modelUsage": {"claude-x": usage}}
    code = f"""
if FIRST:
    send(type="result", subtype="success", is_error=False, result="more to do", **{told!r})
else:
    finish()
"""
    done = await look_alike.run(code, gateway="builtin")
    first, second = done.records
    assert (first.input_tokens, first.cost_usd, first.usage_source) == (700, 0.25, "agent")
    assert (second.input_tokens, second.cost_usd, second.usage_source) == (None, None, None)
    (ended,) = done.of(LoopEnded)
    assert (ended.iterations, ended.cost_usd, ended.partial, ended.own_figures) == (2, 0.25, True, True)
    totals = json.loads((done.directory.path / "summary.json").read_text())["by_agent"]
    assert [(total["agent"], total["cost_usd"]) for total in totals] == [("claude claude-x", 0.25)]
    assert "$0.2500 (own)" in (done.directory.path / "summary.md").read_text()
