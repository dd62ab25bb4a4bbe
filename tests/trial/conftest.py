"""The bench for trials in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from trial_bench import TrialBench


@pytest.fixture
def trials(tmp_path: Path) -> TrialBench:
    return TrialBench(tmp_path)
