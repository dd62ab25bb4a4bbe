"""Trials on a Ray cluster of two nodes."""

from __future__ import annotations

import re
from pathlib import Path

from engine_bench import EngineBench, metas
from ray_bench import RayBench

from youbencha.engine.results import ArenaRun
from youbencha.engine.run import MatrixOptions, run_matrix
from youbencha.engine.updates import AttemptEvent, Update
from youbencha.events import ProcessStarted

_VARY = {"duration_s", "attempts", "started_at", "completed_at", "identity"}


def comparable(run: ArenaRun) -> dict[str, object]:
    return {name: meta.model_dump(exclude=_VARY) for name, meta in metas(run).items()}


def artifacts(run: ArenaRun) -> dict[str, bytes]:
    """The last attempt's files, by name."""
    files = [file for file in run.path.glob("trials/*/*/*/attempts/1/**/*") if file.is_file()]
    names = [re.sub(r"\d{4}-\d\d-\d\dT?[\d-]*Z?", "TIME", str(file.relative_to(run.path))) for file in files]
    return {name: file.read_bytes() for name, file in sorted(zip(names, files, strict=True))}


async def test_results_are_those_of_a_local_run(cluster: RayBench, tmp_path: Path) -> None:
    bench = EngineBench(tmp_path)
    host = bench.host()
    matrix = bench.matrix(host, tasks=1)
    here, there = bench.new_run(matrix), bench.new_run(matrix)
    await run_matrix(matrix, host, here, MatrixOptions())
    happened: list[Update] = []
    summary = await cluster.run(matrix, bench.host(), there, happened.append)
    assert summary.complete
    assert not summary.not_valid
    assert comparable(there) == comparable(here)
    local, remote = artifacts(here), artifacts(there)
    assert remote.keys() == local.keys()
    patch = "trials/agent-1/task-1/trial-1/attempts/1/artifacts/git-diff.patch"
    assert remote[patch] == local[patch] != b""
    for content in remote.values():
        assert str(cluster.cache).encode() not in content or b"terminal" in content
    kinds = [type(update.event) for update in happened if isinstance(update, AttemptEvent)]
    assert ProcessStarted in kinds
    bench.assert_nothing_is_left()
    cluster.assert_nothing_is_left()
