"""Trials on other machines: here, processes that have only a portable plan and a ticket for the driver's gateway."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from node_process import PATIENCE_S, ended, start_node
from test_trial_budgets import ASK_UNTIL_REFUSED, BODY, EACH, SCRIPT, WORST, spent
from trial_bench import TrialBench, appear

from agent_clis import NEWEST
from claude_bench import API_KEY, bash, says, script, versions
from docker_engine import Engine, containers_of
from systems import posix_only
from youbencha.engine.attempt import (
    NODE_LOST,
    AttemptLost,
    Consequence,
    FinishedAttempt,
    TrialJob,
    decide_consequence,
    run_attempt,
)
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.resume import run_info
from youbencha.engine.run import MatrixOptions, run_matrix
from youbencha.errors import YouBenchaError
from youbencha.events import Event, EventSink, ModelCalled
from youbencha.gateway.ledger import read_ledger
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.spec.arena import RetrySpec
from youbencha.store.arena import TrialKey
from youbencha.store.arena_run import create_run
from youbencha.store.bundle import ResultsBundle
from youbencha.store.layout import LEDGER_FILE
from youbencha.store.read import ledger_usage, load_results
from youbencha.trial.context import Host
from youbencha.trial.gateway_session import RemoteGateways, Ticket
from youbencha.trial.plan import Plan
from youbencha.trial.remote_gateways import lend, portable
from youbencha.trial.run import run_trial
from youbencha.user_dirs import toolbox_dir
from youbencha.workspace.run_dir import ARTIFACTS

pytestmark = posix_only("a node is a Unix machine")

TOKENS = {"input_tokens": 1000, "output_tokens": 25, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 50}


def keys(model: ScriptedModel) -> dict[str, str]:
    """What only the driver has."""
    return {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}


class Driver:
    """Runs attempts on nodes."""

    def __init__(self, trials: TrialBench, host: Host) -> None:
        self.trials = trials
        self.host = host
        self.events: list[Event] = []

    def artifacts(self, name: str) -> Path:
        """Where the results of an attempt will be."""
        return self.trials.root / "collected" / name / "artifacts"

    @asynccontextmanager
    async def node(
        self, plan: Plan, name: str, agent: str = "one", directory: Path | None = None
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """A node that runs an attempt, until it is ended by the block. `directory` is for its results."""
        artifacts = directory / ARTIFACTS if directory else self.artifacts(name)
        lending = lend(plan, self.host, agent=agent, attempt=name, artifacts=artifacts, on_event=self.events.append)
        async with lending as ticket:
            assert ticket is not None
            job = (portable(plan), ticket, self.trials.runs / name)
            env = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
            env |= {**self.trials.env, "YOUBENCHA_TOOLBOX": str(toolbox_dir())}
            process = await start_node(job, root=self.trials.root, env=env)
            try:
                yield process
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def run(self, plan: Plan, name: str, agent: str = "one") -> str:
        async with self.node(plan, name, agent) as node:
            return await ended(node)


@asynccontextmanager
async def driving(trials: TrialBench, host: Host, *plans: Plan, agent: str = "one") -> AsyncIterator[Driver]:
    async with host.sharing([(agent, plan) for plan in plans], log_dir=trials.root):
        yield Driver(trials, host)


def shape(value: Any) -> Any:
    """Keys and types, without values."""
    if isinstance(value, Mapping):
        return {name: shape(each) for name, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


def claude_plan(trials: TrialBench, host: Host, cli: InstalledAgent, **more: Any) -> Plan:
    repo = trials.root / "repository"
    agent = {
        "type": "claude-code",
        "model": "claude-opus-4-5",
        "config": {"prompt": "Fix the tax.", **more.pop("config", {"executable": str(cli.executable)})},
        "env": {"IS_SANDBOX": "1", "ANTHROPIC_API_KEY": API_KEY},
        **more.pop("agent", {}),
    }
    gateway = {"type": "builtin", "budget_total_usd": 5}
    return trials.plan(
        host, trials.case("", repo=repo if repo.exists() else None, agent=agent, gateway=gateway, **more)
    )


@versions(NEWEST)
async def test_claude_code_on_a_node(trials: TrialBench, claude_cli: InstalledAgent) -> None:
    """It is as if it ran here, and the node never has the key."""
    answers = script(
        bash("env > environment.txt; tr '\\0' '\\n' < /proc/$PPID/environ >> environment.txt"),
        says("Done."),
        usage=TOKENS,
    )
    async with ScriptedModel(answers) as model:
        host = trials.host(keys(model))
        plan = claude_plan(trials, host, claude_cli)
        sent = pickle.dumps(portable(plan))
        secrets = {API_KEY.encode(), model.url.encode()}
        async with driving(trials, host, plan) as driver:
            assert await driver.run(plan, "far") == "done"
    async with ScriptedModel(answers) as model:
        host = trials.host(keys(model))
        plan = claude_plan(trials, host, claude_cli)
        async with host.sharing([("one", plan)], log_dir=trials.root):
            await run_trial(plan, host, directory=trials.runs / "near", agent="one")
    far, near = (
        json.loads((trials.runs / name / "artifacts" / "results.json").read_text()) for name in ("far", "near")
    )
    assert shape(far) == shape(near)
    assert far["agent"]["status"] == "success"
    same_in_both = ("requests", "failed", "models", "usage", "prices", "budget", "ledger", "difference")
    for same in (*same_in_both, "request_fingerprints"):
        assert far["agent"]["gateway"][same] == near["agent"]["gateway"][same], same
    assert far["agent"]["gateway"]["usage"]["input_tokens"] > 1000
    assert far["artifacts"] == near["artifacts"]
    ledger = list(read_ledger(driver.artifacts("far") / LEDGER_FILE))
    assert {line["run"] for line in ledger} == {"far"}
    calls = [event for event in driver.events if isinstance(event, ModelCalled)]
    assert len(calls) == len(ledger) == far["agent"]["gateway"]["requests"]
    assert not (trials.runs / "far" / "artifacts" / LEDGER_FILE).exists()
    assert [secret for secret in secrets if secret in sent] == []
    written = {file: file.read_bytes() for file in (trials.runs / "far").rglob("*") if file.is_file()}
    environment = written[trials.runs / "far" / "src-modified" / "environment.txt"].decode()
    assert "ANTHROPIC_API_KEY=sk-yb-" in environment
    assert not [file for file, content in written.items() if any(each in content for each in {*secrets, b"-ticket-"})]


@versions(NEWEST)
async def test_claude_code_in_a_container_of_a_node(
    trials: TrialBench, claude_cli: InstalledAgent, engine: Engine, image: str
) -> None:
    answers = script(bash("env > environment.txt"), says("Done."), usage=TOKENS)
    async with ScriptedModel(answers) as model:
        host = trials.host(keys(model))
        plan = claude_plan(
            trials,
            host,
            claude_cli,
            config={},
            agent={"version": claude_cli.version},
            sandbox={"type": "docker", "image": image},
        )
        async with driving(trials, host, plan) as driver:
            assert await driver.run(plan, "far") == "done"
    bundle = trials.results(trials.runs / "far")
    assert bundle.agent is not None
    assert (bundle.agent.status, bundle.agent.warnings) == ("success", ())
    assert spent(bundle) > 2000
    environment = (trials.runs / "far" / "src-modified" / "environment.txt").read_text()
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:" in environment
    assert not await asyncio.to_thread(containers_of, "far")


async def test_a_cap_is_shared_by_nodes(trials: TrialBench) -> None:
    """Neither would reach it alone."""
    cap, alone = 1500, 10 * EACH
    async with ScriptedModel(SCRIPT) as model:
        host = trials.host(keys(model))
        program = ASK_UNTIL_REFUSED.replace("range(40)", "range(10)")
        plan = trials.plan(host, trials.case(program, gateway={"type": "builtin", "tokens_total": cap}))
        async with driving(trials, host, plan) as driver:
            both = [driver.run(plan, name, agent) for name, agent in (("first", "one"), ("second", "two"))]
            assert await asyncio.gather(*both) == ["done", "done"]
    bundles = [trials.results(trials.runs / name) for name in ("first", "second")]
    assert cap <= sum(map(spent, bundles)) < cap + WORST < 2 * alone
    refused = [bundle for bundle in bundles if spent(bundle) < alone]
    assert refused
    for bundle in refused:
        assert bundle.outcome is not None
        assert bundle.outcome.name == "limit"
        assert bundle.agent is not None
        assert bundle.agent.gateway is not None
        assert bundle.agent.gateway.budget is not None
        assert bundle.agent.gateway.budget.refused_by == "run"


ASK_AND_WAIT = f"""
import json, os, time, urllib.request
headers = {{"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}}
def ask():
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps({BODY}).encode(), headers))
ask().read()
"""
ASK_FOR_EVER = ASK_AND_WAIT.replace("ask().read()", "while True:\n    try: ask()\n    except OSError: time.sleep(0.01)")


async def test_an_agent_that_ignores_refusals_is_stopped(trials: TrialBench) -> None:
    async with ScriptedModel(SCRIPT) as model:
        host = trials.host(keys(model))
        plan = trials.plan(host, trials.case(ASK_FOR_EVER, gateway={"type": "builtin", "tokens_per_trial": 500}))
        async with driving(trials, host, plan) as driver:
            assert await driver.run(plan, "far") == "done"
    bundle = trials.results(trials.runs / "far")
    assert bundle.outcome is not None
    assert (bundle.outcome.name, spent(bundle)) == ("limit", 500)
    assert bundle.agent is not None
    assert bundle.agent.gateway is not None
    assert bundle.agent.gateway.refused >= 4


async def test_what_a_lost_node_spent_is_known(trials: TrialBench) -> None:
    """Also for the request that was in progress."""
    program = f"{ASK_AND_WAIT}\nopen('asked', 'w').close()\nask().read()"
    answers = Script.model_validate(
        {
            "tools_optional": True,
            "turns": [
                {"text": "yes", "usage": {"input_tokens": 60, "output_tokens": 40}},
                {"text": "no", "hang": True},
            ],
        }
    )
    async with ScriptedModel(answers) as model:
        host = trials.host(keys(model))
        plan = trials.plan(host, trials.case(program, gateway={"type": "builtin", "tokens_total": 100_000}))
        async with host.sharing([("one", plan)], log_dir=trials.root) as budgets:
            driver = Driver(trials, host)
            async with driver.node(plan, "lost") as node, asyncio.timeout(PATIENCE_S):
                await appear(trials.runs / "lost" / "src-modified" / "asked")
                while len(model.requests) < 2:
                    await asyncio.sleep(0.01)
                node.kill()
                await node.wait()
            assert budgets.total.spent_tokens >= EACH
            assert budgets.total.unseen_tokens > 0
            assert budgets.total.reserved_tokens == 0
    lines = list(read_ledger(driver.artifacts("lost") / LEDGER_FILE))
    assert [(line["input_tokens"], line["partial"]) for line in lines[:1]] == [(60, False)]
    assert len(lines) == 2
    usage = ledger_usage(driver.artifacts("lost"))
    assert usage is not None
    assert usage.cost_usd is not None
    assert usage.cost_usd == pytest.approx(sum(line["cost_usd"] or 0 for line in lines))
    assert usage.cost_usd > 0


@pytest.mark.full
async def test_litellm_runs_beside_the_driver(trials: TrialBench) -> None:
    async with ScriptedModel(SCRIPT) as model:
        host = trials.host({**keys(model), "YOUBENCHA_TOOLBOX": str(toolbox_dir())})
        gateway = {"type": "litellm", "litellm": {"startup_timeout_s": 180}}
        plan = trials.plan(host, trials.case(ASK_AND_WAIT, gateway=gateway))
        async with driving(trials, host, plan) as driver:
            assert await driver.run(plan, "far") == "done"
    bundle = trials.results(trials.runs / "far")
    assert spent(bundle) == EACH
    assert bundle.agent is not None
    assert bundle.agent.gateway is not None
    assert (bundle.agent.status, bundle.agent.gateway.type) == ("success", "litellm")
    assert bundle.artifacts.gateway == (LEDGER_FILE,)


class Nodes:
    """An executor that runs each attempt in a process of its own, and loses the first."""

    def __init__(self, driver: Driver, lost_at: Path) -> None:
        self._driver = driver
        self._lost_at = lost_at

    async def run_attempt(
        self, job: TrialJob, number: int, *, on_event: EventSink, keep_workspace: bool
    ) -> FinishedAttempt:
        async def run(directory: Path) -> ResultsBundle:
            name = job.directory.attempt_id(number)
            async with self._driver.node(job.cell.plan, name, job.key.orchestrator, directory) as node:
                if not self._lost_at.exists():
                    await appear(self._lost_at)
                    node.kill()
                    raise AttemptLost(NODE_LOST, "The node was lost.")
                assert await ended(node) == "done"
            shutil.copytree(self._driver.trials.runs / name / ARTIFACTS, directory / ARTIFACTS, dirs_exist_ok=True)
            return load_results(directory)

        return await run_attempt(job, number, run)


async def test_a_trial_whose_node_is_lost_is_repeated(trials: TrialBench) -> None:
    """What the first attempt spent is in the results and in the budget, but not the agent's."""
    flag = trials.root / "asked"
    program = (
        f"{ASK_AND_WAIT}\nif not os.path.exists({str(flag)!r}):\n    open({str(flag)!r}, 'w').close(); time.sleep(1000)"
    )
    async with ScriptedModel(SCRIPT) as model:
        host = trials.host(keys(model))
        plan = trials.plan(host, trials.case(program, gateway={"type": "builtin", "tokens_total": 100_000}))
        cell = Cell(orchestrator="one", task="task", plan=plan, task_text="", agent_hash="a", validation_hash="v")
        matrix = Matrix(cells=(cell,), trials=1)
        run = create_run(trials.root / "results", run_info(matrix, selection={}, options={}))

        @asynccontextmanager
        async def nodes(host: Host) -> AsyncIterator[Nodes]:
            yield Nodes(Driver(trials, host), flag)

        options = MatrixOptions(retries=RetrySpec(attempts=2, backoff_s=0.01))
        summary = await run_matrix(matrix, host, run, options, open_executor=nodes)
    assert summary.complete
    meta = run.trial(TrialKey("one", "task", 1)).meta()
    assert meta is not None
    lost, finished = meta.attempts
    assert (lost.outcome, lost.partial, finished.outcome) == ("killed", True, "solved")
    assert lost.cost_usd == finished.cost_usd == meta.total_cost_usd
    assert (lost.total_tokens, finished.total_tokens, meta.total_tokens) == (EACH, EACH, EACH)
    assert meta.total_cost_usd is not None
    assert summary.spent_usd == pytest.approx(2 * meta.total_cost_usd)


DRIVER = """
import asyncio, pickle, sys
from pathlib import Path
from youbencha.spec.settings import load_settings
from youbencha.trial.context import Host
from youbencha.trial.plan import Plan
from youbencha.trial.remote_gateways import lend

async def drive(plan, env):
    host = Host(env, load_settings(Path.cwd(), Path.home()))
    async with host.sharing([("one", plan)], log_dir=Path.cwd()):
        lending = lend(plan, host, agent="one", attempt="far", artifacts=Path("artifacts"), on_event=lambda _: None)
        async with lending as ticket:
            print(pickle.dumps(ticket).hex(), flush=True)
            await asyncio.Event().wait()

asyncio.run(drive(*pickle.load(sys.stdin.buffer)))
"""


@asynccontextmanager
async def driver_process(trials: TrialBench, plan: Plan, host: Host) -> AsyncIterator[tuple[Any, Ticket]]:
    """A driver in a process of its own, so that it can be killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DRIVER), cwd=trials.root, env=trials.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(pickle.dumps((plan, dict(host.env))))
        process.stdin.close()
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        yield process, pickle.loads(bytes.fromhex(line.decode()))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_without_its_driver_an_attempt_fails(trials: TrialBench) -> None:
    """At once, although the agent would work on. It is an error of the harness: another attempt follows."""
    program = f"{ASK_AND_WAIT}\nopen('asked', 'w').close()\ntime.sleep(1000)"
    async with ScriptedModel(SCRIPT) as model:
        host = trials.host(keys(model))
        plan = trials.plan(host, trials.case(program, gateway="builtin"))
        async with driver_process(trials, plan, host) as (driver, ticket):
            node = trials.host()
            node.gateways = RemoteGateways(ticket)
            directory = trials.runs / "far"
            running = asyncio.create_task(run_trial(portable(plan), node, directory=directory))
            await appear(directory / "src-modified" / "asked")
            driver.kill()
            killed = time.monotonic()
            with pytest.raises(YouBenchaError, match="driver's gateway") as raised:
                await asyncio.wait_for(running, PATIENCE_S)
    assert time.monotonic() - killed < 20
    assert raised.value.code == "DRIVER_GONE"
    assert decide_consequence(raised.value) is Consequence.RETRY
    assert ticket.token not in repr(raised.value)
    trials.assert_nothing_is_left()
