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
from youbencha.scripted_model import ScriptedModel
from youbencha.store.bundle import GatewayReport, ResultsBundle

YB_AND_ITS_MODULES = """
import atexit, sys
from youbencha.cli import main
atexit.register(lambda: print("loaded", *sys.modules))
main()
"""
CALL = """
import json, os, urllib.request
body = {"model": "claude-opus-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello."}]}
url, key = os.environ["ANTHROPIC_BASE_URL"], os.environ["ANTHROPIC_API_KEY"]
headers = {"x-api-key": key, "content-type": "application/json"}
request = urllib.request.Request(url + "/v1/messages", json.dumps(body).encode(), headers)
open("answer.json", "wb").write(urllib.request.urlopen(request).read())
"""
NOT_WITH_A_TABLE = {"genai_prices", "httpx", "httpx2"}


async def run(runs: RunBench, env: Mapping[str, str]) -> tuple[GatewayReport, set[str]]:
    """What the gateway reports of it, and the packages that were loaded at its end."""
    command = (sys.executable, "-c", YB_AND_ITS_MODULES, "run", "-c", str(runs.case_file), "--quiet")
    process = await asyncio.create_subprocess_exec(
        *command, cwd=runs.root, env={**os.environ, **runs.env, **env}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    verdict, loaded = (line.split() for line in out.decode().splitlines())
    assert verdict[0] == "passed"
    results = ResultsBundle.model_validate_json((runs.runs()[-1] / "artifacts" / "results.json").read_bytes())
    assert results.agent is not None
    assert results.agent.gateway is not None
    return results.agent.gateway, {name.partition(".")[0] for name in loaded}


async def test_genai_prices_is_loaded_once_for_each_version(runs: RunBench) -> None:
    runs.write_case({"type": "command", "config": {"command": [sys.executable, "-c", CALL]}}, gateway="builtin")
    async with ScriptedModel(script(says("Hello."), says("Hello again."))) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        first, loaded_first = await run(runs, env)
        second, loaded_second = await run(runs, env)
    assert "genai_prices" in loaded_first
    assert loaded_second & NOT_WITH_A_TABLE == set()
    assert first.prices == second.prices == f"genai-prices {version('genai-prices')}"
    for usage in (first.usage, second.usage):
        assert usage is not None
        assert usage.input_tokens
        assert usage.output_tokens
        dollars = usage.input_tokens * 5 + usage.output_tokens * 25
        assert usage.cost_usd == pytest.approx(dollars / 1_000_000)
