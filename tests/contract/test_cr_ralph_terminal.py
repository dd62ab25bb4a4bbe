"""Seed 004, TTY requirement: with a terminal or without one, the run and its log are the same."""

from __future__ import annotations

from wrapped_cli import wrapped

from claude_lab import ClaudeLab, Session, bash, says, script
from systems import posix_only

pytestmark = posix_only("a console there draws what it is given anew, with line breaks of its own")

TURNS = (bash("echo colour 漢"), says("Done: é 漢 🙂"))
NOTHING = {"input_tokens": 0, "output_tokens": 0}
SCRIPT = script(*TURNS, side=says("ok", usage=NOTHING))  # how many calls beside the work there are, is left to chance


def told(session: Session) -> dict[str, object]:
    """What must not depend on the terminal."""
    log = session.log
    return {
        "status": session.result.status,
        "exit_code": session.result.exit_code,
        "messages": [(message.role, message.content) for message in log.messages],
        "tools": [(call.name, call.arguments, call.result, call.is_error) for call in log.tool_calls],
        "usage": log.usage and (log.usage.input_tokens, log.usage.output_tokens),
        "malformed": session.warning_codes().count("CLAUDE_MALFORMED_LINE"),
    }


async def test_pty_always_gives_the_same_log(lab: ClaudeLab) -> None:
    with_terminal = await lab.run(SCRIPT, config={"pty": "always"})
    without = await lab.run(SCRIPT, config={"pty": "never"})
    assert with_terminal.result.status == "success", with_terminal.result.errors
    assert told(with_terminal) == told(without)


async def test_pty_always_is_a_real_terminal_and_the_default_is_none(lab: ClaudeLab) -> None:
    executable = wrapped(lab, "if test -t 1; then echo yes >> ~/terminal; else echo no >> ~/terminal; fi")
    for pty in ("always", "auto"):
        await lab.run(script(says("Done.")), config={"executable": str(executable), "pty": pty})
    assert (lab.home / "terminal").read_text().split() == ["yes", "no"]
