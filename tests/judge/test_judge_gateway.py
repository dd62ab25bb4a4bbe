"""A judge uses the gateway of the run, if it supports one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from judge_bench import Judge, JudgeBench, ours

from youbencha.gateway.access import GatewayAccess
from youbencha.spec.testcase import AgentSpec

ACCESS = GatewayAccess("http://127.0.0.1:4100", "yb-virtual-0123456789")
GOOD = ours(readme_was_modified=1, no_errors=1)


@dataclass
class KnowingJudge(Judge):
    """Knows of gateways, and whose a model is that is called after its API."""

    def gateway_provider(self, model: str | None, env: Mapping[str, str]) -> Any:
        return model if model == "anthropic" else env.get("PROVIDER")

    def gateway_env(self, access: GatewayAccess, model: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
        return {}

    def credentials_in(self, env: Mapping[str, str]) -> Sequence[str]:
        return ()


async def test_the_judge_gets_the_gateway(bench: JudgeBench) -> None:
    judge = KnowingJudge([GOOD])
    result = await bench.judge(judge, {"model": "anthropic"}, gateway=ACCESS)
    assert result.status == "passed"
    assert [context.gateway for context in judge.seen] == [ACCESS]


async def test_the_judges_options_may_name_the_model(bench: JudgeBench) -> None:
    judge = KnowingJudge([GOOD])
    await bench.judge(judge, {"config": {"model": "anthropic"}}, gateway=ACCESS)
    await bench.judge(judge, {"env": {"PROVIDER": "openai"}}, gateway=ACCESS)
    assert [context.gateway for context in judge.seen] == [ACCESS, ACCESS]


@pytest.mark.parametrize(
    ("kind", "agent", "gateway"),
    [("tiny", "tiny", ACCESS), ("tiny", "worker", None)],
    ids=["as the agent of the run", "another whose API is unknown"],
)
async def test_an_unknown_provider(bench: JudgeBench, kind: str, agent: str, gateway: GatewayAccess | None) -> None:
    judge = KnowingJudge([GOOD])
    await bench.judge(judge, {"type": kind}, gateway=ACCESS, agent=AgentSpec(type=agent, config={"prompt": "x"}))
    assert [context.gateway for context in judge.seen] == [gateway]


async def test_a_judge_without_gateway_support_gets_none(bench: JudgeBench) -> None:
    judge = Judge([GOOD])
    result = await bench.judge(judge, gateway=ACCESS, agent=AgentSpec(type="tiny", config={"prompt": "x"}))
    assert result.status == "passed"
    assert [context.gateway for context in judge.seen] == [None]


async def test_without_a_gateway_there_is_none(bench: JudgeBench) -> None:
    judge = KnowingJudge([GOOD])
    await bench.judge(judge, {"model": "anthropic"})
    assert [context.gateway for context in judge.seen] == [None]
