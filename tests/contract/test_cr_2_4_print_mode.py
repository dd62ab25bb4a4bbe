"""CR-2.4, FR-003, FR-005: the CLI runs in print mode with the prompt as its last argument."""

from __future__ import annotations

import pytest
from wrapped_cli import Recorder

from claude_lab import ClaudeLab, says, script


async def test_cr_2_4_fr_003_the_prompt_goes_to_print_mode(lab: ClaudeLab) -> None:
    recorder = Recorder(lab)
    session = await lab.run(script(says("a.txt")), config={**recorder.config, "prompt": "List files"})
    assert session.result.status == "success", session.result.errors
    assert recorder.argv()[-3:] == ["-p", "--", "List files"]
    assert session.prompt == "List files"


@pytest.mark.parametrize("prompt", ["--version", "-p", "- one\n- two"])
async def test_fr_021_a_prompt_that_looks_like_an_option_is_none(lab: ClaudeLab, prompt: str) -> None:
    session = await lab.run(script(says("Read.")), config={"prompt": prompt})
    assert session.result.status == "success", session.result.errors
    assert session.prompt == prompt
