"""`yb run` through the gateway, with the real Claude Code CLI: metered, capped, and without the real key."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from run_bench import PATIENCE_S, Outcome, RunBench

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, bash, full, says, script, versions
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.ledger import read_ledger
from youbencha.gateway.server import GatewayServer
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.store.bundle import GatewayReport
from youbencha.transcript.reader import read

TOKENS = {"input_tokens": 1000, "output_tokens": 25, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 50}
EDIT = bash("echo 'TAX = 0.2' > src/prices.py")
MODEL = "claude-opus-4-5"


def agent(cli: InstalledAgent, prompt: str = "Fix the tax.", **more: Any) -> dict[str, Any]:
    config = {"prompt": prompt, "executable": str(cli.executable)}
    return {"type": "claude-code", "model": MODEL, "config": config, "env": {"IS_SANDBOX": "1"}, **more}


def keys(model: ScriptedModel) -> dict[str, str]:
    """What the harness has, and the agent must not get."""
    return {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}


async def run_with(runs: RunBench, given: dict[str, Any], answers: Script, *options: str, **more: Any) -> Outcome:
    async with ScriptedModel(answers) as model:
        return await runs.run(given, *options, env=keys(model), **more)


def report(done: Outcome) -> GatewayReport:
    assert done.bundle.agent is not None
    assert done.bundle.agent.gateway is not None, done.done.err
    return done.bundle.agent.gateway


def ledger(done: Outcome) -> list[dict[str, Any]]:
    return list(read_ledger(done.artifacts / report(done).ledger))


@versions(full("1.0.44"), full("2.1.30"))
async def test_in_text_mode_the_gateway_counts_what_the_cli_does_not(
    runs: RunBench, claude_cli: InstalledAgent
) -> None:
    given = agent(claude_cli)
    given["config"]["output_format"] = "text"
    side = {"text": "ok", "usage": dict.fromkeys(TOKENS, 0)}
    done = await run_with(runs, given, script(EDIT, says("Done."), usage=TOKENS, side=side))
    assert done.done.code == 0, done.done.err
    usage = done.log.usage
    assert usage is not None
    assert usage == report(done).usage
    assert (usage.input_tokens, usage.output_tokens) == (2000, 50)
    assert (usage.cache_read_tokens, usage.cache_creation_tokens, usage.partial) == (1400, 100, False)


@versions(NEWEST, full(OLD))
async def test_every_token_of_a_run_is_counted(runs: RunBench, claude_cli: InstalledAgent) -> None:
    answers = script(bash("env > environment.txt"), EDIT, says("Done."), usage=TOKENS)
    async with ScriptedModel(answers) as model:
        done = await runs.run(agent(claude_cli), env=keys(model))
    assert done.done.code == 0, done.done.err
    metered, bundle = report(done), done.bundle
    asked = [request for request in model.requests if request.path.startswith("/v1/messages?")]
    assert {request.headers["x-api-key"] for request in asked} == {API_KEY}
    main = [request for request in asked if request.kind == "turn"]
    assert len(main) == 3
    lines = [line for line in ledger(done) if line["path"] == "/v1/messages"]
    assert len(lines) == len(asked)
    by_turn = [line for line in lines if line["cache_read_tokens"] == 700 and line["input_tokens"] == 1000]
    assert [(line["output_tokens"], line["cache_creation_tokens"], line["partial"]) for line in by_turn] == [
        (25, 50, False)
    ] * 3
    assert metered.usage is not None
    assert metered.usage.input_tokens == sum(line["input_tokens"] for line in lines)
    assert metered.usage.output_tokens == sum(line["output_tokens"] for line in lines)
    assert metered.difference is not None
    differs = metered.difference
    assert (differs.input_tokens, differs.output_tokens, differs.cache_read_tokens) == (0, 0, 0)
    assert bundle.agent is not None
    assert bundle.agent.usage == metered.usage == done.log.usage
    assert (metered.usage.cost_source, metered.usage.partial) == ("gateway", False)
    assert metered.usage.cost_usd == pytest.approx(sum(line["cost_usd"] for line in lines))
    assert bundle.agent.budget_exceeded is False
    environment = (done.tree / "environment.txt").read_text()
    assert "ANTHROPIC_API_KEY=sk-yb-" in environment
    assert API_KEY not in environment
    assert "metered by the gateway" in done.done.out
    entries = read(done.artifacts / "transcript.jsonl").entries
    counted = [entry.call for entry in entries if entry.kind == "call" and entry.call is not None]
    assert {call.source for call in counted} == {"gateway"}
    assert sum(call.tokens.output or 0 for call in counted) == metered.usage.output_tokens
    assert [(entry.kind, entry.text) for entry in entries if entry.kind in ("user", "tool", "text")] == [
        ("user", "Fix the tax."),
        ("tool", "env > environment.txt"),
        ("tool", "echo 'TAX = 0.2' > src/prices.py"),
        ("text", "Done."),
    ]


@versions(NEWEST)
async def test_a_budget_that_is_spent(runs: RunBench, claude_cli: InstalledAgent) -> None:
    answers = script(*[bash(f"echo {number} >> work.txt") for number in range(20)], says("Done."), usage=TOKENS)
    done = await run_with(runs, agent(claude_cli), answers, "--budget", "0.02")
    assert done.done.code == 1
    metered, bundle = report(done), done.bundle
    assert bundle.agent is not None
    assert bundle.outcome is not None
    assert (bundle.outcome.name, bundle.outcome.valid, bundle.agent.budget_exceeded) == ("limit", True, True)
    assert metered.budget is not None
    assert (metered.budget.cap_usd, metered.budget.exceeded) == (0.02, True)
    assert metered.usage is not None
    assert metered.usage.cost_usd is not None
    assert 0.02 <= metered.usage.cost_usd < 0.04
    assert [line["status"] for line in ledger(done)][-1] == 402
    assert bundle.outcome.reason in done.done.out
    assert bundle.summary.overall_status == "failed"


@versions(NEWEST)
async def test_waiting_for_the_provider_is_not_agent_time(runs: RunBench, claude_cli: InstalledAgent) -> None:
    busy = {"error": {"status": 429, "message": "slow down", "headers": {"retry-after": "1"}}}
    done = await run_with(runs, agent(claude_cli), script(busy, EDIT, says("Done.")), gateway="builtin")
    assert done.done.code == 0, done.done.err
    metered = report(done)
    assert metered.rate_limited == 1
    assert metered.provider_wait_ms >= 900
    assert "Provider wait" in done.done.out
    assert [line["retry_after_s"] for line in ledger(done) if line["status"] == 429] == [1.0]


GREEDY = """
import json, os, urllib.error, urllib.request
while True:
    body = json.dumps({"model": "claude-opus-4-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]})
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(os.environ["PROXY_URL"] + "/v1/messages", body.encode(), headers)
    try:
        urllib.request.urlopen(request).read()
    except urllib.error.HTTPError:
        pass
"""


@pytest.mark.parametrize("scope", ["trial", "agent", "total"])
@pytest.mark.parametrize(("cap", "most"), [("budget_per_{}_usd", 0.000001), ("tokens_per_{}", 2)])
async def test_going_over_a_cap_is_flagged_even_if_the_agent_was_done(
    runs: RunBench, cap: str, most: float, scope: str
) -> None:
    once = GREEDY.replace("while True:", "for _ in range(1):")
    agent = {"type": "command", "config": {"command": [sys.executable, "-c", once], "prompt_by": "none"}}
    name = cap.format(scope).replace("per_total", "total")
    done = await run_with(runs, agent, script(says("Yes."), usage=TOKENS), gateway={"type": "builtin", name: most})
    assert done.bundle.agent is not None
    assert done.bundle.outcome is not None
    assert (done.bundle.outcome.name, done.bundle.agent.status) == ("solved", "success")
    assert (done.bundle.agent.budget_exceeded, report(done).refused) == (True, 0)
    assert "overrun by the last call" in done.done.out


async def test_an_agent_that_ignores_a_spent_budget_is_ended(runs: RunBench) -> None:
    greedy = {"type": "command", "config": {"command": [sys.executable, "-c", GREEDY], "prompt_by": "none"}}
    # Answers to a request without tools have the script's smallest token counts.
    done = await run_with(
        runs, greedy, script(says("Yes."), usage=TOKENS), gateway={"type": "builtin", "tokens_per_trial": 5000}
    )
    metered = report(done)
    assert metered.refused >= 4
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == "limit"
    assert done.bundle.agent is not None
    assert done.bundle.agent.status == "failed"
    assert [error.code for error in done.bundle.agent.errors] == ["COMMAND_STOPPED"]


async def test_an_unreachable_provider(runs: RunBench) -> None:
    """It is a provider error, and the circuit opens soon. The untouched tree, which would pass, is not judged."""
    gives_up = GREEDY.replace("while True:", "for _ in range(10):") + "raise SystemExit(1)"
    asks = {"type": "command", "config": {"command": [sys.executable, "-c", gives_up], "prompt_by": "none"}}
    unreachable = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": API_KEY}
    done = await runs.run(asks, env=unreachable, gateway="builtin")
    assert done.done.code == 1
    assert [line["error"] for line in ledger(done)] == ["upstream_unreachable"] * 6 + ["circuit_open"] * 4
    assert report(done).circuit_opened
    assert done.bundle.outcome is not None
    assert (done.bundle.outcome.name, done.bundle.outcome.valid) == ("provider_error", False)
    assert [(evaluator.evaluator, evaluator.status) for evaluator in done.bundle.evaluators] == [
        ("git-diff", "skipped")
    ]
    assert done.bundle.summary.overall_status == "failed"


LEDGER = "../artifacts/gateway-ledger.jsonl"


@pytest.mark.parametrize(
    "damage", [f"rm {LEDGER}; mkdir {LEDGER}", "rm -rf ../artifacts"], ids=["a directory", "removed"]
)
async def test_a_damaged_ledger_does_not_end_the_run(runs: RunBench, damage: str) -> None:
    works = runs.tampering(f"{damage}; echo hello > hello.txt")
    done = await run_with(runs, works, script(says("Yes.")), gateway="builtin")
    assert done.done.code == 0, done.done.err


async def test_an_agent_that_reports_more_than_was_metered(runs: RunBench) -> None:
    """It says so itself: then the gateway's zero is not the whole truth."""
    claims = """echo '{"input_tokens": 500000, "output_tokens": 90000, "cost_usd": 3.2}' > "$YOUBENCHA_METRICS_FILE" """
    done = await run_with(runs, runs.program(claims), script(says("Yes.")), gateway="builtin")
    assert done.bundle.agent is not None
    assert "USAGE_UNACCOUNTED" in [warning.code for warning in done.bundle.agent.warnings]
    metered = report(done)
    assert metered.reported is not None
    assert (metered.reported.input_tokens, metered.reported.cost_usd) == (500_000, 3.2)
    assert metered.usage is not None
    assert (metered.usage.total_tokens, metered.usage.cost_usd) == (0, 0)
    shown = done.bundle.agent.usage
    assert shown is not None
    assert (shown.total_tokens, shown.cost_usd, shown.cost_source) == (590_000, 3.2, "agent")


@pytest.mark.parametrize(
    ("capped", "reason", "outcome"),
    [
        ({"budget_per_call_usd": 0.000001}, "call_over_cap", "limit"),
        ({"budget_per_trial_usd": 1, "prices": {}}, "price_unknown", "agent_error"),
    ],
)
async def test_an_agent_whose_calls_are_always_refused_is_ended(
    runs: RunBench, capped: dict[str, Any], reason: str, outcome: str
) -> None:
    program = GREEDY if reason == "call_over_cap" else GREEDY.replace("claude-opus-4-5", "nobody-knows-me")
    greedy = {"type": "command", "config": {"command": [sys.executable, "-c", program], "prompt_by": "none"}}
    done = await run_with(runs, greedy, script(says("Yes.")), gateway={"type": "builtin", **capped})
    assert {line["error"] for line in ledger(done)} <= {reason, "client_gone", "key_ended"}
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == outcome
    assert done.bundle.summary.overall_status == "failed"


async def test_a_server_that_cannot_be_loaded_ends_the_trial(runs: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(gateway: Gateway) -> GatewayServer:
        raise ImportError("no module named aiohttp")

    monkeypatch.setattr("youbencha.gateway.gateway._load_server", load)
    async with ScriptedModel(script(says("Yes."))) as model:
        runs.write_case(runs.program("sleep 120"), gateway="builtin")
        done = await runs.yb("run", "-c", str(runs.case_file), env=keys(model))
    assert done.code == 2
    assert "GATEWAY_START_FAILED" in done.err
    assert "no module named aiohttp" in done.err


@pytest.mark.parametrize(
    ("gateway", "options", "says_so"),
    [
        ("builtin", (), "GATEWAY_KEY_MISSING"),
        ("none", ("--budget", "1"), "a budget requires a gateway"),
        ("none", ("--replay", "x"), "a cassette requires a gateway"),
        ({"type": "builtin", "secrets_file": "nowhere.env"}, (), "The secrets file cannot be read"),
        ("builtin", ("--gateway", "nonsense"), "--gateway cannot be nonsense"),
        ("builtin", ("--budget", "-1"), "not an amount"),
        ("builtin", ("--record", "x", "--replay", "x"), "exclude each other"),
        ("builtin", ("--replay", "x"), "x"),
    ],
)
async def test_invalid_options_are_reported_before_anything_runs(
    runs: RunBench, gateway: Any, options: tuple[str, ...], says_so: str
) -> None:
    runs.write_case(runs.program("echo hello > hello.txt"), gateway=gateway)
    done = await runs.yb("run", "-c", str(runs.case_file), *options)
    assert done.code == 2, done.err
    assert says_so in done.err
    assert runs.runs() == []


TOKEN_KINDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")


async def test_what_a_killed_run_has_spent(runs: RunBench, claude_cli: InstalledAgent) -> None:
    """After `kill -9`, `yb runs` and `yb report` show what the ledger knows."""
    begun = runs.root / "begun"
    answers = script(EDIT, bash(f"touch '{begun}'; sleep 1000"), usage=TOKENS)
    async with ScriptedModel(answers) as model:
        runs.write_case(agent(claude_cli))
        process = await runs.start("run", "-c", str(runs.case_file), env=keys(model))
        while not begun.exists():
            await asyncio.sleep(0.02)
        process.kill()
        await asyncio.wait_for(process.communicate(), PATIENCE_S)
    (run,) = runs.runs()
    lines = list(read_ledger(run / "artifacts/gateway-ledger.jsonl"))
    assert len(lines) >= 2
    listed = await runs.yb("runs", "--json")
    (shown,) = json.loads(listed.out)
    assert (shown["state"], shown["partial"]) == ("died", True)
    assert shown["cost_usd"] == pytest.approx(sum(line["cost_usd"] for line in lines if line["cost_usd"]))
    assert shown["total_tokens"] == sum(line[kind] or 0 for line in lines for kind in TOKEN_KINDS)
    reported = await runs.yb("report", "--from", str(run), "--format", "json")
    assert json.loads(Path(reported.out.strip()).read_text())["agent"]["usage"]["cost_usd"] == shown["cost_usd"]


STRAYS = """
import json, os, sys, urllib.error, urllib.request
body = json.dumps({"model": sys.argv[2], "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]})
headers = {"authorization": "Bearer " + os.environ["ANTHROPIC_API_KEY"]}
address = os.environ["ANTHROPIC_BASE_URL"] + sys.argv[1]
try:
    status = urllib.request.urlopen(urllib.request.Request(address, body.encode(), headers)).status
except urllib.error.HTTPError as error:
    status = error.code
open("status.txt", "w").write(f"status {status}\\n")
"""


@pytest.mark.parametrize(
    ("path", "asked", "gateway"),
    [
        ("/v1/chat/completions", "gpt-5", {}),
        pytest.param(
            "/v1/messages",
            "claude-dear-1",
            {"models": ["claude-OPUS-*", "claude-haiku-*"]},
            marks=pytest.mark.full,  # without an agent: `tests/gateway`
        ),
    ],
    ids=["another provider", "a model that is not listed"],
)
@versions(NEWEST)
async def test_an_agents_key_opens_only_its_provider_and_models(
    runs: RunBench, claude_cli: InstalledAgent, path: str, asked: str, gateway: dict[str, Any]
) -> None:
    program = runs.root / "strays.py"
    program.write_text(STRAYS)
    async with ScriptedModel(script(bash(f"'{sys.executable}' '{program}' {path} {asked}"), says("Done."))) as model:
        openai = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": API_KEY}
        done = await runs.run(agent(claude_cli), env={**keys(model), **openai}, gateway=gateway)
    assert "+status 403" in done.diff
    assert [line["error"] for line in ledger(done) if line["model"] == asked] == ["not_allowed"]
    assert asked not in {request.body.get("model") for request in model.requests if request.method == "POST"}
