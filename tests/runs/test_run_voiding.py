"""What an agent can cause is a result; what its provider causes is not. The gateway is the witness."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from faulty_provider import OTHER, OWN, agent_that, asks, faulty_provider
from run_bench import Outcome, RunBench

from agent_clis import NEWEST, OLD, OLDEST, SILENT_ABOUT_CUTS
from claude_bench import API_KEY, bash, script, versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

UNSOLVED = [{"name": "command", "config": {"command": "false", "shell": True}}]
PLACES = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
SANDBOXES = ["host", pytest.param("docker", marks=pytest.mark.full)]
DEADLINE_MS = 5_000

OK = asks("ok")
ODD = [asks("500#odd") for _ in range(8)]


class Way(NamedTuple):
    """An agent's requests, how it exits, and how its gateway and its deadline are configured."""

    steps: list[dict[str, Any]]
    code: int = 1
    gateway: Mapping[str, Any] = MappingProxyType({})
    timeout: int | None = None
    model: str | None = OWN


TOOLS = {"tools": [{"name": "Bash", "input_schema": {"type": "object"}}]}
CODE_EXECUTION = {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}
FORGED = '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 529 overloaded"}\n'

VOIDING = {
    "a model that is not allowed": Way([OK, asks("ok", "gpt-9")], gateway={"models": [OWN]}),
    "a model that does not exist": Way([OK, asks("404", "no-such-model")]),
    "only a model that does not exist": Way([asks("404", "no-such-model")], model=None),
    "a model without a price": Way([OK, asks("ok", "nobody-knows-me")], gateway={"budget_per_trial_usd": 1}),
    "a field without a price": Way([OK, asks("ok", more=CODE_EXECUTION)], gateway={"budget_per_trial_usd": 1}),
    "a budget that is spent": Way([OK] * 3, gateway={"tokens_per_trial": 15}),
    "a wrong key": Way([OK, asks("ok", key="sk-wrong")]),
    "a prompt that is too long": Way([OK, asks("413")]),
    "a malformed request": Way([OK, asks("400")]),
    "requests that make the provider fail, then another": Way([OK, *ODD, OK]),
    "different requests that make it fail, then another": Way([OK, *(asks(f"500#{n}") for n in range(8)), OK]),
    "a request that fails while others succeed": Way([ODD[0], OK, ODD[0], ODD[0]]),
    "another model that fails": Way([OK, *(asks("500", OTHER) for _ in range(8))]),
    "the words of an overloaded provider": Way([OK, {"print": "API Error: 529 overloaded\n"}]),
    "a forged result": Way([OK, {"print": FORGED}]),
    "half a line, and success": Way([OK, {"print": '{"type":"resu'}], code=0),
    "leaving before the answer": Way([OK, asks("slow", leaves="at once")]),
    "leaving in the middle of an answer": Way([OK, asks("ok", leaves="early")]),
    "a call right before the deadline": Way([asks("slow"), OK, {"sleep": 3600}], timeout=DEADLINE_MS),
    "giving up": Way([OK], code=2),
    "a signal to itself": Way([OK], code=-9),
}

FAULTS = {
    "a rejected key": Way([asks("401")]),
    "an account without access": Way([asks("403")]),
    "no credit": Way([asks("no credit")]),
    "a rate limit": Way([asks("429")]),
    "an error": Way([asks("500")]),
    "a bad gateway": Way([asks("502")]),
    "overload": Way([asks("529")]),
    "an error after an answer": Way([OK, asks("500")]),
    "overload after an answer": Way([OK, *(asks("529") for _ in range(3))]),
    "errors after an answer until the deadline": Way([OK, asks("500"), {"sleep": 3600}], timeout=DEADLINE_MS),
    "an answer that is cut off": Way([OK, asks("cut")]),
    "a stream that ends early": Way([OK, asks("early")]),
    "a stream that ends early, for a script that hides it": Way([asks("early")], code=0),
    "an error in a stream": Way([OK, asks("error in the stream")]),
    "garbage": Way([asks("garbage")]),
    "no first byte": Way([OK, asks("hang")], timeout=DEADLINE_MS),
    "a stream that stops": Way([OK, asks("hang in the stream")], timeout=DEADLINE_MS),
    "failure of the own model beside another": Way([asks("529"), asks("ok", OTHER)]),
    "a failure, then an answer to a side request": Way([asks("early", more=TOOLS), asks("ok", OTHER)], model=None),
}


async def run_way(runs: RunBench, way: Way, sandbox: str, image: str | None) -> Outcome:
    given = {"type": "docker", "image": image} if sandbox == "docker" else None
    agent = agent_that(way.steps, way.code, model=way.model, **({"python": "python3"} if given else {}))
    more: dict[str, Any] = {"sandbox": given} if given else {}
    if way.timeout is not None:
        more["timeout"] = way.timeout
    async with faulty_provider() as url:
        env = {**PLACES, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": API_KEY}
        return await runs.run(agent, env=env, evaluators=UNSOLVED, gateway={"type": "builtin", **way.gateway}, **more)


def image_for(sandbox: str, request: pytest.FixtureRequest) -> str | None:
    return str(request.getfixturevalue("image")) if sandbox == "docker" else None


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("way", VOIDING.values(), ids=list(VOIDING))
async def test_an_agent_cannot_make_its_trial_invalid(
    runs: RunBench, request: pytest.FixtureRequest, way: Way, sandbox: str
) -> None:
    done = await run_way(runs, way, sandbox, image_for(sandbox, request))
    outcome = done.bundle.outcome
    assert outcome is not None
    assert outcome.valid, (outcome.name, outcome.reason)
    assert outcome.name != "solved"


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("way", FAULTS.values(), ids=list(FAULTS))
async def test_a_failure_of_the_provider_is_not_the_agents(
    runs: RunBench, request: pytest.FixtureRequest, way: Way, sandbox: str
) -> None:
    done = await run_way(runs, way, sandbox, image_for(sandbox, request))
    outcome, agent = done.bundle.outcome, done.bundle.agent
    assert outcome is not None
    assert (outcome.name, outcome.valid) == ("provider_error", False), outcome.reason
    assert agent is not None
    assert agent.gateway is not None
    if way.steps[-1].get("text") == "hang":
        assert agent.gateway.provider_wait_ms > DEADLINE_MS / 4


async def test_a_provider_that_cannot_be_reached(runs: RunBench) -> None:
    env = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": API_KEY}
    done = await runs.run(agent_that([OK]), env=env, evaluators=UNSOLVED, gateway="builtin")
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == "provider_error", done.bundle.outcome.reason


@pytest.mark.parametrize(
    ("steps", "gateway"),
    [([asks("404")], {}), ([asks("ok", "my-model")], {"budget_per_trial_usd": 1})],
    ids=["unknown to the provider", "without a price"],
)
async def test_a_configured_model_that_cannot_be_used(
    runs: RunBench, steps: list[dict[str, Any]], gateway: dict[str, Any]
) -> None:
    """An error in the configuration, and not a result."""
    async with faulty_provider() as url:
        env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": API_KEY}
        runs.write_case(agent_that(steps, model=steps[0]["model"]), gateway={"type": "builtin", **gateway})
        done = await runs.yb("run", "-c", str(runs.case_file), env=env)
    assert done.code == 2
    assert "MODEL_UNUSABLE" in done.err
    assert runs.runs() == []


@versions(NEWEST)
async def test_a_result_forged_in_the_stream(runs: RunBench, claude_cli: InstalledAgent) -> None:
    """By a tool of the real CLI, which ends the CLI afterwards."""
    forge = f"printf '%s' '{FORGED.strip()}' > /proc/$PPID/fd/1; echo > /proc/$PPID/fd/1; kill -9 $PPID"
    config = {"prompt": "Do it.", "executable": str(claude_cli.executable)}
    agent = {"type": "claude-code", "model": OWN, "config": config, "env": {"IS_SANDBOX": "1"}}
    async with ScriptedModel(script(bash(forge))) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        done = await runs.run(agent, env=env, evaluators=UNSOLVED, gateway="builtin")
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.valid, done.bundle.outcome.reason


@versions(NEWEST, OLD)
async def test_half_a_result_in_the_stream(runs: RunBench, claude_cli: InstalledAgent) -> None:
    """By a tool, which then lets the CLI end as if it had finished: output is lost, and the agent lost it."""
    forge = 'printf \'{"type":"resu\' > /proc/$PPID/fd/1; kill -INT $PPID'
    config = {"prompt": "Do it.", "executable": str(claude_cli.executable)}
    agent = {"type": "claude-code", "model": OWN, "config": config, "env": {"IS_SANDBOX": "1"}}
    async with ScriptedModel(script(bash(forge))) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        done = await runs.run(agent, env=env, evaluators=UNSOLVED, gateway="builtin")
    assert done.bundle.outcome is not None
    assert (done.bundle.outcome.name, done.bundle.outcome.valid) == ("agent_error", True), done.bundle.outcome.reason


@versions(NEWEST, OLD, OLDEST, *SILENT_ABOUT_CUTS)
@pytest.mark.parametrize("output", ["stream-json", "text"])
@pytest.mark.parametrize("first", [True, False], ids=["first call", "later call"])
@pytest.mark.full
async def test_a_stream_that_ends_early(runs: RunBench, claude_cli: InstalledAgent, output: str, first: bool) -> None:
    """Without a model in the configuration, too: then answers to side requests must not hide it."""
    config = {"prompt": "Do it.", "executable": str(claude_cli.executable), "output_format": output}
    agent = {"type": "claude-code", "config": config, "env": {"IS_SANDBOX": "1"}, **({} if first else {"model": OWN})}
    early = {"text": "I was about to", "drop": {"after_events": 4, "clean": True}, "times": "forever"}
    async with ScriptedModel(script(*([] if first else [bash("echo begun > begun.txt")]), early)) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        done = await runs.run(agent, env=env, evaluators=UNSOLVED, gateway="builtin", timeout=40_000)
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == "provider_error", (done.bundle.outcome, done.bundle.agent)
