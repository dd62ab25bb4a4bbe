"""What iterations cost, and the limit on it, with the gateway in front of a scripted model."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from loop_bench import LoopBench

from systems import posix_only
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.trial.context import Host

pytestmark = posix_only("the agents are shell scripts")

BODY = {"model": "claude-opus-4-5", "max_tokens": 40, "messages": [{"role": "user", "content": "More."}]}
ASK = f"""
import json, os, sys, urllib.error, urllib.request
headers = {{"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
for _ in range(int(sys.argv[1])):
    try:
        urllib.request.urlopen(urllib.request.Request(url, json.dumps({BODY}).encode(), headers)).read()
    except urllib.error.HTTPError as error:
        sys.exit(error.read().decode())
"""
ANSWER = {"text": "yes", "usage": {"input_tokens": 60, "output_tokens": 40}, "times": "forever"}
SCRIPT = Script.model_validate({"tools_optional": True, "turns": [ANSWER]})
EACH_USD = 0.1
GATEWAY = {"type": "builtin", "prices": {"*": {"input": 1000, "output": 1000}}}
"""So that a call of 100 tokens costs 10 cents."""


@pytest.fixture
async def host(loops: LoopBench) -> AsyncIterator[Host]:
    (loops.root / "ask.py").write_text(ASK)
    async with ScriptedModel(SCRIPT) as model:
        loops.env |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"}
        yield loops.host()


def ask(loops: LoopBench, times: int) -> str:
    return f"'{sys.executable}' '{loops.root}/ask.py' {times}"


async def test_each_iteration_has_its_own_cost(loops: LoopBench, host: Host) -> None:
    script = f"{ask(loops, 1)}; echo $N; [ $N = 2 ] && {ask(loops, 1)} && echo LOOP_COMPLETE; exit 0"
    loops.configure(script, gateway=GATEWAY)
    state = await loops.run(host)
    first, second = loops.history().records
    assert (first.input_tokens, first.output_tokens, first.cost_usd) == (60, 40, pytest.approx(EACH_USD))
    assert (second.input_tokens, second.cost_usd) == (120, pytest.approx(2 * EACH_USD))
    assert state.cost_usd == pytest.approx(3 * EACH_USD)
    assert not first.partial
    summary = json.loads((loops.tree / ".ralph/loops" / state.loop_id / "summary.json").read_text())
    assert (summary["cost_usd"], summary["output_tokens"]) == (pytest.approx(3 * EACH_USD), 120)


async def test_the_limit_ends_an_iteration_and_holds_for_all(loops: LoopBench, host: Host) -> None:
    loops.configure(f"{ask(loops, 2)} || exit 1; echo $N", gateway=GATEWAY, event_loop={"max_cost_usd": 0.5})
    state = await loops.run(host)
    assert state.outcome == "max_cost"
    records = loops.history().records
    assert [record.outcome for record in records] == ["completed", "completed", "limit"]
    assert 0.5 <= (state.cost_usd or 0) <= 0.5 + 2 * EACH_USD
    again = await loops.run(host, goes_on=True)
    assert (again.outcome, loops.sessions) == ("max_cost", 3)


async def test_the_limit_holds_across_continue(loops: LoopBench, host: Host) -> None:
    limits = {"max_cost_usd": 0.5, "max_iterations": 1}
    loops.configure(f"{ask(loops, 3)}; echo $N", gateway=GATEWAY, event_loop=limits)
    assert (await loops.run(host)).outcome == "max_iterations"
    loops.configure(f"{ask(loops, 30)}; echo $N", gateway=GATEWAY, event_loop={**limits, "max_iterations": 9})
    state = await loops.run(host, goes_on=True)
    assert (state.outcome, loops.sessions) == ("max_cost", 2)
    assert 0.5 <= (state.cost_usd or 0) <= 0.5 + 2 * EACH_USD


async def test_a_killed_iteration_has_the_cost_of_its_ledger(loops: LoopBench, host: Host) -> None:
    script = f"[ $N = 1 ] && {{ {ask(loops, 2)}; touch asked; sleep 100; }}; echo LOOP_COMPLETE"
    loops.configure(script, gateway=GATEWAY)
    process = loops.start("run", "-c", str(loops.root / "ralph.yml"), "--no-tui")
    await until_exists(loops.tree / "asked")
    process.kill()
    process.communicate()
    state = await loops.run(host, goes_on=True)
    first, second = loops.history().records
    assert (first.outcome, first.cost_usd, first.partial) == ("interrupted", pytest.approx(2 * EACH_USD), True)
    assert (first.usage_source, second.usage_source) == ("gateway", None)
    assert (second.outcome, second.cost_usd) == ("completed", None), "nothing went through the gateway: it is unknown"
    assert state.cost_usd == pytest.approx(2 * EACH_USD)


async def until_exists(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.01)
