"""Edge case of seed 001: the artifacts directory does not exist, or cannot."""

from __future__ import annotations

import pytest

from claude_lab import ClaudeLab, says, script
from youbencha.errors import YouBenchaError


async def test_fr_016_a_missing_artifacts_directory_is_made(lab: ClaudeLab) -> None:
    lab.artifacts = lab.artifacts / "not" / "yet"
    session = await lab.run(script(says("Done.")))
    assert session.result.log_file is not None
    assert session.result.log_file.parent == lab.artifacts / "claude-code-logs"
    assert "Done." in session.result.log_file.read_text()


async def test_an_impossible_artifacts_directory_is_found_before_anything_runs(lab: ClaudeLab) -> None:
    lab.artifacts.write_text("a file where the directory should be")
    async with lab.model(script(says("never"))) as model:
        with pytest.raises(YouBenchaError) as caught:
            await lab.adapter().execute(lab.context(model))
        assert model.requests == []
    assert caught.value.code == "ARTIFACTS_NOT_WRITABLE"
    assert caught.value.hint
