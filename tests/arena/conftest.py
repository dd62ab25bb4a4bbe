"""The bench for arenas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from arena_bench import ArenaBench
from ray_bench import RayBench


@pytest.fixture
def arenas(tmp_path: Path) -> ArenaBench:
    return ArenaBench(tmp_path)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: empty, with a home and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".youbencharc").write_text(f"cache_dir: {tmp_path / 'cache'}\n")
    return tmp_path


@pytest.fixture(scope="session")
def ray_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayBench]:
    bench = RayBench(tmp_path_factory.mktemp("ray"))
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture
def cluster(ray_bench: RayBench) -> RayBench:
    """A Ray cluster of two nodes."""
    return ray_bench.with_two_nodes()
