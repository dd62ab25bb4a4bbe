"""A repository to start from, and a cache that is nobody's."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_lab import Opener, new_repository


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "source")


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    return Opener(tmp_path)
