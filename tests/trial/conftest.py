"""The bench for trials in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from trial_bench import TrialBench

from docker_engine import engine, image

__all__ = ["engine", "image"]


@pytest.fixture
def trials(tmp_path: Path) -> TrialBench:
    return TrialBench(tmp_path)
