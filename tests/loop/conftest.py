"""Fixtures of a container engine (tests that use them are skipped without one), and of loops."""

from pathlib import Path

import pytest
from loop_bench import LoopBench

from docker_engine import engine, image

__all__ = ["engine", "image", "loops"]


@pytest.fixture
def loops(tmp_path: Path) -> LoopBench:
    return LoopBench(tmp_path)
