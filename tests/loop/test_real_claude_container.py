"""A loop with the real Claude Code in a container: in a terminal there, too."""

from __future__ import annotations

import pytest
from claude_loop import DONE, ClaudeLoop

from agent_clis import NEWEST
from claude_bench import ClaudeBench, bash, says, script, versions
from systems import posix_only
from youbencha.events import ToolStarted, WarningRaised

pytestmark = [posix_only("a console of Windows changes what a program prints"), pytest.mark.usefixtures("engine")]


@versions(NEWEST)
async def test_a_loop_in_a_container(claude: ClaudeBench, image: str) -> None:
    loop = ClaudeLoop(claude)
    loop.configure(sandbox={"type": "docker", "image": image}, event_loop={"prompt": "A long task. " * 1000})
    look = bash("readlink /proc/$PPID/fd/1 > terminal.txt; hostname > host.txt; ralph emit work.begun now")
    done = await loop.run_script(script(look, says("More."), bash("echo 2 > two.txt"), says(DONE)))
    assert (done.state.outcome, done.outcomes) == ("completed", ["completed", "completed"]), done.reasons
    assert (loop.tree / "terminal.txt").read_text().startswith("/dev/pts/")
    assert (loop.tree / "two.txt").read_text() == "2\n"
    assert len(done.of(ToolStarted)) == 2
    assert done.of(WarningRaised) == []
    assert done.records[0].topics == ("work.begun",)
    assert "prompt.md" in str(done.requests[0].body["messages"])
