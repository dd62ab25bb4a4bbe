"""What an adapter script reports is kept beside what the gateway counted, and no budget trusts it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from arena_process import ArenaProject
from engine_bench import metas

from claude_bench import API_KEY, says, script
from youbencha.scripted_model import ScriptedModel
from youbencha.store.arena import TrialMeta

REPORTED: dict[str, Any] = {
    "input_tokens": 1200,
    "output_tokens": 30,
    "cache_read_tokens": 400,
    "cache_creation_tokens": 0,
    "total_cost_usd": 5000.0,
}
ASK = """
import json, os, urllib.request
body = {"model": "claude-opus-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
address = os.environ["PROXY_URL"] + "/v1/messages"
urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), headers)).read()
"""


def write_adapter(root: Path, *, asks: bool) -> None:
    (root / "ask.py").write_text(ASK)
    ask = f"'{sys.executable}' '{root}/ask.py'" if asks else "true"
    report = f"echo '{json.dumps(REPORTED)}' > .thunderdome-metrics.json"
    (root / "adapter.sh").write_text(f"#!/bin/sh\n{ask}\necho made > made.txt\n{report}\n")
    (root / "adapter.sh").chmod(0o755)


async def run(root: Path, *, asks: bool) -> tuple[ArenaProject, TrialMeta]:
    write_adapter(root, asks=asks)
    orchestrator = {"name": "script", "adapter": "adapter.sh", "model": "claude-opus-4-5"}
    budgets = {"per_trial_usd": 1, "total_usd": 2}
    project = ArenaProject(root, orchestrators=[orchestrator], tasks=1, gateway="builtin", budgets=budgets)
    async with ScriptedModel(script(says("Hi."))) as model:
        project.more_env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        done = await asyncio.to_thread(project.run_here)
    assert done.returncode == 0, done.stderr
    (meta,) = metas(project.latest).values()
    return project, meta


@pytest.mark.parametrize("asks", [False, True])
async def test_a_script_that_reports_its_own_usage(tmp_path: Path, asks: bool) -> None:
    project, meta = await run(tmp_path, asks=asks)
    assert meta.reported is not None
    assert (meta.reported.total_tokens, meta.reported.cost_usd) == (1630, 5000.0)
    attempt = meta.attempts[-1]
    if asks:
        assert meta.total_tokens is not None
        assert 0 < meta.total_tokens < 1630
        assert meta.total_cost_usd is not None
        assert 0 < meta.total_cost_usd < 1
        assert (attempt.total_tokens, attempt.cost_usd) == (meta.total_tokens, meta.total_cost_usd)
    else:
        assert (meta.total_tokens, meta.total_cost_usd) == (1630, 5000.0)
        assert (attempt.total_tokens, attempt.cost_usd) == (None, None)
    board = json.loads(project.run_here_as("report", "--format", "json").stdout)
    assert board["agents"][0]["tokens"]["value"] == meta.total_tokens
