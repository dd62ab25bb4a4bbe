from __future__ import annotations

from pathlib import Path

import pytest
from hook_bench import HookBench


@pytest.fixture
def hook_bench(tmp_path: Path) -> HookBench:
    return HookBench(tmp_path)
