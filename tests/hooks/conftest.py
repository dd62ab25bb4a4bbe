from __future__ import annotations

from pathlib import Path

import pytest
from hook_lab import Lab


@pytest.fixture
def hook_lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)
