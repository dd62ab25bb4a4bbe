"""Who is to blame: what breaks around an agent makes a run invalid, and is never the agent's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from engine_proxy import EngineProxy
from run_bench import PATIENCE_S, RunBench

from docker_engine import Engine
from youbencha.log.results import ResultsBundle

BEGUN = "echo begun > begun.txt; "
UNTIL_TOLD = BEGUN + "until [ -e go ]; do sleep 0.05; done; echo done > done.txt"


class Scene:
    """A run in a container, and what happens to it from outside."""

    def __init__(self, runs: RunBench, engine: Engine, proxy: EngineProxy) -> None:
        self.runs = runs
        self.proxy = proxy
        self._engine = engine

    @property
    def run(self) -> Path:
        return self.runs.runs()[-1]

    async def docker(self, method: str, path: str) -> None:
        (name,) = self._engine.containers(f"youbencha.run={self.run.name}")
        await asyncio.to_thread(self._engine.call, method, path.format(name=name))

    async def removed(self) -> None:
        await self.docker("DELETE", "/containers/{name}?force=1")

    async def killed(self) -> None:
        await self.docker("POST", "/containers/{name}/kill")

    async def stopped(self) -> None:
        await self.docker("POST", "/containers/{name}/stop?t=10")

    async def engine_gone(self) -> None:
        """The container lives on, and its agent finishes."""
        await self.proxy.cut()
        (self.run / "src-modified" / "go").touch()

    async def engine_gone_with_its_containers(self) -> None:
        await self.proxy.cut()
        await self.killed()

    async def engine_restarted(self) -> None:
        """An engine that starts ends the containers that an earlier one left."""
        await self.engine_gone_with_its_containers()
        await self.proxy.start()


@pytest.fixture
async def scene(runs: RunBench, engine: Engine, tmp_path: Path) -> AsyncIterator[Scene]:
    proxy = EngineProxy(tmp_path / "e.sock", engine.socket)
    await proxy.start()
    scene = Scene(runs, engine, proxy)
    yield scene
    await proxy.cut()
    for run in runs.runs():
        for name in engine.containers(f"youbencha.run={run.name}"):
            engine.call("DELETE", f"/containers/{name}?force=1")


@pytest.mark.parametrize(
    "happens",
    [
        Scene.removed,
        Scene.killed,
        Scene.stopped,
        Scene.engine_gone,
        Scene.engine_gone_with_its_containers,
        Scene.engine_restarted,
    ],
)
async def test_a_container_or_an_engine_that_is_taken_away(
    scene: Scene, image: str, happens: Callable[[Scene], Awaitable[None]]
) -> None:
    runs = scene.runs
    runs.write_case(runs.program(UNTIL_TOLD), sandbox={"type": "docker", "image": image})
    run = asyncio.create_task(
        runs.yb("run", "-c", str(runs.case_file), env={"DOCKER_HOST": f"unix://{scene.proxy.path}"})
    )
    async with asyncio.timeout(PATIENCE_S):
        while not runs.runs() or not (scene.run / "src-modified" / "begun.txt").exists():
            assert not run.done(), run.result()
            await asyncio.sleep(0.05)
        await happens(scene)
        done = await run
    assert done.code == 1, done.err
    bundle = ResultsBundle.model_validate_json((scene.run / "artifacts" / "results.json").read_bytes())
    assert bundle.execution.complete
    assert bundle.outcome is not None
    assert (bundle.outcome.name, bundle.outcome.valid) == ("infra_error", False), bundle.outcome.reason
    assert "begun.txt" in (scene.run / "artifacts" / "git-diff.patch").read_text()
