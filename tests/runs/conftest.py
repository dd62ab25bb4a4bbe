"""The bench for whole runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_bench import RunBench

from docker_engine import engine, image

__all__ = ["engine", "image", "runs"]


@pytest.fixture
def runs(tmp_path: Path) -> RunBench:
    made = RunBench(tmp_path)
    made.make_repository()
    return made
