"""US-5: the system prompt, added to or replaced."""

from __future__ import annotations

from wrapped_cli import system_of

from claude_lab import ClaudeLab, says, script

OWN = 'Speak like a pirate (PIRATE-7f3a), "quoted" and $UNQUOTED.\n- and a list'


async def test_us_5_1_append_system_prompt_is_added_to_the_clis_own(lab: ClaudeLab) -> None:
    session = await lab.run(script(says("Arr.")), config={"append_system_prompt": OWN})
    assert session.result.status == "success", session.result.errors
    system = system_of(session.main_requests[0])
    assert OWN in system
    assert len(system) > len(OWN) + 2_000  # the CLI's own is still there


async def test_us_5_system_prompt_replaces_the_clis_own(lab: ClaudeLab) -> None:
    plain = await lab.run(script(says("Hello.")))
    session = await lab.run(script(says("Arr.")), config={"system_prompt": OWN})
    assert session.result.status == "success", session.result.errors
    system = system_of(session.main_requests[0])
    assert OWN in system
    assert len(system) < len(system_of(plain.main_requests[0])) / 2
