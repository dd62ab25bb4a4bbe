"""Edge case of seed 001: the agent asks the person something, and there is nobody."""

from __future__ import annotations

from claude_lab import ClaudeLab, says, script, uses

QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


async def test_a_question_to_nobody_does_not_hang(lab: ClaudeLab) -> None:
    session = await lab.run(script(uses("AskUserQuestion", questions=[QUESTION]), says("Then red.")))
    assert session.result.status == "success", session.result.errors
    assert len(session.main_requests) == 2  # it went on after the question
    assert [m.content for m in session.log.messages if m.role == "assistant"][-1] == "Then red."
