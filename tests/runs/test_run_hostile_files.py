"""An agent that puts something else in the place of a file that the harness reads: the run still ends."""

from __future__ import annotations

import asyncio
import signal

import pytest
from run_bench import PATIENCE_S, RunBench

from agent_clis import NEWEST, OLD, OLDEST
from claude_bench import bash, full, says, script, versions
from systems import posix_only
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

pytestmark = posix_only("links and pipes")

LOGS = '"$HOME"/.claude/debug/*.txt "$HOME"/.local/state/claude-cli-nodejs/*/debug-logs/debug.txt'
PLANT = 'for log in {logs}; do test -e "$log" && rm -f "$log" && {plant} && touch "{run}.planted"; done'
WAIT = "sleep 1; touch '{run}.looked'; exec sleep 600"
"""The harness looks at the log every quarter of a second."""
PLANTS = {"the kernel's log": 'ln -s /proc/kmsg "$log"', "a pipe": 'mkfifo "$log"'}


@pytest.fixture(params=PLANTS.values(), ids=PLANTS)
def command(request: pytest.FixtureRequest, runs: RunBench) -> str:
    return f"{PLANT}; {WAIT}".format(logs=LOGS, plant=request.param, run=runs.root / "agent")


@versions(NEWEST, full(OLD), OLDEST)
async def test_a_signal_ends_the_run(claude_cli: InstalledAgent, command: str, runs: RunBench) -> None:
    async with ScriptedModel(script(bash(command), says("Done."))) as model:
        case = runs.write_case(runs.claude(claude_cli, model, config={"output_format": "text"}))
        process = await runs.start("run", "-c", str(case))
        try:
            async with asyncio.timeout(PATIENCE_S / 5):
                while not (runs.root / "agent.looked").exists():
                    await asyncio.sleep(0.05)
                process.send_signal(signal.SIGTERM)
                await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
    assert (runs.root / "agent.planted").exists()
    assert process.returncode == 130


@versions(full(NEWEST), full(OLD), OLDEST)
async def test_the_deadline_ends_the_run(claude_cli: InstalledAgent, command: str, runs: RunBench) -> None:
    async with ScriptedModel(script(bash(command), says("Done."))) as model:
        agent = runs.claude(claude_cli, model, config={"output_format": "text"})
        done = await asyncio.wait_for(runs.run(agent, timeout=15_000), PATIENCE_S / 5)
    assert (runs.root / "agent.looked").exists()
    assert done.bundle.agent.status == "timeout"
