"""A repository to start from, and a separate cache."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from git_repositories import Opener, new_repository


@pytest.fixture(autouse=True)
def _nobodys_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path_factory.getbasetemp() / "cache-of-the-user"))


@pytest.fixture(scope="session")
def _original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: a dozen calls of git for every test would be most of its time."""
    return new_repository(tmp_path_factory.mktemp("original") / "source")


@pytest.fixture
def source(tmp_path: Path, _original: Path) -> Path:
    return Path(shutil.copytree(_original, tmp_path / "source", symlinks=True))


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    return Opener(tmp_path)
