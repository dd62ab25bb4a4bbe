"""CR-2.5, FR-006, FR-007: the prompt from a file, and never from two places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_clis import NEWEST
from claude_lab import ClaudeLab, says, script, versions
from systems import posix_only
from youbencha.errors import ConfigError

PROMPT = "Review the code.\n\n- 'quotes', `ticks`, $HOME\n- 漢字 🙂\n"


async def test_cr_2_5_fr_006_a_prompt_file_in_the_workspace_is_the_prompt(lab: ClaudeLab) -> None:
    (lab.workspace / "prompts").mkdir()
    (lab.workspace / "prompts" / "task.md").write_bytes(PROMPT.encode())
    session = await lab.run(script(says("Read.")), config={"prompt_file": "./prompts/task.md"})
    assert session.result.status == "success", session.result.errors
    assert session.prompt == PROMPT


async def test_cr_2_5_a_prompt_file_beside_the_test_case_wins(lab: ClaudeLab, tmp_path: Path) -> None:
    cases = tmp_path / "cases"
    cases.mkdir()
    (cases / "task.md").write_text("the one beside the test case")
    (lab.workspace / "task.md").write_text("the one in the workspace")
    session = await lab.run(script(says("Read.")), config={"prompt_file": "task.md"}, config_dir=cases)
    assert session.prompt == "the one beside the test case"


# What follows is refused before any CLI is looked for, so that one version is enough.


@versions(NEWEST)
@pytest.mark.parametrize(
    ("config", "says_what"),
    [
        ({"prompt": "a", "prompt_file": "b.md"}, "both were given"),
        ({"prompt": None}, "neither was given"),
        ({"prompt_file": "missing.md"}, "missing.md does not exist"),
        ({"prompt_file": "../outside.md"}, "contains '..'"),
        pytest.param({"prompt_file": "link.md"}, "leads out of", marks=posix_only("links need a privilege")),
    ],
)
async def test_fr_007_nfr_3_a_wrong_prompt_is_refused_and_the_model_never_asked(
    lab: ClaudeLab, tmp_path: Path, config: dict[str, Any], says_what: str
) -> None:
    (tmp_path / "outside.md").write_text("a secret of somebody else")
    if config.get("prompt_file") == "link.md":
        (lab.workspace / "link.md").symlink_to(tmp_path / "outside.md")
    async with lab.model(script(says("never"))) as model:
        with pytest.raises(ConfigError) as caught:
            await lab.adapter().execute(lab.context(model, config=config))
        assert model.requests == []
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    assert says_what in str(caught.value)
