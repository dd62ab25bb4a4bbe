"""A repository to start from, and a cache that is nobody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_lab import new_repository
from youbencha.workspace import Repository, open_repository


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "source")


class Opener:
    """`open_repository` with what every test has."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.cache_dir = base / "cache"
        self.said: list[str] = []

    async def __call__(self, source: str | Path, **about: str) -> Repository:
        return await open_repository(
            str(source), base=self.base, cache_dir=self.cache_dir, progress=self.said.append, **about
        )

    async def checked_out(self, source: str | Path, **about: str) -> Path:
        directory = self.base / "run" / "src-modified"
        directory.mkdir(parents=True)
        await (await self(source, **about)).check_out(directory)
        return directory


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    return Opener(tmp_path)
