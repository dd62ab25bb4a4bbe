"""A trial that does nothing, in a container and locally, compared with a bare container and a bare process."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.measure import ComponentMissing, Figure, ms
from bench.runs import Project
from youbencha.process import Command
from youbencha.sandbox.docker.sandbox import open_docker_sandbox
from youbencha.sandbox.local import open_local_sandbox
from youbencha.spec.sandbox import SandboxSpec
from youbencha.workspace import Snapshot, open_repository

_ROUNDS = 8
_AT_ONCE = (1, 4)
_GOAL_TIMES = 2.0
_GOAL_S = 1.0
_LOCAL_ROUNDS = 40
_IMAGE = os.environ.get("YOUBENCHA_TEST_IMAGE", "youbencha/base:bookworm")


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="yb-bench-") as name:
        project = Project(Path(name))
        yield asyncio.run(_local(project))
        _require_docker()
        for at_once in _AT_ONCE:
            yield asyncio.run(_docker(project, at_once))


def _require_docker() -> None:
    try:
        subprocess.run(["docker", "image", "inspect", _IMAGE], check=True, capture_output=True, text=True, timeout=10)
    except FileNotFoundError:
        reason = "there is no docker command"
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip()
    else:
        return
    raise ComponentMissing(f'null trial in Docker ({reason}): run `eval "$(scripts/docker-engine start)"`')


async def _local(project: Project) -> Figure:
    """Only the sandbox: a program with a fresh home, compared with a bare process."""
    true = shutil.which("true") or "/bin/true"
    command = Command(argv=(true,), cwd=project.root, env={"PATH": os.environ["PATH"]})

    async def ours() -> None:
        with tempfile.TemporaryDirectory() as scratch:
            sandbox = open_local_sandbox(scratch=Path(scratch))
            await sandbox.run(command)
            await sandbox.freeze()

    async def bare() -> None:
        process = await asyncio.create_subprocess_exec(true)
        await process.wait()

    await ours()
    pair = await _alternate(ours, bare, _LOCAL_ROUNDS)
    return Figure(
        "a process in the local sandbox", ms(pair.ours), f"bare process {ms(pair.bare)}", "≤ 20 ms above",
        pair.ours - pair.bare <= 0.02,
    )  # fmt: skip


async def _docker(project: Project, at_once: int) -> Figure:
    repository = await open_repository(str(project.repository), base=project.root, cache_dir=project.root / "cache")
    trees = [project.root / f"tree{at_once}-{number}" for number in range(at_once)]
    starts = []
    for tree in trees:
        tree.mkdir()
        await repository.check_out(tree)
        starts.append(await repository.snapshot(tree, tree.with_suffix(".git")))

    async def ours() -> None:
        await asyncio.gather(*(_null_trial(tree, start) for tree, start in zip(trees, starts, strict=True)))

    async def bare() -> None:
        await asyncio.gather(*(_docker_run() for _ in range(at_once)))

    await ours()  # copies the init program of containers into the cache, if necessary
    pair = await _alternate(ours, bare, _ROUNDS)
    return Figure(
        f"null trial in Docker, {at_once} at a time",
        f"{ms(pair.ours)} ({pair.ours / pair.bare:.2f}×)",
        f"docker run --rm … true {ms(pair.bare)}",
        "≤ 2× and ≤ 1 s",
        pair.ours <= _GOAL_TIMES * pair.bare and pair.ours <= _GOAL_S,
    )


async def _null_trial(tree: Path, start: Snapshot) -> None:
    """Create, run, freeze, diff, remove."""
    with tempfile.TemporaryDirectory(prefix="yb-") as name:
        scratch = Path(name)
        spec = SandboxSpec(type="docker", image=_IMAGE, network="none")
        async with open_docker_sandbox(
            spec, workspace=tree, scratch=scratch, run_id="bench", on_event=lambda _: None
        ) as sandbox:
            done = await sandbox.run(Command(argv=("true",), cwd=tree, env={}))
            assert done.exit.code == 0, done
            await sandbox.freeze()
            await start.changes(scratch / "diff.patch")


async def _docker_run() -> None:
    process = await asyncio.create_subprocess_exec(
        "docker", "run", "--rm", "--network", "none", _IMAGE, "true", stdout=subprocess.DEVNULL
    )
    assert await process.wait() == 0


class _Pair(NamedTuple):
    ours: float
    bare: float


async def _alternate(ours: Callable[[], Awaitable[None]], bare: Callable[[], Awaitable[None]], rounds: int) -> _Pair:
    """Alternate between the two, so that both are measured under the same conditions."""
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(rounds):
        for name, call in (("bare", bare), ("ours", ours)):
            start = time.perf_counter()
            await call()
            seconds[name].append(time.perf_counter() - start)
    return _Pair(statistics.median(seconds["ours"]), statistics.median(seconds["bare"]))
