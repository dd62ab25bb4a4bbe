"""Eight concurrent trials in one process, with one host. One fails, one is cancelled; the others are unaffected."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest
from trial_bench import TrialBench, appear

from youbencha.events import Event
from youbencha.gateway.ledger import read_ledger
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.store.bundle import ResultsBundle
from youbencha.trial.context import Host
from youbencha.trial.results import TrialResult
from youbencha.trial.run import run_trial

COUNT = 8
FAILS, CANCELLED = 5, 6

BEGIN = """
import json, os, pathlib, sys, time, urllib.request
number, root = {number}, pathlib.Path({root!r})
pathlib.Path("begun.txt").write_text(f"begun {{number}}\\n")
(root / f"pid-{{number}}.part").write_text(str(os.getpid()))
(root / f"pid-{{number}}.part").rename(root / f"pid-{{number}}")
while not (root / "go").exists():
    time.sleep(0.02)
"""
ASK = """
body = {{"model": "claude-opus-4-5", "max_tokens": 100, "messages": [{{"role": "user", "content": f"task {number}."}}]}}
headers = {{"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
    text = json.load(answer)["content"][0]["text"]
"""
ANSWER = 'text = "answer {number}"\n'
END = """
pathlib.Path("answer.txt").write_text(text + "\\n")
sys.exit(3 if number == {fails} else 0)
"""


def script() -> Script:
    """Each task has an answer and a number of tokens of its own."""
    return Script.model_validate(
        {
            "tools_optional": True,
            "conversations": [
                {
                    "when": {"prompt_contains": f"task {number}."},
                    "turns": [
                        {"text": f"answer {number}", "usage": {"input_tokens": 100 + number, "output_tokens": 1}}
                    ],
                }
                for number in range(COUNT)
            ],
        }
    )


class Trials:
    """The trials, started; each with its own repository, task and run directory."""

    def __init__(self, bench: TrialBench, host: Host, *, gateway: bool) -> None:
        self.events: list[list[Event]] = [[] for _ in range(COUNT)]
        self.directories = [bench.runs / f"trial-{number}" for number in range(COUNT)]
        self._bench = bench
        self._gateway = gateway
        self.tasks = [asyncio.create_task(self._run(host, number)) for number in range(COUNT)]

    async def _run(self, host: Host, number: int) -> TrialResult:
        program = (BEGIN + (ASK if self._gateway else ANSWER) + END).format(
            number=number, root=str(self._bench.root), fails=FAILS
        )
        check = f"import pathlib, sys; sys.exit(pathlib.Path('answer.txt').read_text() != 'answer {number}\\n')"
        case = self._bench.case(
            program,
            name=f"task {number}",
            repo=self._bench.repository(f"repository-{number}"),
            gateway="builtin" if self._gateway else "none",
            evaluators=["git-diff", {"name": "command", "config": {"command": [sys.executable, "-c", check]}}],
        )
        return await run_trial(
            self._bench.plan(host, case), host, directory=self.directories[number], on_event=self.events[number].append
        )


async def open_host(trials: TrialBench, kind: str, stack: AsyncExitStack) -> Host:
    if kind == "no gateway":
        return trials.host()
    model = await stack.enter_async_context(ScriptedModel(script()))
    env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"}
    host = trials.host(env)
    if kind == "a gateway each":
        return host
    await stack.enter_async_context(host.sharing([], log_dir=trials.root))
    return host


@pytest.mark.parametrize("kind", ["no gateway", "a gateway each", "one gateway"])
async def test_eight_concurrent_trials(trials: TrialBench, kind: str) -> None:
    gateway = kind != "no gateway"
    async with AsyncExitStack() as stack:
        host = await open_host(trials, kind, stack)
        started = Trials(trials, host, gateway=gateway)
        pid_files = [trials.root / f"pid-{number}" for number in range(COUNT)]
        await appear(*pid_files)
        pids = [int(file.read_text()) for file in pid_files]
        assert all(map(psutil.pid_exists, pids))  # all at the same time
        started.tasks[CANCELLED].cancel()
        with pytest.raises(asyncio.CancelledError):
            await started.tasks[CANCELLED]
        assert not psutil.pid_exists(pids[CANCELLED])
        (trials.root / "go").touch()
        results = await asyncio.gather(*(task for n, task in enumerate(started.tasks) if n != CANCELLED))
    bundles = [trials.results(directory) for directory in started.directories]
    assert [result.bundle for result in results] == [b for number, b in enumerate(bundles) if number != CANCELLED]
    for number, (bundle, directory) in enumerate(zip(bundles, started.directories, strict=True)):
        assert bundle.test_case.name == f"task {number}"
        assert bundle.identity.run_id == f"trial-{number}"
        patch = (directory / "artifacts" / "git-diff.patch").read_text()
        assert f"+begun {number}\n" in patch
        assert (f"+answer {number}\n" in patch) == (number != CANCELLED)
        assert_verdict(number, bundle)
        if gateway:
            assert_own_calls(number, bundle, directory)
    assert not any(map(psutil.pid_exists, pids))
    trials.assert_nothing_is_left()


def assert_verdict(number: int, bundle: ResultsBundle) -> None:
    assert bundle.agent is not None
    if number == CANCELLED:
        assert bundle.execution.interrupted
        assert bundle.summary.overall_status == "partial"
        assert bundle.outcome is None
        return
    assert bundle.outcome is not None
    assert [result.status for result in bundle.evaluators] == ["passed", "passed"], bundle.evaluators
    if number == FAILS:
        assert (bundle.agent.status, bundle.agent.exit_code) == ("failed", 3)
        assert (bundle.summary.overall_status, bundle.outcome.name) == ("failed", "agent_error")
    else:
        assert (bundle.summary.overall_status, bundle.outcome.name) == ("passed", "solved")


def assert_own_calls(number: int, bundle: ResultsBundle, directory: Path) -> None:
    """What its agent asked is in its own ledger and report, and nothing else."""
    assert bundle.agent is not None
    assert bundle.agent.gateway is not None
    calls = list(read_ledger(directory / "artifacts" / bundle.agent.gateway.ledger))
    expected = [] if number == CANCELLED else [100 + number]
    assert [call["input_tokens"] for call in calls] == expected
    assert bundle.agent.gateway.requests == len(expected)
    assert bundle.agent.gateway.usage.input_tokens == sum(expected)
