"""The steps of a trial, each by itself."""

from __future__ import annotations

import asyncio
import sys

import pytest
from trial_bench import PATIENCE_S, TrialBench

from youbencha.errors import YouBenchaError
from youbencha.evaluators import EvaluationContext
from youbencha.events import AssistantText, EvaluatorFinished, Event, PhaseStarted, TrialEnded
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.keys import VirtualKey
from youbencha.spec.loader import NamedEvaluator
from youbencha.store.bundle import EvaluationResult
from youbencha.store.layout import SIDECAR
from youbencha.transcript.reader import read
from youbencha.transcript.recording import RecordingReader
from youbencha.trial.agent import end_agent, run_agent
from youbencha.trial.evaluation import evaluate_all
from youbencha.trial.prepare import open_trial
from youbencha.trial.run import run_trial
from youbencha.workspace import Changes

WRITE = "open('new.txt', 'w').write('x'); print('done')"


async def test_run_agent_alone(trials: TrialBench) -> None:
    host, events = trials.host(), list[Event]()
    plan = trials.plan(host, trials.case(WRITE))
    async with open_trial(plan, host, directory=trials.runs / "one", on_event=events.append) as context:
        log = await run_agent(context)
        assert log.execution.status == "success"
        assert log == context.record.log
        assert (context.directory.modified / "new.txt").read_text() == "x"
        assert (context.directory.artifacts / "youbencha-log.json").is_file()
        assert (context.directory.artifacts / SIDECAR).is_file()
    phases = [event.phase for event in events if isinstance(event, PhaseStarted)]
    assert phases == ["checkout", "agent"]
    trials.assert_nothing_is_left()


async def test_the_events_of_a_run_are_recorded_while_it_runs(trials: TrialBench) -> None:
    recorded = trials.runs / "one/artifacts/transcript.jsonl"
    answer = f"""
import time
print("sk-ant-api03-abcdefghijklmnop is my key")
deadline = time.monotonic() + {PATIENCE_S}
while "agent" not in open({str(recorded)!r}).read():  # a live viewer reads the file at the same time
    assert time.monotonic() < deadline
    time.sleep(0.05)
"""
    host = trials.host()
    await run_trial(trials.plan(host, trials.case(answer)), host, directory=trials.runs / "one")
    with recorded.open("rb") as file:
        events = list(RecordingReader(file))
    assert sorted(events, key=lambda event: event.at) == events
    phases = [event.phase for event in events if isinstance(event, PhaseStarted)]
    assert phases == ["checkout", "agent", "freeze", "evaluation"]
    assert [event.text for event in events if isinstance(event, AssistantText)] == ["[REDACTED] is my key"]
    assert [event.status for event in events if isinstance(event, EvaluatorFinished)] == ["passed"]
    assert isinstance(events[-1], TrialEnded)
    (session,) = read(recorded).sessions
    assert (events[-1].outcome, session.status, session.state) == ("solved", "solved", "ok")
    trials.assert_nothing_is_left()


async def test_ending_an_agent_twice_has_no_effect(trials: TrialBench) -> None:
    """As when an interrupt comes after the agent has ended: what is in the run directory by then is ours."""
    host = trials.host()
    remove = f"import shutil; shutil.rmtree({str(trials.runs / 'one/artifacts')!r})"
    plan = trials.plan(host, trials.case(f"{WRITE}; {remove}"))
    async with open_trial(plan, host, directory=trials.runs / "one", on_event=lambda _: None) as context:
        await run_agent(context)
        warnings = context.record.warnings
        assert [warning.code for warning in warnings] == ["WORKSPACE_TAMPERED"]
        ours = context.directory.artifacts / "ours.txt"
        ours.write_text("x")
        await end_agent(context)
        assert ours.exists()
        assert context.record.warnings == warnings


async def test_an_interrupt_while_the_agents_calls_settle(trials: TrialBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key is ended by then, and not once more; what there is, is saved."""
    settling = asyncio.Event()
    original = Gateway.settled

    async def settled(self: Gateway, key: VirtualKey) -> None:
        if not settling.is_set():
            settling.set()
            await asyncio.Event().wait()
        await original(self, key)

    monkeypatch.setattr(Gateway, "settled", settled)
    host = trials.host({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"})
    plan = trials.plan(host, trials.case(WRITE, gateway="builtin"))
    trial = asyncio.create_task(run_trial(plan, host, directory=trials.runs / "one"))
    async with asyncio.timeout(PATIENCE_S):
        await settling.wait()
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    bundle = trials.results(trials.runs / "one")
    assert bundle.execution.interrupted
    assert bundle.agent is not None
    assert bundle.agent.gateway is not None
    assert "new.txt" in (trials.runs / "one/artifacts/git-diff.patch").read_text()
    trials.assert_nothing_is_left()


async def test_an_agent_that_cannot_start_leaves_nothing(trials: TrialBench) -> None:
    host = trials.host()
    agent = {"type": "command", "config": {"command": ["no-such-program-anywhere"], "prompt_by": "none"}}
    plan = trials.plan(host, trials.case(WRITE, agent=agent))
    with pytest.raises(YouBenchaError):
        async with open_trial(plan, host, directory=trials.runs / "one", on_event=lambda _: None) as context:
            await run_agent(context)
    assert not (trials.runs / "one").exists()
    trials.assert_nothing_is_left()


async def test_run_evaluators_alone(trials: TrialBench) -> None:
    """On any directory, without a trial. The results are in the order of the evaluators, a failure among them."""
    tree = trials.repository()
    context = EvaluationContext(
        directory=tree,
        artifacts_dir=trials.root / "artifacts",
        scratch_dir=trials.root / "scratch",
        config_dir=trials.root,
        changes=Changes((), trials.root / "patch", None, None),
        harness_env=trials.env,
    )

    def command(code: str) -> NamedEvaluator:
        return NamedEvaluator("command", {"command": [sys.executable, "-c", code]}, trials.root)

    evaluators = [command("import time; time.sleep(0.3)"), command("exit(1)"), NamedEvaluator("nonsense", {}, tree)]
    seen: dict[int, EvaluationResult] = {}
    results = await evaluate_all(evaluators, context, on_result=seen.__setitem__)
    assert [result.status for result in results] == ["passed", "failed", "skipped"]
    assert [seen[place] for place in range(3)] == results
    assert list(seen)[-1] == 0  # the slow one came last
    assert results[2].error is not None
    assert results[2].error.code == "EVALUATOR_UNKNOWN"
    assert sorted(path.name for path in (trials.root / "artifacts/evaluators").iterdir()) == ["command", "command-2"]
