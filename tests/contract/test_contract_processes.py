"""FR-010, NFR-2: after a run none of its processes are left; concurrent runs do not mix."""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from agent_clis import NEWEST
from claude_bench import ClaudeBench, bash, prompt_of, says, script, uses, versions
from echo_cli import EchoCli, needs_shell
from youbencha.adapters import AgentExecutionContext
from youbencha.events import AssistantText, Event, SessionStarted

TIMEOUTS_S = (4, 12, 80)
"""A later one only where the one before came before the tool had begun: that shows nothing."""


@pytest.fixture
def marker() -> str:
    return f"marker-{uuid.uuid4().hex}"


def running(marker: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE and marker in " ".join(process.info["cmdline"] or ())
    ]


ENDLESS = """
import contextlib, os, pathlib, time
with contextlib.suppress(AttributeError, PermissionError):  # not on Windows; or it has its own already
    os.setsid()
pathlib.Path('started').touch()
while True:
    time.sleep(1)
"""


def endless(claude: ClaudeBench, marker: str) -> str:
    """In a session of its own, where a signal to the CLI's group does not reach; it tells that it started."""
    script = claude.home / "endless.py"
    script.write_text(ENDLESS)
    return f"'{Path(sys.executable).as_posix()}' '{script.as_posix()}' {marker}"


async def test_cr_2_3_fr_010_a_timeout_ends_the_tool_in_its_own_session_too(claude: ClaudeBench, marker: str) -> None:
    turn = {**bash(endless(claude, marker)), "text": "I begin."}
    for timeout_s in TIMEOUTS_S:
        session = await claude.run(script(turn, says("never")), timeout=timeout_s * 1000)
        if (claude.workspace / "started").exists():
            break
    assert (claude.workspace / "started").exists()
    assert running(marker) == []
    assert session.result.status == "timeout"
    assert session.result.exit_code == -1
    assert session.codes() == ["CLAUDE_TIMEOUT"]
    assert f"{timeout_s} s" in session.result.errors[0].message
    assert "I begin." in session.result.output
    assert session.log.execution.status == "timeout"


async def test_a_background_process_of_the_agent_is_gone_when_the_run_is_over(claude: ClaudeBench, marker: str) -> None:
    command = f"{endless(claude, marker)} > /dev/null 2>&1 < /dev/null & while ! [ -e started ]; do sleep 0.1; done"
    session = await claude.run(script(bash(command), says("Done.")))
    assert (claude.workspace / "started").exists()
    assert running(marker) == []
    assert session.result.status == "success", session.result.errors


@needs_shell
async def test_an_agent_that_kills_its_guard_has_crashed(tmp_path: Path) -> None:
    """Whatever an agent does is a result, and what it said before is kept."""
    received = await EchoCli(tmp_path, before="echo said before; kill -KILL $PPID; sleep 60").run()
    assert (received.result.status, received.result.exit_code) == ("failed", 137)
    assert [error.code for error in received.result.errors] == ["CLAUDE_CRASHED"]
    assert received.warning_codes() == ["CLAUDE_GUARD_LOST"]
    assert "said before" in received.result.output


NAMES = ("north", "south")


@versions(NEWEST)  # what is shared (adapter, temporary files, HOME) is the same code for all
async def test_concurrent_runs_do_not_mix(claude: ClaudeBench) -> None:
    conversations = [
        {
            "when": {"prompt_contains": f"Go {name}."},
            "turns": [bash(f"echo {name} > $WHERE.txt"), {"text": f"I went {name}."}],
        }
        for name in NAMES
    ]
    events: dict[str, list[Event]] = {name: [] for name in NAMES}
    async with claude.model(script({"text": "lost"}, conversations=conversations)) as model:
        adapter = claude.adapter()

        def context(name: str) -> AgentExecutionContext:
            return claude.context(
                model, config={"prompt": f"Go {name}."}, env={"WHERE": name}, on_event=events[name].append
            )

        results = await asyncio.gather(*(adapter.execute(context(name)) for name in NAMES))
        logs = [adapter.normalize_log(result, context(name)) for name, result in zip(NAMES, results, strict=True)]
    assert [result.status for result in results] == ["success"] * len(NAMES)
    assert sorted({prompt_of(request) for request in model.requests if request.kind == "turn"}) == sorted(
        f"Go {name}." for name in NAMES
    )
    assert len({result.log_file for result in results}) == len(NAMES)
    assert len({log.session_id for log in logs}) == len(NAMES)
    for name, result, log in zip(NAMES, results, logs, strict=True):
        assert (claude.workspace / f"{name}.txt").read_text() == f"{name}\n"
        assert [m.content for m in log.messages if m.role == "assistant"] == [f"I went {name}."]
        assert [e.text for e in events[name] if isinstance(e, AssistantText)] == [f"I went {name}."]
        assert {e.session_id for e in events[name] if isinstance(e, SessionStarted)} == {log.session_id}
        assert not [other for other in NAMES if other != name and f"I went {other}" in result.output]


@pytest.mark.full
@pytest.mark.parametrize("config", [{}, {"output_format": "text"}, {"transport": "stdio"}], ids=str)
@versions(NEWEST)
async def test_a_server_in_the_background_does_not_make_a_timeout(claude: ClaudeBench, config: dict[str, str]) -> None:
    """The CLI waits for it for ten minutes after its result."""
    server = "python3 -m http.server 0 --bind 127.0.0.1"
    start = uses("Bash", command=server, description="a server", run_in_background=True)
    session = await claude.run(script(start, says("It runs.")), timeout=20_000, config=config)
    assert (session.result.status, session.result.exit_code) == ("success", 0), session.result.errors
    assert session.log.messages[-1].content == "It runs."
