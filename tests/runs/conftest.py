"""The bench for whole runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_lab import RunLab

from docker_lab import engine, image

__all__ = ["engine", "image", "runs"]


@pytest.fixture
def runs(tmp_path: Path) -> RunLab:
    made = RunLab(tmp_path)
    made.make_repository()
    return made
