"""Loops from beginning to end, with agents that are shell scripts."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
import tracemalloc
from itertools import count
from pathlib import Path

import pytest
from loop_bench import LoopBench

from systems import posix_only
from youbencha.adapters import get_adapter
from youbencha.events import (
    ContextUsed,
    Event,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    LoopWaiting,
    TopicPublished,
    WarningRaised,
)
from youbencha.loop.iteration import IterationRunner
from youbencha.sandbox.local import HOST
from youbencha.workspace import RunDirectory

pytestmark = posix_only("the agents are shell scripts")

DONE_AT_3 = 'echo "$N" > count; echo "session $N"; [ $N -ge 3 ] && echo LOOP_COMPLETE; exit 0'


async def test_a_loop_ends_with_the_promise(loops: LoopBench) -> None:
    loops.configure(DONE_AT_3)
    state = await loops.run()
    assert (state.outcome, state.iterations, loops.sessions) == ("completed", 3, 3)
    history = loops.history()
    assert history.state == state
    assert [record.iteration for record in history.records] == [1, 2, 3]
    assert [record.files_changed for record in history.records] == [1, 1, 1]
    assert [record.claimed_done for record in history.records] == [False, False, True]
    assert all(record.cost_usd is None and record.input_tokens is None for record in history.records)
    (started,), (ended,) = loops.of_type(LoopStarted), loops.of_type(LoopEnded)
    assert (started.loop_id, ended.exit_code) == (state.loop_id, 0)
    assert [event.iteration for event in loops.of_type(IterationStarted)] == [1, 2, 3]
    assert [event.outcome for event in loops.of_type(IterationEnded)] == ["completed"] * 3


async def test_a_promise_after_any_amount_of_output_counts(loops: LoopBench) -> None:
    loops.configure("head -c 12000000 /dev/zero | tr '\\0' x | fold -w 2000; echo; echo LOOP_COMPLETE")
    state = await loops.run()
    assert (state.outcome, state.iterations) == ("completed", 1)


async def test_the_summary(loops: LoopBench) -> None:
    loops.configure(DONE_AT_3)
    state = await loops.run()
    directory = loops.tree / ".ralph/loops" / state.loop_id
    summary = json.loads((directory / "summary.json").read_text())
    assert (summary["outcome"], summary["iterations"], summary["cost_usd"]) == ("completed", 3, None)
    assert summary["files_changed"] == 3
    assert "| 3 | completed, says done |" in (directory / "summary.md").read_text()


async def test_git_does_not_see_the_files_of_the_loop(loops: LoopBench) -> None:
    loops.configure("echo LOOP_COMPLETE")
    before = loops.users_state()
    await loops.run()
    assert loops.git("status", "--porcelain", "--ignored=no") == ""
    assert loops.users_state() == before


async def test_completion_is_looked_for_before_limits(loops: LoopBench) -> None:
    loops.configure(DONE_AT_3, event_loop={"max_iterations": 3})
    assert (await loops.run()).outcome == "completed"


async def test_a_promise_in_prose_does_not_count(loops: LoopBench) -> None:
    loops.configure('echo "I will say LOOP_COMPLETE later $N"', event_loop={"max_iterations": 2})
    state = await loops.run()
    assert (state.outcome, loops.sessions) == ("max_iterations", 2)


async def test_a_failed_session_with_the_promise_is_a_failure(loops: LoopBench) -> None:
    loops.configure("echo LOOP_COMPLETE; exit 1", event_loop={"max_consecutive_failures": 2})
    state = await loops.run()
    assert (state.outcome, loops.sessions) == ("failed", 2)
    assert "2 iterations failed in a row" in (state.reason or "")


async def test_completion_by_event(loops: LoopBench) -> None:
    loops.configure('ralph emit build.done "all green"; ralph emit LOOP_COMPLETE; echo bye')
    state = await loops.run()
    assert (state.outcome, state.seen_topics) == ("completed", ("LOOP_COMPLETE", "build.done"))
    topics = [(event.topic, event.payload, event.source) for event in loops.of_type(TopicPublished)]
    assert topics[0] == ("build.done", "all green", "agent")


async def test_a_clock_that_is_set_back(loops: LoopBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an iteration nor a wait depends on it."""
    times = count(time.time(), -3600)
    monkeypatch.setattr("time.time", lambda: next(times))
    loops.configure(DONE_AT_3, event_loop={"cooldown_delay_seconds": 0.1})
    assert (await loops.run()).outcome == "completed"


async def test_a_flood_of_events(loops: LoopBench) -> None:
    """The state stays small enough to be read again, and what is published later is seen at once."""
    (loops.root / "flood.py").write_text(
        "import json\n"
        "for i in range(1200): print(json.dumps({'topic': f'{i:0190}', 'payload': '\"' * 15_000}))\n"
        "print(json.dumps({'topic': 'needed'}))\n"
    )
    flood = f"python3 '{loops.root}/flood.py' >> $RALPH_EVENTS_FILE"
    script = (
        f"echo $N; [ $N = 4 ] && ralph emit LOOP_COMPLETE; [ $N = 2 ] && ralph emit z.needed; [ $N != 4 ] && {flood}"
    )
    loops.configure(f"{script}; exit 0", event_loop={"required_events": ["z.needed"], "max_iterations": 5})
    assert (await loops.run()).iterations == 4
    assert "EVENTS_LEFT_OUT" in {event.code for event in loops.of_type(WarningRaised)}
    assert loops.history().state.outcome == "completed"
    assert max(path.stat().st_size for path in (loops.tree / ".ralph/loops").glob("*/loop.json")) < 8 << 20


async def test_required_events(loops: LoopBench) -> None:
    script = 'echo "$PROMPT" > "prompt$N"; [ $N = 2 ] && ralph emit tests.passed; echo LOOP_COMPLETE'
    loops.configure(script, event_loop={"required_events": ["tests.passed"]})
    assert (await loops.run()).iterations == 2
    assert "tests.passed" in (loops.tree / "prompt2").read_text()


async def test_gates_decide(loops: LoopBench) -> None:
    script = 'echo "$PROMPT" > "prompt$N"; [ $N = 2 ] && touch ok; echo LOOP_COMPLETE'
    loops.configure(script, gates=[{"name": "exists", "command": "echo no such luck; test -f ok"}])
    state = await loops.run()
    first, second = loops.history().records
    assert (state.outcome, first.claimed_done) == ("completed", True)
    assert [first.gates[0].status, second.gates[0].status] == ["failed", "passed"]
    assert "no such luck" in (loops.tree / "prompt2").read_text()


async def test_gates_alone_can_end_the_loop(loops: LoopBench) -> None:
    loops.configure(
        "echo working; [ $N = 2 ] && touch ok; exit 0",
        event_loop={"complete_by_gates": True},
        gates=[{"name": "exists", "command": "test -f ok"}],
    )
    state = await loops.run()
    assert (state.outcome, loops.sessions) == ("completed", 2)
    assert [record.claimed_done for record in loops.history().records] == [False, False]


@pytest.mark.parametrize("below", [".", "part"])
async def test_gates_see_what_the_loop_has_changed(loops: LoopBench, below: str) -> None:
    """Not what was there before it, and what was committed meanwhile too; in a repository, or in a part of one."""
    (loops.tree / ".gitignore").write_text("*.log\n")
    loops.tree /= below
    loops.tree.mkdir(exist_ok=True)
    (loops.tree / "code.py").touch()
    loops.git("add", "-A")
    loops.git("commit", "-q", "-m", "more")
    (loops.tree / "before.txt").write_text("uncommitted")
    commit = "git -c user.name=a -c user.email=a@b commit -qm x new$N"
    loops.configure(
        f"touch new$N ignored.log; git add new$N; {commit}; echo LOOP_COMPLETE",
        gates=[{"name": "git-diff", "config": {"assertions": {"min_files_changed": 2, "max_files_changed": 2}}}],
    )
    state = await loops.run()
    first, second = loops.history().records
    assert (state.outcome, first.gates[0].status, second.gates[0].status) == ("completed", "failed", "passed")
    patch = (loops.tree / ".ralph").rglob("git-diff.patch")
    assert all("before.txt" not in file.read_text() for file in patch)


async def test_stale(loops: LoopBench) -> None:
    loops.configure("echo the same")
    state = await loops.run()
    assert (state.outcome, loops.sessions) == ("stale", 3)


async def test_stale_with_rare_checkpoints(loops: LoopBench) -> None:
    loops.configure("echo the same", event_loop={"checkpoint_interval": 4})
    state = await loops.run()
    assert (state.outcome, loops.sessions) == ("stale", 4)


async def test_the_same_output_with_changes_is_not_stale(loops: LoopBench) -> None:
    loops.configure('echo "$N" > count; echo the same', event_loop={"max_iterations": 5})
    assert (await loops.run()).outcome == "max_iterations"


async def test_the_same_output_with_progress_of_tasks_is_not_stale(loops: LoopBench) -> None:
    loops.configure('ralph tools task add "task $N" > /dev/null; echo the same', event_loop={"max_iterations": 5})
    assert (await loops.run()).outcome == "max_iterations"


async def test_cancellation(loops: LoopBench) -> None:
    loops.configure("echo GIVE_UP", event_loop={"cancellation_promise": "GIVE_UP"})
    assert (await loops.run()).outcome == "cancelled"


@pytest.mark.parametrize(("name", "outcome"), [("stop-requested", "stopped"), ("restart-requested", "restart")])
async def test_requests_by_files(loops: LoopBench, name: str, outcome: str) -> None:
    loops.configure(f"touch .ralph/{name}; echo $N")
    assert (await loops.run()).outcome == outcome
    assert not (loops.tree / ".ralph" / name).exists()


async def test_requests_for_an_earlier_loop_do_not_count(loops: LoopBench) -> None:
    loops.configure("echo LOOP_COMPLETE")
    (loops.tree / ".ralph").mkdir()
    (loops.tree / ".ralph/stop-requested").touch()
    assert (await loops.run()).outcome == "completed"


async def test_a_request_ends_a_wait(loops: LoopBench) -> None:
    loops.configure("touch .ralph/begun; echo $N", event_loop={"cooldown_delay_seconds": 100})
    running = asyncio.create_task(loops.run())
    while not loops.of_type(LoopWaiting):
        await asyncio.sleep(0.01)
    (loops.tree / ".ralph/stop-requested").touch()
    assert (await asyncio.wait_for(running, 5)).outcome == "stopped"


async def test_a_failure_is_retried_then_escalated_then_success_returns(loops: LoopBench) -> None:
    script = 'echo "$YOUBENCHA_MODEL" > model; case $N in 1|2|3|5) exit 1;; 6) echo LOOP_COMPLETE;; *) echo $N;; esac'
    escalation = [{"model": "stronger"}]
    loops.configure(script, event_loop={"retry": {"attempts": 2, "delay_seconds": 0}, "escalation": escalation})
    assert (await loops.run()).outcome == "completed"
    assert [event.model for event in loops.of_type(IterationStarted)] == [
        None, None, "stronger", "stronger", None, None,
    ]  # fmt: skip
    assert [event.attempt for event in loops.of_type(IterationStarted)] == [1, 2, 3, 4, 1, 2]


async def test_escalation_to_a_person(loops: LoopBench) -> None:
    escalation = [{"person": "Look at the logs."}]
    loops.configure("echo broken >&2; exit 7", event_loop={"retry": {"attempts": 1}, "escalation": escalation})
    state = await loops.run()
    assert (state.outcome, loops.sessions) == ("needs_person", 1)
    assert (state.reason or "").startswith("Look at the logs. The last failure:")


async def test_a_program_that_is_missing_is_not_retried(loops: LoopBench) -> None:
    loops.configure('rm "$0"; exit 1', event_loop={"retry": {"delay_seconds": 0}})
    state = await loops.run()
    assert (state.outcome, state.iterations) == ("failed", 2)
    assert "There is no file" in (state.reason or "")


async def test_a_usage_limit_waits_and_is_not_a_failure(loops: LoopBench) -> None:
    script = '[ $N = 1 ] && { echo "Claude AI usage limit reached|$(($(date +%s) + 1))"; exit 1; }; echo LOOP_COMPLETE'
    loops.configure(script, event_loop={"max_consecutive_failures": 1})
    state = await loops.run()
    assert (state.outcome, state.iterations) == ("completed", 2)
    (waiting,) = loops.of_type(LoopWaiting)
    assert waiting.kind == "usage_limit"
    assert loops.history().records[0].outcome == "usage_limit"


async def test_a_usage_limit_can_end_the_loop(loops: LoopBench) -> None:
    loops.configure("echo 'usage limit reached'; exit 1", event_loop={"on_usage_limit": "stop"})
    assert (await loops.run()).outcome == "usage_limit"


async def test_try_now_ends_a_wait(loops: LoopBench) -> None:
    script = "[ $N = 1 ] && { echo 'usage limit reached'; exit 1; }; echo LOOP_COMPLETE"
    loops.configure(script)
    running = asyncio.create_task(loops.run())
    while not loops.of_type(LoopWaiting):
        await asyncio.sleep(0.01)
    loops.control.try_now()
    assert (await running).outcome == "completed"


async def test_the_runtime_holds_during_an_iteration(loops: LoopBench) -> None:
    loops.configure("echo begun; sleep 100", event_loop={"max_runtime_seconds": 0.5})
    state = await loops.run()
    (record,) = loops.history().records
    assert (state.outcome, record.outcome) == ("max_runtime", "limit")
    assert 400 <= (record.duration_ms or 0) < 2500


async def test_a_silent_agent_is_ended(loops: LoopBench) -> None:
    loops.configure("sleep 100", event_loop={"idle_timeout_secs": 0.3, "max_consecutive_failures": 1})
    state = await loops.run()
    assert state.outcome == "failed"
    assert "printed nothing" in (state.reason or "")


async def test_a_hat_has_its_own_time(loops: LoopBench) -> None:
    loops.configure(
        "echo begun; sleep 100",
        event_loop={"max_consecutive_failures": 1},
        hats={"slow": {"triggers": ["task.start"], "publishes": ["x"], "timeout": 0.3}},
    )
    state = await loops.run()
    (record,) = loops.history().records
    assert (state.outcome, record.outcome, record.hat) == ("failed", "failed", "slow")
    assert "its time of" in (record.reason or "")


def test_the_configured_context_window_counts(loops: LoopBench, tmp_path: Path) -> None:
    loops.configure("true", event_loop={"context_window_tokens": 1000})
    host = loops.host()
    plan, seen = loops.plan(host), list[Event]()
    with RunDirectory.create_at(tmp_path / "run", cache_dir=tmp_path / "runs") as directory:
        adapter = get_adapter("command")
        runner = IterationRunner(plan, plan.backend, adapter, directory, HOST, None, {}, seen.append, host)
        runner.take(ContextUsed(tokens=10, window=200_000))
    assert [(event.tokens, event.window) for event in seen if isinstance(event, ContextUsed)] == [(10, 1000)]


async def test_pause_and_guidance(loops: LoopBench) -> None:
    script = 'echo "$PROMPT" > "prompt$N"; [ $N = 2 ] && echo LOOP_COMPLETE; exit 0'
    loops.configure(script)
    loops.control.pause()
    running = asyncio.create_task(loops.run())
    while not loops.of_type(LoopWaiting):
        await asyncio.sleep(0.01)
    loops.control.guide("Use tabs.")
    await asyncio.sleep(0.05)
    assert loops.sessions == 0
    loops.control.resume()
    assert (await running).outcome == "completed"
    assert "Use tabs." in (loops.tree / "prompt1").read_text()
    assert "Use tabs." not in (loops.tree / "prompt2").read_text()


async def test_stop_ends_the_running_iteration(loops: LoopBench) -> None:
    loops.configure("echo begun; touch begun; sleep 100")
    running = asyncio.create_task(loops.run())
    while not (loops.tree / "begun").exists():
        await asyncio.sleep(0.01)
    loops.control.stop()
    state = await asyncio.wait_for(running, 3)
    assert (state.outcome, loops.history().records[0].outcome) == ("interrupted", "stopped")


async def test_stop_ends_running_gates(loops: LoopBench) -> None:
    loops.configure("echo LOOP_COMPLETE", gates=[{"name": "slow", "command": "touch judging; sleep 100"}])
    running = asyncio.create_task(loops.run())
    while not (loops.tree / "judging").exists():
        await asyncio.sleep(0.01)
    loops.control.stop()
    state = await asyncio.wait_for(running, 3)
    assert (state.outcome, state.iterations) == ("interrupted", 1)


async def test_an_agent_that_removes_the_files_of_the_loop(loops: LoopBench) -> None:
    loops.configure('rm -rf .ralph; echo "$N"', event_loop={"max_iterations": 3})
    state = await loops.run()
    assert state.outcome == "max_iterations"
    assert [record.iteration for record in loops.history().records] == [1, 2, 3]


async def test_an_agent_that_puts_links_in_place_of_the_files(loops: LoopBench) -> None:
    outside = loops.root / "outside"
    outside.mkdir()
    (outside / "loop.json").write_text("mine")
    script = f"rm -rf .ralph/loops; ln -s '{outside}' .ralph/loops; mkdir -p '{outside}/x'; echo $N"
    loops.configure(script, event_loop={"max_iterations": 2})
    await loops.run()
    assert sorted(path.name for path in outside.iterdir()) == ["loop.json", "x"]
    assert [record.iteration for record in loops.history().records] == [1, 2]


async def test_malformed_events_are_warnings(loops: LoopBench) -> None:
    loops.configure('echo "{broken" >> "$RALPH_EVENTS_FILE"; echo LOOP_COMPLETE')
    assert (await loops.run()).outcome == "completed"
    assert [event.code for event in loops.of_type(WarningRaised)] == ["EVENT_MALFORMED"]


async def test_continue_keeps_the_limits(loops: LoopBench) -> None:
    loops.configure("echo $N", event_loop={"max_iterations": 2})
    await loops.run()
    state = await loops.run(goes_on=True)
    assert (state.outcome, loops.sessions) == ("max_iterations", 2)
    loops.configure("echo $N", event_loop={"max_iterations": 3})
    state = await loops.run(goes_on=True)
    assert (state.outcome, loops.sessions) == ("max_iterations", 3)
    assert [record.iteration for record in loops.history().records] == [1, 2, 3]


async def test_continue_after_failures(loops: LoopBench) -> None:
    loops.configure("[ $N -le 2 ] && exit 1; echo LOOP_COMPLETE", event_loop={"max_consecutive_failures": 2})
    assert (await loops.run()).outcome == "failed"
    assert (await loops.run(goes_on=True)).outcome == "completed"


async def test_secrets_are_masked(loops: LoopBench) -> None:
    secret = "sk-ant-api03-0123456789abcdefghij"
    loops.configure('ralph emit found "$ANTHROPIC_API_KEY"; echo "$ANTHROPIC_API_KEY"; exit 3',
                    event_loop={"max_consecutive_failures": 1})  # fmt: skip
    await loops.run(loops.host(ANTHROPIC_API_KEY=secret))
    written = [path for path in (loops.tree / ".ralph/loops").rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if secret in path.read_text()]
    assert secret not in repr(loops.events)


async def test_many_iterations_leave_nothing_open(loops: LoopBench) -> None:
    """Descriptors and child processes do not grow, and the memory only by what is recorded."""
    loops.configure("echo $N", event_loop={"max_iterations": 3})
    await loops.run()  # loads everything
    fds, children = len(list(Path("/proc/self/fd").iterdir())), children_of(os.getpid())
    gc.collect()
    tracemalloc.start()
    try:
        loops.configure("echo $N", event_loop={"max_iterations": 23})
        loops.events.clear()
        await loops.run(goes_on=True)
        loops.events.clear()
        gc.collect()
        ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*youbencha*")])
    finally:
        tracemalloc.stop()
    assert len(list(Path("/proc/self/fd").iterdir())) <= fds
    assert len(children_of(os.getpid())) <= len(children)
    assert sum(statistic.size for statistic in ours.statistics("filename")) < 200_000


def children_of(pid: int) -> list[str]:
    return [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
