"""What a `yb run` through the gateway loads for its prices."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from importlib.metadata import version

import pytest
from run_bench import PATIENCE_S, RunBench

from claude_bench import API_KEY, says, script
from yb import SCRIPT
from youbencha.scripted_model import ScriptedModel
from youbencha.store.bundle import GatewayReport, ResultsBundle

CALL = """
import json, os, urllib.request
body = {"model": "claude-opus-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello."}]}
url, key = os.environ["ANTHROPIC_BASE_URL"], os.environ["ANTHROPIC_API_KEY"]
headers = {"x-api-key": key, "content-type": "application/json"}
request = urllib.request.Request(url + "/v1/messages", json.dumps(body).encode(), headers)
open("answer.json", "wb").write(urllib.request.urlopen(request).read())
"""


async def run(runs: RunBench, env: Mapping[str, str]) -> GatewayReport:
    """Run the test case, and return what the gateway reports."""
    command = (SCRIPT, "run", "-c", str(runs.case_file), "--quiet")
    process = await asyncio.create_subprocess_exec(
        *command, cwd=runs.root, env={**os.environ, **runs.env, **env}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert out.decode().startswith("passed")
    results = ResultsBundle.model_validate_json((runs.runs()[-1] / "artifacts" / "results.json").read_bytes())
    assert results.agent is not None
    assert results.agent.gateway is not None
    return results.agent.gateway


async def test_calls_are_priced_by_genai_prices(runs: RunBench) -> None:
    runs.write_case({"type": "command", "config": {"command": [sys.executable, "-c", CALL]}}, gateway="builtin")
    async with ScriptedModel(script(says("Hello."), says("Hello again."))) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        first = await run(runs, env)
        second = await run(runs, env)
    assert first.prices == second.prices == f"genai-prices {version('genai-prices')}"
    for usage in (first.usage, second.usage):
        assert usage is not None
        assert usage.input_tokens
        assert usage.output_tokens
        dollars = usage.input_tokens * 5 + usage.output_tokens * 25
        assert usage.cost_usd == pytest.approx(dollars / 1_000_000)
