"""The option that updates golden files, and what their tests share."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from golden_files import DATA, Golden, GoldenBench

from docker_engine import engine, image

__all__ = ["bench", "engine", "golden", "image"]

if sys.platform == "win32":  # the golden files hold paths and programs of POSIX systems
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(DATA, update=bool(request.config.getoption("--update-golden")))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoldenBench]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}  # `yb` sets its own
    yield GoldenBench(tmp_path, monkeypatch)
    for number, handler in handlers.items():
        signal.signal(number, handler)
