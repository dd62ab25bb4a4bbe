"""US-5: allowed_tools need no approval, disallowed_tools are not there."""

from __future__ import annotations

from wrapped_cli import offered_tools

from claude_lab import ClaudeLab, bash, says, script

WRITE = bash("touch written.txt")


async def test_us_5_3_an_allowed_tool_works_without_asking(lab: ClaudeLab) -> None:
    config = {"permission_mode": "default", "allowed_tools": ["Read", "Bash"]}
    session = await lab.run(script(WRITE, says("Done.")), config=config)
    assert session.result.status == "success", session.result.errors
    assert (lab.workspace / "written.txt").exists()
    assert "CLAUDE_TOOL_DENIED" not in session.warning_codes()


async def test_us_5_3_a_rule_allows_what_it_names_and_nothing_else(lab: ClaudeLab) -> None:
    config = {"permission_mode": "default", "allowed_tools": ["Bash(touch:*)"]}
    session = await lab.run(script(bash("touch named"), bash("mkdir other"), says("Done.")), config=config)
    assert (lab.workspace / "named").exists()
    assert not (lab.workspace / "other").exists()
    assert "CLAUDE_TOOL_DENIED" in session.warning_codes()


async def test_us_5_a_disallowed_tool_is_not_offered_and_does_not_run(lab: ClaudeLab) -> None:
    session = await lab.run(script(WRITE, says("I could not.")), config={"disallowed_tools": ["Bash", "WebFetch"]})
    assert not {"Bash", "WebFetch"} & offered_tools(session.main_requests[0])
    assert "Read" in offered_tools(session.main_requests[0])
    assert not (lab.workspace / "written.txt").exists()
