"""Seed 004, large prompts: `prompt_delivery: file` hands the model a file to read, outside the workspace."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from claude_lab import ClaudeLab, says, script, uses

PROMPT = "/review this: 'quotes' $HOME 漢 🙂\nand a last line"


@pytest.fixture
def prompt_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the prompt will be: the script must know it in advance, so the directory's name is no random one."""
    directory, really = tmp_path / "temporary", tempfile.mkdtemp

    def mkdtemp(suffix: Any = None, prefix: str | None = None, dir: Any = None) -> str:
        if prefix != "youbencha-":
            return really(suffix, prefix, dir)
        directory.mkdir(mode=0o700)
        return str(directory)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    return directory / "prompt.md"


@pytest.mark.parametrize("config", [{}, {"permission_mode": "default"}], ids=["bypass", "default"])
async def test_the_model_reads_its_task_from_a_file_that_is_gone_afterwards(
    lab: ClaudeLab, prompt_file: Path, config: dict[str, Any]
) -> None:
    turns = (uses("Read", file_path=str(prompt_file)), says("Done."))
    session = await lab.run(script(*turns), config={"prompt": PROMPT, "prompt_delivery": "file", **config})
    assert session.result.status == "success", session.result.errors
    assert "CLAUDE_TOOL_DENIED" not in session.warning_codes()
    assert str(prompt_file) in session.prompt
    (call,) = session.log.tool_calls
    assert call.result is not None
    for line in PROMPT.split("\n"):
        assert line in call.result
    assert not prompt_file.parent.exists()
    assert list(lab.workspace.iterdir()) == []


async def test_the_file_holds_the_prompt_byte_for_byte(lab: ClaudeLab, prompt_file: Path) -> None:
    prompt = "\ufeffwindows line\r\nnul \0 and 漢\n" * 20_000
    copy = {"command": f"cp '{prompt_file.as_posix()}' copy.md", "description": "keep it"}
    session = await lab.run(
        script(uses("Bash", **copy), says("Done.")), config={"prompt": prompt, "prompt_delivery": "file"}
    )
    assert session.result.status == "success", session.result.errors
    assert (lab.workspace / "copy.md").read_bytes() == prompt.encode()
