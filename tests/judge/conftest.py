from __future__ import annotations

from pathlib import Path

import pytest
from judge_bench import JudgeBench


@pytest.fixture
def bench(tmp_path: Path) -> JudgeBench:
    return JudgeBench(tmp_path)
