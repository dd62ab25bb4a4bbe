"""Trials of one run share gateways and budgets."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import aiohttp
import pytest
from trial_bench import TrialBench

from systems import posix_only
from youbencha.gateway.budget import NO_CAPS, Account, Caps, Spend
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.ledger import read_ledger
from youbencha.gateway.wires import WIRES
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.store.bundle import ResultsBundle
from youbencha.trial.context import Host, TrialContext
from youbencha.trial.gateways import Budgets
from youbencha.trial.plan import Plan
from youbencha.trial.prepare import open_trial
from youbencha.trial.run import run_trial

BODY = {"model": "claude-opus-4-5", "max_tokens": 60, "messages": [{"role": "user", "content": "More."}]}
EACH = 100
"""Tokens of an answer."""
WORST = WIRES["anthropic-messages"].measure("/v1/messages", BODY, len(json.dumps(BODY))).worst_tokens

ASK_UNTIL_REFUSED = f"""
import json, os, urllib.error, urllib.request
headers = {{"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
for _ in range(40):
    try:
        urllib.request.urlopen(urllib.request.Request(url, json.dumps({BODY}).encode(), headers)).read()
    except urllib.error.HTTPError as error:
        print(error.read().decode())
        break
"""
ANSWER = {"text": "yes", "usage": {"input_tokens": EACH - 40, "output_tokens": 40}, "times": "forever"}
SCRIPT = Script.model_validate({"tools_optional": True, "turns": [ANSWER]})


@pytest.fixture
async def host(trials: TrialBench) -> AsyncIterator[Host]:
    async with ScriptedModel(SCRIPT) as model:
        yield trials.host({"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"})
    trials.assert_nothing_is_left()


def plan(trials: TrialBench, host: Host, **gateway: Any) -> Plan:
    repo = trials.root / "repository"
    case = trials.case(
        ASK_UNTIL_REFUSED,
        repo=repo if repo.exists() else None,
        gateway={"type": "builtin", **gateway},
    )
    return trials.plan(host, case)


async def run_all(trials: TrialBench, host: Host, agents: Sequence[tuple[str, Plan]]) -> list[ResultsBundle]:
    """Run them all at the same time."""
    started = len(list(trials.runs.glob("*")))
    directories = [trials.runs / f"trial-{started + number}" for number, _ in enumerate(agents)]
    work = [
        run_trial(plan, host, directory=directory, agent=agent)
        for (agent, plan), directory in zip(agents, directories, strict=True)
    ]
    return [result.bundle for result in await asyncio.gather(*work)]


def spent(bundle: ResultsBundle) -> int:
    assert bundle.agent is not None
    assert bundle.agent.gateway is not None
    assert bundle.agent.gateway.usage.total_tokens is not None
    return bundle.agent.gateway.usage.total_tokens


async def test_six_trials_under_one_total_cap(trials: TrialBench, host: Host) -> None:
    cap = 2000
    agents = [(name, plan(trials, host, tokens_total=cap)) for name in ("one", "two", "three") * 2]
    async with host.sharing(agents, log_dir=trials.root) as budgets:
        assert budgets.total.exhausted is None
        bundles = await run_all(trials, host, agents)
        assert budgets.total.exhausted == ("tokens", cap, budgets.total.spent_tokens)
        assert budgets.agent("two").exhausted == budgets.total.exhausted
        assert (budgets.total.reserved_tokens, budgets.total.unseen_tokens) == (0, 0)
        assert budgets.total.spent_tokens == sum(map(spent, bundles))
        late = await run_all(trials, host, agents[:1])
    assert cap <= sum(map(spent, bundles)) < cap + WORST
    assert spent(late[0]) == 0
    for bundle in (*bundles, *late):
        assert bundle.agent is not None
        assert bundle.agent.gateway is not None
        assert bundle.agent.gateway.budget is not None
        assert bundle.agent.gateway.budget.exceeded
        assert bundle.agent.gateway.budget.cap_tokens == cap
        assert bundle.outcome is not None
        assert (bundle.outcome.name, bundle.agent.gateway.refused) == ("limit", 1)


async def test_each_agent_has_its_own_cap_over_all_its_trials(trials: TrialBench, host: Host) -> None:
    rich, poor = plan(trials, host, tokens_per_agent=1500), plan(trials, host, tokens_per_agent=500)
    agents = [("rich", rich), ("rich", rich), ("poor", poor), ("poor", poor), ("poor", poor)]
    async with host.sharing(agents, log_dir=trials.root) as budgets:
        bundles = await run_all(trials, host, agents)
    of_rich, of_poor = sum(map(spent, bundles[:2])), sum(map(spent, bundles[2:]))
    assert 1500 <= of_rich < 1500 + WORST
    assert 500 <= of_poor < 500 + WORST
    assert (budgets.agent("rich").spent_tokens, budgets.agent("poor").spent_tokens) == (of_rich, of_poor)
    assert budgets.total.spent_tokens == of_rich + of_poor
    assert budgets.total.exhausted is None
    gateway = bundles[4].agent and bundles[4].agent.gateway
    assert gateway is not None
    assert gateway.budget is not None
    assert "500 tokens for all trials of poor" in (gateway.budget.reason or "")


async def test_what_earlier_attempts_spent_counts(trials: TrialBench, host: Host) -> None:
    one = plan(trials, host, tokens_total=1000, tokens_per_agent=600, tokens_per_trial=300)
    agents = [("one", one), ("two", one)]
    async with host.sharing(agents, log_dir=trials.root) as budgets:
        budgets.agent("one").charge(Spend(Decimal("0.5"), 500))
        budgets.total.charge(Spend(None, 200))
        assert (budgets.total.spent_usd, budgets.total.spent_tokens) == (Decimal("0.5"), 700)
        bundles = await run_all(trials, host, agents[:1])
        bundles += await run_all(trials, host, agents[1:])
    assert [spent(bundle) for bundle in bundles] == [100, 200]
    assert budgets.total.exhausted == ("tokens", 1000, 1000)


async def test_a_trial_without_others_has_its_own_budgets(trials: TrialBench, host: Host) -> None:
    one = plan(trials, host, tokens_per_agent=300, tokens_total=500)
    bundles = await run_all(trials, host, [("one", one), ("one", one)])
    assert [spent(bundle) for bundle in bundles] == [300, 300]


async def test_one_gateway_for_plans_that_can_share_it(
    trials: TrialBench, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It forgets what was for trials that are over, and is closed at the end."""
    opened: list[Gateway] = []
    enter = Gateway.__aenter__

    async def noticed(gateway: Gateway) -> Gateway:
        opened.append(gateway)
        return await enter(gateway)

    monkeypatch.setattr(Gateway, "__aenter__", noticed)
    price = {"claude-*": {"input": 1, "output": 1}}
    plans = [
        plan(trials, host, tokens_per_trial=cap, prices=prices) for cap, prices in ((100, {}), (200, {}), (100, price))
    ]
    async with host.sharing([("one", plan) for plan in plans], log_dir=trials.root):
        bundles = await run_all(trials, host, [("one", each) for each in plans * 2])
        assert [spent(bundle) for bundle in bundles] == [100, 200, 100] * 2
        assert len(opened) == 2
        for gateway in opened:
            assert (gateway.keys._valid, gateway.keys._ended, gateway._failure_callbacks) == ({}, {}, [])
            assert gateway.url
    for gateway in opened:
        with pytest.raises(RuntimeError):
            _ = gateway.url
    for number, bundle in enumerate(bundles):
        calls = list(read_ledger(trials.runs / f"trial-{number}" / "artifacts" / "gateway-ledger.jsonl"))
        assert sum(call["output_tokens"] or 0 for call in calls) * EACH // 40 == spent(bundle)


LITELLM = """
import http.server, os, sys

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

print("started", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answer).serve_forever()
"""


@posix_only("the program is a shell script")
async def test_litellm_is_started_once(trials: TrialBench, host: Host) -> None:
    program = trials.root / "litellm"
    (trials.root / "stand_in.py").write_text(LITELLM)
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{trials.root}/stand_in.py' \"$@\"\n")
    program.chmod(0o755)
    case = trials.case("", gateway={"type": "litellm", "litellm": {"executable": str(program)}})
    agents = [("one", trials.plan(host, case))] * 3
    async with host.sharing(agents, log_dir=trials.root):
        bundles = await run_all(trials, host, agents)
    assert [log.read_text().splitlines()[0] for log in trials.root.glob("litellm*.log")] == ["started"]
    assert [bundle.artifacts.gateway for bundle in bundles] == [("gateway-ledger.jsonl",)] * 3


def test_the_lowest_cap_counts(trials: TrialBench, host: Host) -> None:
    def caps(accounts: Mapping[str, Account]) -> dict[str, Caps]:
        return {name: account.caps for name, account in accounts.items()}

    plans = [
        ("one", plan(trials, host, budget_total_usd=3, tokens_per_agent=10)),
        ("one", plan(trials, host, budget_total_usd=2.5, tokens_total=7)),
        ("two", plan(trials, host, budget_per_agent_usd=0.1)),
    ]
    budgets = Budgets((name, each.gateway) for name, each in plans if each.gateway)
    assert budgets.total.caps == Caps(Decimal("2.5"), 7)
    assert caps({name: budgets.agent(name) for name in ("one", "two", "other")}) == {
        "one": Caps(tokens=10),
        "two": Caps(Decimal("0.1")),
        "other": NO_CAPS,
    }


async def test_evaluators_count_in_the_total_only(trials: TrialBench, host: Host) -> None:
    one = plan(trials, host, tokens_total=300, tokens_per_agent=100, tokens_per_trial=100)
    headers = {"content-type": "application/json"}
    async with host.sharing([("one", one)], log_dir=trials.root) as budgets, aiohttp.ClientSession() as client:
        context: TrialContext
        async with open_trial(one, host, directory=trials.runs / "judged", agent="one", on_event=print) as context:
            assert context.gateway is not None
            async with context.gateway.key_for("judge") as judge:
                statuses = []
                for _ in range(4):
                    asked = client.post(
                        f"{judge.access.url}/v1/messages", json=BODY, headers={**headers, "x-api-key": judge.access.key}
                    )
                    async with asked as answer:
                        statuses.append(answer.status)
            assert statuses == [200, 200, 200, 402]
            assert (budgets.total.spent_tokens, budgets.agent("one").spent_tokens) == (300, 0)
            warnings = await context.gateway.close()
        assert warnings == [("BUDGET_EXCEEDED", "The evaluators exceeded the run's total budget.")]
        bundles = await run_all(trials, host, [("one", one)])
    assert spent(bundles[0]) == 0
