from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from process_lab import Programs, eventually


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    yield made
    eventually(lambda: not made.alive(), f"left over: {made.alive()}")
