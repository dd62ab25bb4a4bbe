"""A matrix is run as planned, journaled, retried by policy, and can be run again."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from engine_bench import EngineBench, appear, events, metas
from rich.console import Console

from youbencha.cli.matrix import LiveMatrixDisplay
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.resume import check_unchanged
from youbencha.engine.run import MatrixControl, MatrixOptions, run_matrix
from youbencha.engine.updates import AttemptFailed, AttemptStarted, Stopping, TrialsSkipped, Update
from youbencha.errors import YouBenchaError
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.spec.arena import RetrySpec
from youbencha.store.arena import TrialKey
from youbencha.store.arena_run import find_arena_run
from youbencha.trial.context import Host

QUICK = RetrySpec(attempts=3, backoff_s=0.01)


@pytest.fixture
def bench(tmp_path: Path) -> EngineBench:
    return EngineBench(tmp_path)


async def test_every_trial_is_run_once_and_its_files_are_there(bench: EngineBench) -> None:
    host = bench.host()
    matrix = bench.matrix(host, trials=2)
    run = bench.new_run(matrix)
    summary = await run_matrix(matrix, host, run, MatrixOptions(parallel=4))
    assert summary.complete
    assert summary.not_valid == 0
    assert summary.trials == 8
    found = metas(run)
    assert len(found) == 8
    meta = found["agent-1/task-1/trial-2"]
    assert (meta.outcome, meta.exit_reason, meta.composite_score, meta.trial) == ("solved", "completed", 1.0, 2)
    trial = run.path / "trials/agent-1/task-1/trial-2"
    assert "+done" in (trial / "diff.patch").read_text()
    assert (trial / "task.md").read_text() == "A task.\n"
    assert (trial / "attempts/1/artifacts/results.json").is_file()
    assert len(events(run, "run_started")) == 1
    assert len(events(run, "trial_finished")) == 8
    assert find_arena_run(bench.results).path.resolve() == run.path.resolve()
    bench.assert_nothing_is_left()


async def test_a_finished_run_repeats_nothing(bench: EngineBench) -> None:
    host = bench.host()
    matrix = bench.matrix(host)
    run = bench.new_run(matrix)
    first = await run_matrix(matrix, host, run, MatrixOptions(parallel=2))
    again = await run_matrix(matrix, host, run, MatrixOptions(parallel=2))
    assert again == first
    assert len(events(run, "attempt_started")) == 4


async def test_finished_trials_are_found_without_the_journal(bench: EngineBench) -> None:
    host = bench.host()
    matrix = bench.matrix(host)
    run = bench.new_run(matrix)
    first = await run_matrix(matrix, host, run, MatrixOptions(parallel=2))
    (run.path / "journal.jsonl").unlink()
    for stray in ("agent-1/task-1/trial-9", "agent-1/task-1/trial-01", "agent-9/task-1/trial-1"):
        (run.path / "trials" / stray / "attempts/1").mkdir(parents=True)
    again = await run_matrix(matrix, host, run, MatrixOptions(parallel=2))
    assert again.finished == first.finished
    assert again.complete
    assert events(run, "attempt_started") == []


async def test_no_more_trials_run_at_once_than_allowed(bench: EngineBench) -> None:
    host = bench.host()
    now, ever, seen = (bench.root / name for name in ("now", "ever", "seen"))
    for directory in (now, ever, seen):
        directory.mkdir()
    # The first three wait for each other: they must run at the same time.
    meeting = f"touch '{now}'/$$ '{ever}'/$$; until [ $(ls '{ever}' | wc -l) -ge 3 ]; do sleep 0.02; done"
    matrix = bench.matrix(host, trials=2, script=f"{meeting}; ls '{now}' | wc -l > '{seen}'/$$; rm '{now}'/$$")
    await run_matrix(matrix, host, bench.new_run(matrix), MatrixOptions(parallel=3))
    counts = [int(file.read_text()) for file in seen.iterdir()]
    assert len(counts) == 8
    assert max(counts) <= 3


async def test_what_the_agent_did_wrong_is_not_tried_again(bench: EngineBench) -> None:
    host = bench.host()
    matrix = bench.matrix(host, 1, 1, script="exit 3")
    run = bench.new_run(matrix)
    summary = await run_matrix(matrix, host, run, MatrixOptions(retries=QUICK))
    (meta,) = metas(run).values()
    assert (meta.outcome, meta.exit_reason, meta.exit_code, len(meta.attempts)) == ("agent_error", "crashed", 3, 1)
    assert meta.composite_score == 0.0
    assert summary.not_valid == 0


async def test_a_failure_of_the_harness_is_tried_again_and_every_attempt_is_kept(bench: EngineBench) -> None:
    """The hook fails twice: the agent is not run, which is not the agent's fault."""
    host = bench.host()
    flaky = bench.root / "flaky.sh"
    flaky.write_text(f"#!/bin/sh\necho x >> '{bench.root}/tries'\ntest $(wc -l < '{bench.root}/tries') -ge 3\n")
    flaky.chmod(0o755)
    hook = [{"name": "script", "config": {"command": str(flaky)}}]
    matrix = Matrix(cells=(bench.cell(host, "agent", "task", pre_execution=hook),), trials=1)
    run = bench.new_run(matrix)
    updates: list[Update] = []
    options = MatrixOptions(retries=QUICK)
    summary = await run_matrix(matrix, host, run, options, updates.append, rng=random.Random(1))
    assert summary.complete
    assert summary.not_valid == 0
    (meta,) = metas(run).values()
    assert [attempt.outcome for attempt in meta.attempts] == ["infra_error", "infra_error", "solved"]
    assert "pre-execution hook failed" in meta.attempts[0].reason
    delays = [update.retry_in_s for update in updates if isinstance(update, AttemptFailed)]
    assert [0.01 <= (delays[0] or 0) <= 0.02, 0.02 <= (delays[1] or 0) <= 0.04] == [True, True]


async def test_attempts_are_limited_and_the_result_is_not_valid(bench: EngineBench) -> None:
    host = bench.host()
    hook = [{"name": "script", "config": {"command": "false"}}]
    cells = (bench.cell(host, "broken", "task", pre_execution=hook), bench.cell(host, "sound", "task"))
    matrix = Matrix(cells=cells, trials=1)
    run = bench.new_run(matrix)
    summary = await run_matrix(matrix, host, run, MatrixOptions(retries=QUICK))
    assert summary.complete
    assert summary.not_valid == 1
    found = metas(run)
    broken = found["broken/task/trial-1"]
    assert (broken.outcome, broken.valid, broken.exit_reason) == ("infra_error", False, "not_measured")
    assert broken.composite_score is None
    assert len(broken.attempts) == 3
    assert found["sound/task/trial-1"].valid


async def test_waiting_for_a_retry_takes_no_slot(bench: EngineBench) -> None:
    host = bench.host()
    hook = [{"name": "script", "config": {"command": "false"}}]
    cells = (bench.cell(host, "broken", "task", pre_execution=hook), bench.cell(host, "sound", "task"))
    matrix, control = Matrix(cells=cells, trials=1), MatrixControl()
    run = bench.new_run(matrix)
    options = MatrixOptions(parallel=1, retries=RetrySpec(attempts=2, backoff_s=3000))
    async with asyncio.timeout(60):
        running = asyncio.create_task(run_matrix(matrix, host, run, options, control=control))
        await appear(run.path / "trials/sound/task/trial-1/meta.json")
        control.drain()
        summary = await running
    assert not summary.complete
    assert summary.drained
    assert list(metas(run)) == ["sound/task/trial-1"]


async def test_a_trial_that_cannot_start_is_not_tried_a_thousand_times(bench: EngineBench) -> None:
    """A commit that does not exist: no retry changes that, so the rest of its trials are skipped."""
    host = bench.host()
    cells = (bench.cell(host, "agent", "wrong", commit="0" * 40), bench.cell(host, "agent", "right"))
    matrix = Matrix(cells=cells, trials=5)
    run = bench.new_run(matrix)
    updates: list[Update] = []
    summary = await run_matrix(matrix, host, run, MatrixOptions(retries=QUICK), updates.append)
    assert not summary.complete
    assert len(summary.finished) == 5
    (skipped,) = summary.skipped
    assert (skipped.orchestrator, skipped.task) == ("agent", "wrong")
    assert "0000" in skipped.reason
    assert len([line for line in events(run, "attempt_started") if line["task"] == "wrong"]) == 1
    assert [update for update in updates if isinstance(update, TrialsSkipped)] == [skipped]


async def test_a_task_that_cannot_be_validated_costs_no_agent_anything(bench: EngineBench) -> None:
    """It is said once, with the line of the log that explains it, and a resumed run tries again."""
    host, ran, ready = bench.host(), bench.root / "ran", bench.root / "ready"
    config = {"test_cmd": f"test -e '{ready}' || exec '{sys.executable}' -S -m pytest; echo '1 passed in 0.01s'"}
    validation = [{"name": "validation", "config": config}]
    cells = [
        bench.cell(host, agent, task, f"echo {agent} on {task} >> '{ran}'", evaluators=evaluators)
        for task, evaluators in (("broken", validation), ("sound", ["git-diff"]))
        for agent in ("one", "two")
    ]
    matrix = Matrix(cells=tuple(cells), trials=3)
    run = bench.new_run(matrix)
    updates: list[Update] = []
    summary = await run_matrix(matrix, host, run, MatrixOptions(parallel=2, retries=QUICK), updates.append)
    assert {line.split()[-1] for line in ran.read_text().splitlines()} == {"sound"}
    assert not summary.complete
    (skipped,) = summary.skipped
    assert (skipped.orchestrator, skipped.task) == (None, "broken")
    assert f"{sys.executable}: No module named pytest" in skipped.reason
    assert len([update for update in updates if "No module named" in str(update)]) == 1
    attempts = [line["attempt"] for line in events(run, "attempt_finished") if line["task"] == "broken"]
    assert {(attempt["outcome"], attempt["cost_usd"]) for attempt in attempts} == {("verifier_error", 0.0)}
    assert len(attempts) <= 2, "those that were running at the same time"
    bench.assert_nothing_is_left()
    ready.touch()
    again = await run_matrix(matrix, bench.host(), run, MatrixOptions(parallel=2, retries=QUICK))
    assert again.complete
    assert [meta.valid for meta in again.finished] == [True] * 12


async def test_a_cancelled_run_saves_what_there_is_and_is_continued(bench: EngineBench) -> None:
    host = bench.host()
    script = f"echo part > part.txt; touch '{bench.root}/begun'; test -e '{bench.root}/go' || sleep 300"
    matrix = bench.matrix(host, 1, 2, script=script)
    run = bench.new_run(matrix)
    running = asyncio.create_task(run_matrix(matrix, host, run, MatrixOptions(parallel=1)))
    await appear(bench.root / "begun")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert metas(run) == {}
    (bench.root / "go").touch()
    summary = await run_matrix(matrix, host, run, MatrixOptions(parallel=1))
    assert summary.complete
    outcomes = [[attempt.outcome for attempt in meta.attempts] for meta in metas(run).values()]
    assert sorted(outcomes) == [["interrupted", "solved"], ["solved"]]
    interrupted = run.path / "trials/agent-1/task-1/trial-1/attempts/1/artifacts/git-diff.patch"
    assert "+part" in interrupted.read_text()
    bench.assert_nothing_is_left()


async def test_two_processes_cannot_work_on_one_run(bench: EngineBench) -> None:
    host = bench.host()
    matrix = bench.matrix(host, 1, 1, script=f"touch '{bench.root}/begun'; sleep 300")
    run = bench.new_run(matrix)
    running = asyncio.create_task(run_matrix(matrix, host, run, MatrixOptions()))
    await appear(bench.root / "begun")
    with pytest.raises(YouBenchaError, match="works on the run") as caught:
        await run_matrix(matrix, bench.host(), run, MatrixOptions())
    assert caught.value.code == "RUN_IN_USE"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_changed_configuration_is_named(bench: EngineBench) -> None:
    host = bench.host()
    before = bench.matrix(host, 1, 2)
    run = bench.new_run(before)
    check_unchanged(run.info(), before)
    after = Matrix(cells=(before.cells[0], bench.cell(host, "agent-1", "task-2", "true")), trials=2)
    with pytest.raises(YouBenchaError) as caught:
        check_unchanged(run.info(), after)
    assert caught.value.code == "RUN_CHANGED"
    assert "agent-1 on task-2: the agent" in caught.value.message
    assert "1 trial were planned" in caught.value.message
    assert "task-1" not in caught.value.message


async def test_a_damaged_line_of_the_journal_loses_nothing(bench: EngineBench) -> None:
    host = bench.host()
    matrix = bench.matrix(host, 1, 2)
    run = bench.new_run(matrix)
    await run_matrix(matrix, host, run, MatrixOptions())
    file = run.path / "journal.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], b"\x00garbage\n", *lines[1:], b'{"cut']))
    updates: list[Update] = []
    summary = await run_matrix(matrix, host, run, MatrixOptions(), updates.append)
    assert summary.complete
    assert "line 2" in updates[0].warnings[0]  # type: ignore[union-attr]
    assert file.read_bytes().startswith(lines[0] + b"\x00garbage\n")
    assert b"cut" not in file.read_bytes()
    assert len(events_after_damage(file.read_bytes())) == 2


def events_after_damage(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if b"run_started" in line or b"run_resumed" in line]


ASK = """
import json, os, urllib.request
body = {"model": "claude-opus-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "work"}]}
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
    open("answer.txt", "wb").write(answer.read())
"""
TOKENS = {"input_tokens": 100_000, "output_tokens": 10}
"""Of one call: half a dollar, and a little."""


def asking(bench: EngineBench, host: Host, name: str, times: int = 1, **gateway: float) -> Cell:
    program = bench.root / "ask.py"
    program.write_text(ASK)
    return bench.cell(
        host, name, "task", " && ".join([f"python3 '{program}'"] * times), gateway={"type": "builtin", **gateway}
    )


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    turns = [{"text": "answer", "usage": TOKENS, "times": "forever"}]
    script = {"tools_optional": True, "conversations": [{"when": {"prompt_contains": "work"}, "turns": turns}]}
    async with ScriptedModel(Script.model_validate(script)) as running:
        yield running


def host_of(bench: EngineBench, model: ScriptedModel) -> Host:
    return bench.host({"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"})


async def test_a_spent_budget_stops_the_run_not_every_trial(bench: EngineBench, model: ScriptedModel) -> None:
    host = host_of(bench, model)
    matrix = Matrix(cells=(asking(bench, host, "agent", budget_total_usd=1.2),), trials=10)
    run = bench.new_run(matrix)
    updates: list[Update] = []
    summary = await run_matrix(matrix, host, run, MatrixOptions(), updates.append)
    assert len(summary.finished) == 3
    assert summary.spent_usd == pytest.approx(1.50075)
    assert "the budget of the run is spent: $1.50075 of $1.2" in (summary.stopped or "")
    assert summary.skipped == ()
    assert any(isinstance(update, Stopping) for update in updates)
    assert len(events(run, "attempt_started")) == 3
    again = await run_matrix(matrix, host_of(bench, model), run, MatrixOptions())  # what was spent is known
    assert len(again.finished) == 3
    assert again.stopped == summary.stopped
    more = Matrix(cells=(asking(bench, host, "agent", budget_total_usd=1.8),), trials=10)
    assert len((await run_matrix(more, host_of(bench, model), run, MatrixOptions())).finished) == 4


async def test_an_agents_spent_budget_leaves_the_others_alone(bench: EngineBench, model: ScriptedModel) -> None:
    host = host_of(bench, model)
    cells = (asking(bench, host, "rich"), asking(bench, host, "poor", budget_per_agent_usd=0.7))
    matrix = Matrix(cells=cells, trials=4)
    run = bench.new_run(matrix)
    summary = await run_matrix(matrix, host, run, MatrixOptions())
    finished = Counter(meta.orchestrator for meta in summary.finished)
    assert finished == {"rich": 4, "poor": 2}
    (skipped,) = summary.skipped
    assert (skipped.orchestrator, skipped.task) == ("poor", None)
    assert "its budget is spent: $1.0005 of $0.7" in skipped.reason


async def test_a_trial_that_a_shared_budget_cut_off_is_not_finished(bench: EngineBench, model: ScriptedModel) -> None:
    """Each trial asks twice. The last request is refused because of what the first trial spent."""
    host = host_of(bench, model)
    matrix = Matrix(cells=(asking(bench, host, "agent", 2, budget_total_usd=1.2),), trials=2)
    run = bench.new_run(matrix)
    summary = await run_matrix(matrix, host, run, MatrixOptions())
    assert len(summary.finished) == 1
    assert Counter(line["attempt"]["outcome"] for line in events(run, "attempt_finished")) == {
        "solved": 1,
        "interrupted": 1,
    }
    more = Matrix(cells=(asking(bench, host, "agent", 2, budget_total_usd=3),), trials=2)
    assert (await run_matrix(more, host_of(bench, model), run, MatrixOptions())).complete
    assert sorted(len(meta.attempts) for meta in metas(run).values()) == [1, 2]


async def test_trials_of_one_provider_are_limited_apart(bench: EngineBench, model: ScriptedModel) -> None:
    host = host_of(bench, model)
    now, ever, seen = (bench.root / name for name in ("now", "ever", "seen"))
    for directory in (now, ever, seen):
        directory.mkdir()

    def counting(name: str, at_least: int) -> str:
        """Count the trials that run now, once this many have begun."""
        mine = f"{name}-$$"
        begin = f"touch '{now}'/{mine} '{ever}'/{mine}"
        wait = f"until [ $(ls '{ever}' | grep -c {name}) -ge {at_least} ]; do sleep 0.02; done"
        return f"{begin}; {wait}; ls '{now}' | grep -c {name} > '{seen}'/{mine}; rm '{now}'/{mine}"

    free = bench.cell(host, "free", "task", counting("free", 2), gateway="none")
    limited = bench.cell(host, "limited", "task", counting("limited", 1), gateway="builtin")
    assert limited.plan.gateway is not None
    plan = replace(limited.plan, gateway=replace(limited.plan.gateway, provider="anthropic"))
    matrix = Matrix(cells=(replace(limited, plan=plan), free), trials=4)
    options = MatrixOptions(parallel=4, per_provider={"anthropic": 1})
    assert (await run_matrix(matrix, host, bench.new_run(matrix), options)).complete
    most = {name: max(int(file.read_text()) for file in seen.glob(f"{name}-*")) for name in ("free", "limited")}
    assert most["limited"] == 1
    assert most["free"] > 1


async def test_without_a_container_engine_the_run_stops(bench: EngineBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{bench.root}/nothing.sock")
    host = bench.host()
    cell = bench.cell(host, "agent", "task", sandbox={"type": "docker", "image": "example/image"}, gateway="none")
    matrix = Matrix(cells=(cell,), trials=50)
    run = bench.new_run(matrix)
    summary = await run_matrix(matrix, host, run, MatrixOptions(retries=RetrySpec(attempts=2, backoff_s=0.01)))
    assert summary.finished == ()
    assert "engine" in (summary.stopped or "")
    assert summary.hint
    assert len(events(run, "attempt_started")) < 50


@pytest.mark.parametrize(("height", "listed"), [(5, 1), (12, 8), (60, 40)])
def test_the_live_table_fits_the_terminal(height: int, listed: int) -> None:
    console = Console(file=StringIO(), width=80, height=height, force_terminal=True, color_system=None)
    display = LiveMatrixDisplay(StringIO(), console=console)
    for number in range(1, 41):
        display(AttemptStarted(TrialKey("agent", "task", number), 1))
    with console.capture() as capture:
        console.print(display.render())
    shown = capture.get()
    assert shown.count("agent · task") == listed
    assert len(shown.splitlines()) < height
    assert (f"and {40 - listed} more" in shown) == (listed < 40)
    assert "40 running" in shown


def test_a_narrow_terminal_shows_what_the_second_ctrl_c_does() -> None:
    out = StringIO()
    display = LiveMatrixDisplay(out, console=Console(file=out, width=80, force_terminal=True, color_system=None))
    display(Stopping("interrupted", 12))
    assert "12 running trials will finish, Ctrl-C aborts" in " ".join(out.getvalue().split())


async def test_the_live_table_shows_what_is_running(bench: EngineBench) -> None:
    host = bench.host()
    matrix = bench.matrix(host, 1, 2)
    console = Console(file=StringIO(), width=120, force_terminal=True, color_system=None)
    shown: list[str] = []
    display = LiveMatrixDisplay(StringIO(), console=console)

    def on_update(update: Update) -> None:
        display(update)
        with console.capture() as capture:
            console.print(display.render())
        shown.append(capture.get())

    await run_matrix(matrix, host, bench.new_run(matrix), MatrixOptions(), on_update)
    assert any("agent-1 · task-1 · trial 1" in text and "agent" in text and "0/2" in text for text in shown)
    assert "2/2 · " in shown[-1]
    assert "2 solved" in shown[-1]
    assert "task-1" not in shown[-1]
