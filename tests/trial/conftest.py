"""The lab for trials in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from trial_lab import TrialLab


@pytest.fixture
def trials(tmp_path: Path) -> TrialLab:
    return TrialLab(tmp_path)
