"""Seed 004, error handling: a line that is no event is skipped with a warning; stderr is not even that."""

from __future__ import annotations

from wrapped_cli import wrapped

from claude_lab import ClaudeLab, says, script
from youbencha.events import Warned


async def test_a_garbage_line_is_skipped_with_a_warning(lab: ClaudeLab) -> None:
    executable = wrapped(lab, "echo 'GARBAGE {\"type\": '")
    session = await lab.run(script(says("Done.")), config={"executable": str(executable)})
    assert session.result.status == "success", session.result.errors
    assert session.warning_codes().count("CLAUDE_MALFORMED_LINE") == 1
    assert [event.code for event in session.events if isinstance(event, Warned)] == ["CLAUDE_MALFORMED_LINE"]
    assert [w.code for w in session.log.warnings].count("CLAUDE_MALFORMED_LINE") == 1
    assert [m.content for m in session.log.messages if m.role == "assistant"] == ["Done."]
    assert "GARBAGE" in session.result.output  # the raw log has every line


async def test_noise_on_stderr_does_not_hurt(lab: ClaudeLab) -> None:
    noise = 'i=0; while [ $i -lt 500 ]; do echo "noise {\\"type\\": \\"result\\"} $i" >&2; i=$((i+1)); done'
    session = await lab.run(script(says("Done.")), config={"executable": str(wrapped(lab, noise))})
    assert session.result.status == "success", session.result.errors
    assert "CLAUDE_MALFORMED_LINE" not in session.warning_codes()
    assert "CLAUDE_MALFORMED_LINE" not in [w.code for w in session.log.warnings]
    assert [m.content for m in session.log.messages if m.role == "assistant"] == ["Done."]
    assert "noise" in session.result.output
    assert "499" in session.result.output
