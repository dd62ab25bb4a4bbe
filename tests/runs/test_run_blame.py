"""Who is to blame: what breaks around an agent makes a run invalid, and is never the agent's."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from engine_proxy import EngineProxy
from run_bench import PATIENCE_S, Outcome, RunBench, cut_off

from agent_clis import NEWEST, OLD, OLDEST
from claude_bench import API_KEY, bash, full, says, script, versions
from docker_engine import Engine
from small_disk import MIB, small_disk
from toolbox_tools import installed
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

BEGUN = "echo begun > begun.txt; "
PLACES = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
UNTIL_TOLD = BEGUN + "until [ -e go ]; do sleep 0.05; done; echo done > done.txt"


def assert_invalid(done: Outcome, name: str, reason: str = "") -> None:
    """Its results are complete, and say that the agent was not measured."""
    assert done.bundle.execution.complete
    outcome = done.bundle.outcome
    assert outcome is not None
    assert (outcome.name, outcome.valid) == (name, False), outcome.reason
    assert reason in outcome.reason
    assert (done.artifacts / "report.md").is_file()


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
    outcome = Outcome(done, scene.run / "artifacts")
    assert_invalid(outcome, "infra_error")
    assert "begun.txt" in outcome.diff


TAKE_ALL = {
    "space": "head -c 2000000000 /dev/zero > big",
    "files": 'i=0; while : > "f$i"; do i=$((i+1)); done',
}
"""An agent that takes all there is, on a disk that is smaller than its limit, and says that it succeeded."""


@pytest.mark.parametrize("sandbox", ["local", "docker"])
@pytest.mark.parametrize("what", TAKE_ALL.values(), ids=list(TAKE_ALL))
async def test_a_full_disk(runs: RunBench, image: str, tmp_path: Path, sandbox: str, what: str) -> None:
    agent = runs.program(f"{{ {what}; }} 2>/dev/null; true")
    with small_disk(tmp_path / "disk", size=256 * MIB, files=3_000) as disk:
        given = {"type": sandbox, **({"image": image} if sandbox == "docker" else {})}
        runs.workspace = disk / "runs"
        cache = (
            {"XDG_CACHE_HOME": str(disk / "cache")} if sandbox == "local" else {}
        )  # an agent on the host works there
        done = await runs.run(agent, workspace_dir=str(runs.workspace), sandbox=given, env={**PLACES, **cache})
        assert done.done.code == 1, done.done.err
        assert_invalid(done, "infra_error", "was full")


@pytest.mark.parametrize("what", TAKE_ALL.values(), ids=list(TAKE_ALL))
async def test_the_limit_of_disk_space(runs: RunBench, image: str, tmp_path: Path, what: str) -> None:
    """The agent's own limit, not a fault of the host; and its results are complete."""
    agent = runs.program(f"{{ {what}; }} 2>/dev/null; sleep 1000")
    with small_disk(tmp_path / "disk", size=1024 * MIB, files=20_000) as disk:
        runs.workspace = disk / "runs"
        given = {"type": "docker", "image": image, "disk": "32m"}
        done = await runs.run(agent, workspace_dir=str(runs.workspace), sandbox=given, env=PLACES)
        assert done.done.code == 1, done.done.err
        assert done.bundle.execution.complete
        assert done.bundle.outcome is not None
        assert (done.bundle.outcome.name, done.bundle.outcome.valid) == ("limit", True), done.bundle.outcome.reason
        assert "disk (32 MiB)" in done.bundle.outcome.reason
        assert (done.artifacts / "report.md").is_file()


@pytest.mark.parametrize("place", [".", "$HOME"])
async def test_a_full_disk_and_evaluators_that_need_room(runs: RunBench, tmp_path: Path, place: str) -> None:
    """The reference is written after the agent has ended, and evaluators write results: none of this fits."""
    files = (
        'i=0; while head -c 3000 /dev/urandom > "{0}/f$i"; do i=$((i+1)); done; head -c 99000000 /dev/zero > "{0}/big"'
    )
    runs.commit({"words.txt": "some words that are longer than the room set aside\n" * 8_000})
    with small_disk(tmp_path / "disk", size=6 * MIB) as disk:
        runs.workspace = disk / "runs"
        done = await runs.run(
            runs.program(f"{{ {files.format(place)}; }} 2>/dev/null; true"),
            workspace_dir=str(runs.workspace),
            evaluators=["expected-diff", "git-diff", "git-diff"],
            expected_source="branch",
            expected="main",
            env={"XDG_CACHE_HOME": str(disk / "cache")},  # where the workspace and the home of an agent on the host are
        )
        assert done.done.code == 1, done.done.err
        assert_invalid(done, "infra_error", "was full")


async def test_a_full_disk_for_output(runs: RunBench, tmp_path: Path) -> None:
    """Where output is spooled: its end is lost, although the agent exits with 0."""
    with small_disk(tmp_path / "tmp", size=16 * MIB) as disk:
        agent = runs.program(f"cat /dev/zero > '{disk}/big'; echo the answer; exit 0")
        done = await runs.run(agent, env={"TMPDIR": str(disk)})
        assert done.done.code == 1, done.done.err
        assert_invalid(done, "infra_error", "was full")


async def test_a_full_disk_while_a_command_judges(runs: RunBench, tmp_path: Path) -> None:
    with small_disk(tmp_path / "tmp", size=16 * MIB) as disk:
        tests = {"name": "command", "config": {"command": f"cat /dev/zero > '{disk}/big'", "shell": True}}
        done = await runs.run(runs.program("true"), evaluators=[tests], env={"TMPDIR": str(disk)})
        assert_invalid(done, "verifier_error")


FOREVER = {"times": "forever"}
ANSWERS: dict[str, tuple[dict[str, Any], ...]] = {
    "a rate limit": ({"error": {"status": 429}, **FOREVER},),
    "overload": ({"error": {"status": 529}, **FOREVER},),
    "overload after an answer": (bash("echo begun > begun.txt"), {"error": {"status": 529}, **FOREVER}),
}


@versions(NEWEST, full(OLD), OLDEST)
@pytest.mark.parametrize("output", ["stream-json", pytest.param("text", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(turns, id=name, marks=[pytest.mark.full] if len(turns) == 1 else [])
        for name, turns in ANSWERS.items()
    ],
)
async def test_a_provider_that_fails_until_the_deadline(
    runs: RunBench, claude_cli: InstalledAgent, output: str, answers: tuple[dict[str, Any], ...]
) -> None:
    async with ScriptedModel(script(*answers)) as model:
        agent = runs.claude(claude_cli, model, config={"output_format": output})
        for timeout_ms in (8_000, 40_000):  # a CLI that starts slowly has not even asked
            done = await runs.run(agent, timeout=timeout_ms)
            if len([request for request in model.requests if request.kind == "turn"]) > len(answers):
                break
    assert done.log.execution.status == "timeout"
    assert_invalid(done, "provider_error")


@pytest.mark.full
@versions(NEWEST)
@pytest.mark.parametrize("output", ["stream-json", "text"])
async def test_a_provider_that_recovers(runs: RunBench, claude_cli: InstalledAgent, output: str) -> None:
    """Then the time is the agent's."""
    answers = script({"error": {"status": 529}}, bash("echo begun > begun.txt; while :; do sleep 1; done"))
    async with ScriptedModel(answers) as model:
        agent = runs.claude(claude_cli, model, config={"output_format": output})
        done = await cut_off(lambda timeout: runs.run(agent, timeout=timeout), 6_000, "begun.txt")
    assert done.bundle.outcome is not None
    assert (done.bundle.outcome.name, done.bundle.outcome.valid) == ("limit", True), done.bundle.outcome.reason


@pytest.mark.full
@versions(NEWEST)
async def test_a_crashed_litellm(runs: RunBench, claude_cli: InstalledAgent, tmp_path: Path) -> None:
    """The agent's time is up before the gateway has seen enough failures to stop asking."""
    started = {"executable": str(installed("litellm").executable), "startup_timeout_s": 180}
    config = {"prompt": "Do it.", "executable": str(claude_cli.executable)}
    agent = {"type": "claude-code", "model": "claude-sonnet-4-5", "config": config, "env": {"IS_SANDBOX": "1"}}
    answers = script(bash("echo begun > begun.txt; until [ -e go ]; do sleep 0.1; done"), says("Never said."))
    places = tmp_path / "t"
    places.mkdir()
    async with ScriptedModel(answers) as model:
        keys = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY, "TMPDIR": str(places)}
        gateway = {"type": "litellm", "litellm": started}
        run = asyncio.create_task(runs.run(agent, env=keys, gateway=gateway, timeout=16_000))
        async with asyncio.timeout(PATIENCE_S):
            while not runs.runs() or not (runs.runs()[-1] / "src-modified" / "begun.txt").exists():
                assert not run.done(), run.result()
                await asyncio.sleep(0.1)
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    if any(f"{places}/youbencha-litellm-" in part for part in process.cmdline()):
                        process.kill()
            (runs.runs()[-1] / "src-modified" / "go").touch()
            assert_invalid(await run, "provider_error")
