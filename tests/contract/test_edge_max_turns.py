"""The CLI's own limit of turns is no success, though the older versions exit with 0."""

from __future__ import annotations

from agent_clis import ALL_VERSIONS
from claude_lab import ClaudeLab, bash, says, script, versions

pytestmark = versions(*ALL_VERSIONS)


async def test_max_turns_is_a_failure_of_its_own(lab: ClaudeLab) -> None:
    session = await lab.run(script(bash("echo one"), bash("echo two"), says("never")), config={"max_turns": 1})
    assert len(session.main_requests) == 1
    assert session.result.status == "failed"
    assert session.codes() == ["CLAUDE_MAX_TURNS"]
    assert "max_turns" in (session.result.errors[0].hint or "")
