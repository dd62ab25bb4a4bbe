from __future__ import annotations

from pathlib import Path

import pytest
from judge_lab import JudgeLab


@pytest.fixture
def bench(tmp_path: Path) -> JudgeLab:
    return JudgeLab(tmp_path)
