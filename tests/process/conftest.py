from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_programs import Programs, eventually

if sys.platform == "win32":
    # They import what only POSIX systems have. What Windows does instead: test_process_on_windows.py.
    collect_ignore = ["test_process_spawn.py", "test_process_strays.py", "test_process_windows.py"]


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    yield made
    eventually(lambda: not made.alive(), f"left over: {made.alive()}")
