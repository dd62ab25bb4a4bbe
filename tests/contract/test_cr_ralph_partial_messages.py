"""Seed 004, stream events: the text as it is being written, in all three versions (the flag came with 1.0.108)."""

from __future__ import annotations

from agent_clis import ALL_VERSIONS
from claude_lab import ClaudeLab, bash, says, script, versions
from youbencha.events import AssistantText, AssistantTextDelta

pytestmark = versions(*ALL_VERSIONS)

TEXT = "A first sentence. " * 40 + "漢 🙂 the end."


async def test_the_pieces_put_together_are_the_text(lab: ClaudeLab) -> None:
    turns = ({**bash("true"), "text": "Before. "}, says(TEXT))
    session = await lab.run(script(*turns), config={"include_partial_messages": True})
    assert session.result.status == "success", session.result.errors
    pieces = [event.text for event in session.events if isinstance(event, AssistantTextDelta)]
    assert len(pieces) > 3
    assert "".join(pieces) == "Before. " + TEXT
    finished = [event.text.strip() for event in session.events if isinstance(event, AssistantText)]
    assert finished == ["Before.", TEXT]  # and nothing is told twice
    said = [message.content.strip() for message in session.log.messages if message.role == "assistant"]
    assert said == ["Before.", TEXT]


async def test_without_being_asked_for_there_are_no_pieces(lab: ClaudeLab) -> None:
    session = await lab.run(script(says(TEXT)))
    assert not [event for event in session.events if isinstance(event, AssistantTextDelta)]
