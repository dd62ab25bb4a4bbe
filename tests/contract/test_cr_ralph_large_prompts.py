"""Seed 004, large prompts: however long, they arrive byte for byte."""

from __future__ import annotations

import pytest
from wrapped_cli import Recorder

from claude_lab import ClaudeLab, says, script

UNIT = "line 漢 é 'quoted' $HOME `id` \\ end\n"


def text_of(characters: int) -> str:
    return (UNIT * (characters // len(UNIT) + 1))[: characters - 1] + "."


@pytest.mark.parametrize(("characters", "by_argument"), [(7_000, True), (7_001, False), (300_000, False)])
async def test_a_large_prompt_arrives_byte_for_byte(lab: ClaudeLab, characters: int, by_argument: bool) -> None:
    recorder, prompt = Recorder(lab), text_of(characters)
    session = await lab.run(script(says("Read.")), config={**recorder.config, "prompt": prompt})
    assert session.result.status == "success", session.result.errors
    assert (prompt in recorder.argv()) is by_argument
    assert session.prompt == prompt
