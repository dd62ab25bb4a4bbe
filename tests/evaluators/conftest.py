from __future__ import annotations

from pathlib import Path

import pytest
from evaluating import OverRun


@pytest.fixture
def over(tmp_path: Path) -> OverRun:
    return OverRun(tmp_path / "run")
