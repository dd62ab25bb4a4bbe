"""Hostile prompts reach the model byte for byte, or are refused; nothing on the way acts on them (NFR-3, FR-021)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hostile_prompts import FEW, LARGE, REFUSED, SMALL

from agent_clis import NEWEST, OLD, OLDEST
from claude_lab import ClaudeLab, says, script, versions
from youbencha.errors import ConfigError

CHUNK = 30
CHUNKS = [SMALL[start : start + CHUNK] for start in range(0, len(SMALL), CHUNK)]
AT_ONCE = 3


def test_there_are_enough_of_them() -> None:
    assert len(set(SMALL + LARGE)) >= 200


async def delivered(lab: ClaudeLab, directory: Path, prompt: str) -> str:
    """What the model got. Also checks that the prompt did nothing else on its way."""
    own = ClaudeLab(lab.cli, directory)
    session = await own.run(script(says("Done.")), config={"prompt": prompt})
    assert session.result.status == "success", session.result.errors
    assert list(own.workspace.iterdir()) == []
    return session.prompt


async def all_delivered(lab: ClaudeLab, directory: Path, prompts: list[str]) -> list[str]:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, prompt: str) -> str:
        async with limit:
            return await delivered(lab, directory / str(number), prompt)

    return await asyncio.gather(*(one(number, prompt) for number, prompt in enumerate(prompts)))


@versions(NEWEST)
@pytest.mark.parametrize("chunk", CHUNKS, ids=range(len(CHUNKS)))
async def test_byte_exact(lab: ClaudeLab, tmp_path: Path, chunk: list[str]) -> None:
    assert await all_delivered(lab, tmp_path / "runs", chunk) == chunk


@versions(NEWEST)
@pytest.mark.parametrize("prompt", LARGE, ids=lambda prompt: f"{len(prompt)}-characters")
async def test_large_ones_too(lab: ClaudeLab, tmp_path: Path, prompt: str) -> None:
    assert await delivered(lab, tmp_path / "run", prompt) == prompt


@versions(OLD, OLDEST)
async def test_older_versions_too(lab: ClaudeLab, tmp_path: Path) -> None:
    assert await all_delivered(lab, tmp_path / "runs", FEW) == FEW


@versions(NEWEST)
@pytest.mark.parametrize("prompt", REFUSED, ids=ascii)
async def test_what_cannot_be_delivered_is_refused(lab: ClaudeLab, prompt: str) -> None:
    async with lab.model(script(says("Done."))) as model:
        with pytest.raises(ConfigError, match="prompt") as refused:
            await lab.adapter().execute(lab.context(model, config={"prompt": prompt}))
        assert refused.value.code == "CLAUDE_INVALID_CONFIG"
        assert model.requests == []
