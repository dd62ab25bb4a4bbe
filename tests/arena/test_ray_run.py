"""Trials on a Ray cluster of two nodes."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from arena_process import ANSWER, ANSWER_TOKENS, ANSWER_USD, ArenaProject, project_with_one_model_call
from engine_bench import EngineBench, appear, events, metas
from ray_bench import RayBench

from agent_clis import NEWEST
from claude_bench import API_KEY, bash, says, script, versions
from docker_engine import Engine, engine, image
from youbencha.engine.matrix import Matrix
from youbencha.engine.ray.cluster import connect
from youbencha.engine.run import MatrixOptions, run_matrix
from youbencha.engine.updates import AttemptEvent, Update
from youbencha.errors import YouBenchaError
from youbencha.events import ModelCalled, ProcessStarted
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel
from youbencha.store.arena import TrialKey
from youbencha.store.arena_run import ArenaRun

__all__ = ["engine", "image"]
_VARY = {"duration_s", "attempts", "started_at", "completed_at", "identity"}


def comparable(run: ArenaRun) -> dict[str, object]:
    return {name: meta.model_dump(exclude=_VARY) for name, meta in metas(run).items()}


def artifacts(run: ArenaRun) -> dict[str, bytes]:
    """The last attempt's files, by name."""
    files = [file for file in run.path.glob("trials/*/*/*/attempts/1/**/*") if file.is_file()]
    names = [re.sub(r"\d{4}-\d\d-\d\dT?[\d-]*Z?", "TIME", str(file.relative_to(run.path))) for file in files]
    return {name: file.read_bytes() for name, file in sorted(zip(names, files, strict=True))}


async def refused(address: str, env: Mapping[str, str]) -> YouBenchaError:
    with pytest.raises(YouBenchaError) as raised:
        async with connect(address, env):
            pass
    return raised.value


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
    for name, content in remote.items():  # the transcript and the terminal show what happened on the node
        assert str(cluster.cache).encode() not in content or b"terminal" in content or name.endswith("transcript.jsonl")
    kinds = [type(update.event) for update in happened if isinstance(update, AttemptEvent)]
    assert ProcessStarted in kinds
    bench.assert_nothing_is_left()
    cluster.assert_nothing_is_left()


async def test_a_cancelled_run_leaves_nothing_on_nodes(cluster: RayBench, tmp_path: Path) -> None:
    bench = EngineBench(tmp_path)
    host = bench.host()
    matrix = Matrix(cells=(bench.cell(host, "agent", "task", "sleep 600"),), trials=1)
    run = bench.new_run(matrix)
    started = asyncio.get_running_loop().create_future()

    def on_update(update: Update) -> None:
        match update:
            case AttemptEvent(event=ProcessStarted(pid=pid)):
                started.set_result(pid)

    running = asyncio.create_task(cluster.run(matrix, host, run, on_update))
    agent = await started
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not psutil.pid_exists(agent)
    (noted,) = [line["attempt"] for line in events(run, "attempt_finished")]
    assert (noted["outcome"], noted["reason"], noted["cost_usd"]) == ("interrupted", "The run was interrupted.", None)
    bench.assert_nothing_is_left()
    cluster.assert_nothing_is_left()


async def test_a_node_is_not_the_head(cluster: RayBench) -> None:
    error = await refused(f"127.0.0.1:{cluster.nodes[0].node_manager_port}", cluster.token)
    assert error.code == "RAY_UNREACHABLE"
    assert "is not the head of a Ray cluster" in error.message


async def test_a_cluster_requires_its_token(cluster: RayBench) -> None:
    for env, code in (
        ({}, "RAY_TOKEN_MISSING"),
        ({"RAY_AUTH_TOKEN_PATH": "/no/such/file"}, "RAY_TOKEN_MISSING"),
        ({"RAY_AUTH_TOKEN": "another"}, "RAY_TOKEN_INVALID"),
        ({**cluster.token, "RAY_AUTH_MODE": "disabled"}, "RAY_AUTH_MODE_MISMATCH"),
    ):
        error = await refused(cluster.address, env)
        assert error.code == code
        assert error.hint


def claude(cli: InstalledAgent) -> dict[str, object]:
    return {
        "type": "claude-code",
        "model": "claude-opus-4-5",
        "config": {"prompt": "Do it.", "executable": str(cli.executable)},
        "env": {"IS_SANDBOX": "1"},
    }


@versions(NEWEST)
async def test_keys_stay_with_the_driver(cluster: RayBench, tmp_path: Path, claude_cli: InstalledAgent) -> None:
    bench = EngineBench(tmp_path)
    environ = tmp_path / "environ"
    parents = "p=$$; while test $p -gt 1; do cat /proc/$p/environ; p=$(awk '/PPid/ {print $2}' /proc/$p/status); done"
    key = f"{API_KEY[:6]}''{API_KEY[6:]}"  # in two parts: the command is in the transcript
    look = f"({parents}) > '{environ}'; grep -rl {key} '{cluster.home}' > '{environ}'-files; echo x > done.txt"
    async with ScriptedModel(script(bash(look), says("Done."))) as model:
        host = bench.host({"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY})
        cell = bench.cell(host, "claude", "task", agent=claude(claude_cli), gateway="builtin")
        matrix = Matrix(cells=(cell,), trials=1)
        run = bench.new_run(matrix)
        summary = await cluster.run(matrix, host, run)
    (meta,) = metas(run).values()
    assert summary.complete
    assert (meta.outcome, meta.valid) == ("solved", True)
    assert (meta.total_cost_usd or 0) > 0
    seen = environ.read_bytes()
    assert b"sk-yb-" in seen
    assert API_KEY.encode() not in seen
    assert Path(f"{environ}-files").read_text() == ""
    ledger = run.path / "trials/claude/task/trial-1/attempts/1/artifacts/gateway-ledger.jsonl"
    assert ledger.is_file(), sorted(ledger.parent.iterdir())


@pytest.mark.full
@versions(NEWEST)
async def test_a_budget_holds_over_all_nodes(cluster: RayBench, tmp_path: Path, claude_cli: InstalledAgent) -> None:
    bench = EngineBench(tmp_path)
    expensive = {**bash("sleep 0.1"), "usage": {"input_tokens": 100, "output_tokens": 5_000}, "times": "forever"}
    async with ScriptedModel(script(expensive)) as model:
        host = bench.host({"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY})
        gateway = {"type": "builtin", "budget_total_usd": 3.0}
        cells = tuple(
            bench.cell(host, name, "task", agent=claude(claude_cli), gateway=gateway) for name in ("one", "two")
        )
        matrix = Matrix(cells=cells, trials=1)
        run = bench.new_run(matrix)
        summary = await cluster.run(matrix, host, run)
    assert "the budget of the run is spent" in (summary.stopped or "")
    spent = {line["orchestrator"]: line["attempt"]["cost_usd"] for line in events(run, "attempt_finished")}
    assert min(spent.values()) > 0
    assert 1.5 < sum(spent.values()) < 3.3  # the model of this test ignores `max_tokens` of the last requests


@pytest.mark.full
@versions(NEWEST)
async def test_a_container_of_a_lost_process_is_removed(
    cluster: RayBench, tmp_path: Path, claude_cli: InstalledAgent, engine: Engine, image: str
) -> None:
    bench = EngineBench(tmp_path)
    killed: list[int] = []
    async with ScriptedModel(script(bash("echo x > done.txt; sleep 1"), says("Done."))) as model:
        host = bench.host({"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY})
        sandbox = {"type": "docker", "image": image}
        cell = bench.cell(host, "claude", "task", agent=claude(claude_cli), gateway="builtin", sandbox=sandbox)
        matrix = Matrix(cells=(cell,), trials=1)
        run = bench.new_run(matrix)

        def on_update(update: Update) -> None:
            match update:
                case AttemptEvent(event=ModelCalled()) if not killed:
                    for process in cluster.processes():
                        if process.name() == "ray::run_on_node":
                            killed.append(process.pid)
                            process.kill()

        summary = await cluster.run(matrix, host, run, on_update)
    (meta,) = metas(run).values()
    assert (summary.complete, meta.outcome) == (True, "solved")
    first, second = meta.attempts
    assert (first.outcome, second.outcome) == ("infra_error", "solved")
    assert "was killed" in first.reason
    assert (first.cost_usd or 0) > 0
    trial = run.trial(TrialKey("claude", "task", 1))
    assert [engine.containers(f"youbencha.run={trial.attempt_id(number)}") for number in (1, 2)] == [[], []]
    cluster.assert_nothing_is_left()


def test_the_command_runs_scripts_and_validations_on_nodes(cluster: RayBench, tmp_path: Path) -> None:
    project = ArenaProject(tmp_path)
    project.more_env.update(cluster.token)
    adapters = tmp_path / "adapters"
    adapters.mkdir()
    (adapters / "agent.sh").write_text('. "$(dirname "$0")/common.sh"\nls -A "$(dirname "$0")" > made.txt\nwork\n')
    (adapters / "common.sh").write_text("work() { echo $COLOUR >> made.txt; }\n")
    (adapters / "secrets.env").write_text("COLOUR=green\nANTHROPIC_API_KEY=sk-ant-0123456789\n")
    (adapters / "secrets.env").chmod(0o600)
    project.write(
        orchestrators=[{"name": "scripted", "adapter": "adapters/agent.sh", "env": {"COLOUR": "${COLOUR}"}}],
        secrets={"env_file": "adapters/secrets.env"},
        tasks=1,
    )
    done = project.run_here(
        "--executor", "ray", "--address", cluster.address, "--json", "--results", str(adapters / "results")
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["composite_score"] for row in document["results"]] == [1.0]
    patch = Path(document["directory"], "trials/scripted/task-1/trial-1/diff.patch").read_text()
    added = [line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added == ["agent.sh", "common.sh", "green"]
    cluster.assert_nothing_is_left()


async def test_trials_of_a_lost_node_run_elsewhere(cluster: RayBench, tmp_path: Path) -> None:
    bench = EngineBench(tmp_path)
    host = bench.host()
    matrix = bench.matrix(host, script="sleep 0.5; echo done > done.txt")
    undisturbed, run = bench.new_run(matrix), bench.new_run(matrix)
    await run_matrix(matrix, bench.host(), undisturbed, MatrixOptions(parallel=4))
    agents: list[int] = []

    def on_update(update: Update) -> None:
        match update:
            case AttemptEvent(event=ProcessStarted(pid=pid)):
                agents.append(pid)
                if len(agents) == 2:  # one on each node
                    cluster.kill(cluster.nodes[0])

    summary = await cluster.run(matrix, host, run, on_update)
    assert (summary.complete, summary.not_valid) == (True, 0)
    assert comparable(run) == comparable(undisturbed)
    finished = Counter((line["orchestrator"], line["task"], line["number"]) for line in events(run, "trial_finished"))
    assert set(finished.values()) == {1}
    lost = [attempt for meta in metas(run).values() for attempt in meta.attempts if attempt.outcome == "killed"]
    assert [re.fullmatch(r"The node .* was lost\.", attempt.reason) is not None for attempt in lost] == [True]
    await gone(*agents)
    bench.assert_nothing_is_left()
    cluster.assert_nothing_is_left()


@pytest.mark.full
@pytest.mark.parametrize("killed", ["driver", "node", "process"])
async def test_a_killed_attempt_has_its_reason_and_its_cost(cluster: RayBench, tmp_path: Path, killed: str) -> None:
    project = project_with_one_model_call(tmp_path)
    options = ("--executor", "ray", "--address", cluster.address)
    async with ScriptedModel(ANSWER) as model:
        project.more_env = {**cluster.token, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        process = project.start(*options)
        await appear(tmp_path / "asked")
        (worker,) = (process for process in cluster.processes() if process.name() == "ray::run_on_node")
        match killed:
            case "driver":
                process.kill()
                await asyncio.to_thread(process.communicate)
                await gone(worker.pid)
                process = project.start(*options, "--resume")
            case "node":
                cluster.kill(next(node for node in cluster.nodes if worker in cluster.processes_of(node)))
            case "process":
                worker.kill()
        (tmp_path / "go").touch()
        _, errors = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, errors
    (meta,) = metas(project.latest).values()
    first, _ = meta.attempts
    reason = {
        "driver": r"youBencha was killed during the attempt\.",
        "node": r"The node .* was lost\.",
        "process": r"The process of the trial on .* was killed\.",
    }
    assert re.fullmatch(reason[killed], first.reason)
    assert first.outcome == ("infra_error" if killed == "process" else "killed")
    assert (first.cost_usd, first.total_tokens, first.partial) == (ANSWER_USD, ANSWER_TOKENS, True)
    assert first.started_at
    assert meta.all_attempts_cost_usd == pytest.approx(2 * ANSWER_USD)
    report = await asyncio.to_thread(project.run_here_as, "report")
    assert first.reason in report.stdout


async def gone(*pids: int) -> None:
    async with asyncio.timeout(20):
        while any(map(psutil.pid_exists, pids)):
            await asyncio.sleep(0.05)
