"""The bench for arenas."""

from __future__ import annotations

from pathlib import Path

import pytest
from arena_bench import ArenaBench


@pytest.fixture
def arenas(tmp_path: Path) -> ArenaBench:
    return ArenaBench(tmp_path)
