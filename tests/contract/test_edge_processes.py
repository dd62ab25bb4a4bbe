"""FR-010, NFR-2: when a run is over, nothing of it runs on: not its tools, not what they left in the background."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import psutil
import pytest

from agent_clis import ALL_VERSIONS
from claude_lab import ClaudeLab, bash, says, script, versions

TIMEOUTS_S = (8, 80)
"""The second only where the first came before the tool had begun: that shows nothing."""


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


def endless(lab: ClaudeLab, marker: str) -> str:
    """In a session of its own, where a signal to the CLI's group does not reach; it tells that it started."""
    script = lab.home / "endless.py"
    script.write_text(ENDLESS)
    return f"'{Path(sys.executable).as_posix()}' '{script.as_posix()}' {marker}"


async def test_cr_2_3_fr_010_a_timeout_ends_the_tool_in_its_own_session_too(lab: ClaudeLab, marker: str) -> None:
    turn = {**bash(endless(lab, marker)), "text": "I begin."}
    for timeout_s in TIMEOUTS_S:
        session = await lab.run(script(turn, says("never")), timeout=timeout_s * 1000)
        if (lab.workspace / "started").exists():
            break
    assert (lab.workspace / "started").exists()
    assert running(marker) == []
    assert session.result.status == "timeout"
    assert session.result.exit_code == -1
    assert session.codes() == ["CLAUDE_TIMEOUT"]
    assert f"{timeout_s} s" in session.result.errors[0].message
    assert "I begin." in session.result.output
    assert session.log.execution.status == "timeout"


async def test_a_background_process_of_the_agent_is_gone_when_the_run_is_over(lab: ClaudeLab, marker: str) -> None:
    command = f"{endless(lab, marker)} > /dev/null 2>&1 < /dev/null & while ! [ -e started ]; do sleep 0.1; done"
    session = await lab.run(script(bash(command), says("Done.")))
    assert (lab.workspace / "started").exists()
    assert running(marker) == []
    assert session.result.status == "success", session.result.errors


@versions(*ALL_VERSIONS)
async def test_an_ordinary_run_is_not_said_to_leave_anything(lab: ClaudeLab) -> None:
    """2.0.62 starts a search tool of its own in the background, and may end before it: not the agent's doing."""
    session = await lab.run(script(bash("true"), says("Done.")))
    assert session.warning_codes() == []


async def test_an_agent_that_kills_its_guard_has_crashed(lab: ClaudeLab, tmp_path: Path) -> None:
    """Whatever an agent does is a result, and what it said before is kept."""
    killer = tmp_path / "killer"
    killer.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = --version ] && exec "{lab.cli.executable}" --version\n'
        "echo said before; kill -KILL $PPID; sleep 60\n"
    )
    killer.chmod(0o755)
    session = await lab.run(script(says("Never asked.")), config={"executable": str(killer)})
    assert (session.result.status, session.result.exit_code) == ("failed", 137)
    assert session.codes() == ["CLAUDE_CRASHED"]
    assert session.warning_codes() == ["CLAUDE_GUARD_LOST"]
    assert "said before" in session.result.output
