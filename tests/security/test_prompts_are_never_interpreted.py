"""Hostile prompts reach the model byte for byte, or are refused; nothing on the way acts on them (NFR-3, FR-021)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from hostile_prompts import FEW, FEWER, LARGE, REFUSED, SMALL

from agent_clis import NEWEST, OLD, OLDEST
from claude_bench import ClaudeBench, full, says, script, versions
from echo_cli import EchoCli, needs_shell
from youbencha.errors import ConfigError

AT_ONCE = 3
CHUNK = 54
CHUNKS = [SMALL[start : start + CHUNK] for start in range(0, len(SMALL), CHUNK)]
small_chunks = pytest.mark.parametrize("prompts", CHUNKS, ids=range(len(CHUNKS)))


def test_the_list_of_hostile_prompts_is_long_enough() -> None:
    assert len(set(SMALL + LARGE)) >= 200


async def changed(prompts: Sequence[str], deliver: Callable[[str, str], Awaitable[str]]) -> list[str]:
    """The prompts that arrived as something else, shortened and printable."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, prompt: str) -> bool:
        async with limit:
            return await deliver(str(number), prompt) == prompt

    same = await asyncio.gather(*(one(number, prompt) for number, prompt in enumerate(prompts)))
    return [ascii(prompt[:80]) for prompt, is_same in zip(prompts, same, strict=True) if not is_same]


async def changed_before_the_cli(tmp_path: Path, prompts: Sequence[str], delivery: str) -> list[str]:
    cli = EchoCli(tmp_path)

    async def deliver(name: str, prompt: str) -> str:
        received = await cli.run(name, config={"prompt": prompt, "prompt_delivery": delivery})
        assert received.result.status == "success", received.result.errors
        assert list(received.workspace.iterdir()) == []
        return received.prompt

    return await changed(prompts, deliver)


async def changed_before_the_model(claude: ClaudeBench, tmp_path: Path, prompts: Sequence[str]) -> list[str]:
    async def deliver(name: str, prompt: str) -> str:
        own = ClaudeBench(claude.cli, tmp_path / "runs" / name)
        session = await own.run(script(says("Done.")), config={"prompt": prompt})
        assert session.result.status == "success", session.result.errors
        assert list(own.workspace.iterdir()) == []
        return session.prompt

    return await changed(prompts, deliver)


@needs_shell
@small_chunks
async def test_byte_exact_to_the_cli(tmp_path: Path, prompts: list[str]) -> None:
    assert await changed_before_the_cli(tmp_path, prompts, "auto") == []


@needs_shell
@pytest.mark.parametrize("delivery", ["stdin", "file"])
async def test_large_prompts_on_standard_input_and_in_a_file(tmp_path: Path, delivery: str) -> None:
    assert await changed_before_the_cli(tmp_path, [*FEW, *LARGE], delivery) == []


@versions(NEWEST, full(OLD), OLDEST)
async def test_byte_exact_to_the_model(claude: ClaudeBench, tmp_path: Path) -> None:
    assert await changed_before_the_model(claude, tmp_path, FEWER) == []


@pytest.mark.full
@versions(NEWEST)
@small_chunks
async def test_all_are_byte_exact_to_the_model(claude: ClaudeBench, tmp_path: Path, prompts: list[str]) -> None:
    assert await changed_before_the_model(claude, tmp_path, prompts) == []


@pytest.mark.full
@versions(NEWEST)
async def test_large_prompts_are_byte_exact_to_the_model(claude: ClaudeBench, tmp_path: Path) -> None:
    assert await changed_before_the_model(claude, tmp_path, LARGE) == []


@pytest.mark.parametrize("prompt", REFUSED, ids=ascii)
async def test_undeliverable_prompts_are_refused(tmp_path: Path, prompt: str) -> None:
    cli = EchoCli(tmp_path)
    with pytest.raises(ConfigError, match="prompt") as refused:
        await cli.run(config={"prompt": prompt})
    assert refused.value.code == "CLAUDE_INVALID_CONFIG"
    assert not cli.was_started
