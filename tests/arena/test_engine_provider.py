"""A failure of the provider or of the host is not the agent's: it is tried again, and every attempt is kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from engine_bench import EngineBench, events, metas

from agent_clis import NEWEST
from claude_bench import API_KEY, bash, script, versions
from youbencha.cli.matrix import MatrixDisplay
from youbencha.engine.matrix import Matrix
from youbencha.engine.run import MatrixOptions, run_matrix
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel
from youbencha.spec.arena import RetrySpec

ASKS_ONCE = """
import json, os, urllib.request
body = {"model": "claude-no-such-one", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
body["tools"] = [{"name": "Bash", "input_schema": {"type": "object"}}]
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
url = os.environ["PROXY_URL"] + "/v1/messages"
urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers))
"""


async def test_a_model_that_does_not_exist_ends_the_trials_of_its_orchestrator(tmp_path: Path) -> None:
    """On all tasks, with an error in the configuration; others go on."""
    bench = EngineBench(tmp_path)
    agent = {
        "type": "command",
        "model": "claude-no-such-one",
        "config": {"command": [sys.executable, "-c", ASKS_ONCE], "prompt_by": "none"},
    }
    async with ScriptedModel(script({"error": {"status": 404}, "times": "forever"})) as model:
        host = bench.host({"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY})
        wrong = (bench.cell(host, "wrong", task, agent=agent, gateway="builtin") for task in ("one", "two"))
        matrix = Matrix(cells=(*wrong, bench.cell(host, "right", "one")), trials=2)
        run = bench.new_run(matrix)
        summary = await run_matrix(matrix, host, run, MatrixOptions(retries=RetrySpec(attempts=3, backoff_s=0.01)))
    (skipped,) = summary.skipped
    assert (skipped.orchestrator, skipped.task) == ("wrong", None)
    assert "claude-no-such-one" in skipped.reason
    assert {key.split("/")[0] for key in metas(run)} == {"right"}
    assert len([line for line in events(run, "attempt_started") if line["orchestrator"] == "wrong"]) == 1


@versions(NEWEST)
async def test_every_attempt_is_kept_with_its_cost(tmp_path: Path, claude_cli: InstalledAgent) -> None:
    bench = EngineBench(tmp_path)
    rejected = {"error": {"status": 401}, "times": "forever"}
    async with ScriptedModel(script(bash("echo half > half.txt"), rejected)) as model:
        host = bench.host({"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY})
        agent = {
            "type": "claude-code",
            "model": "claude-opus-4-5",
            "config": {"prompt": "Do it.", "executable": str(claude_cli.executable)},
            "env": {"IS_SANDBOX": "1"},
        }
        matrix = Matrix(cells=(bench.cell(host, "claude", "task", agent=agent, gateway="builtin"),), trials=1)
        run = bench.new_run(matrix)
        options = MatrixOptions(retries=RetrySpec(attempts=2, backoff_s=0.01))
        display = MatrixDisplay()
        summary = await run_matrix(matrix, host, run, options, on_update=display)
    (meta,) = metas(run).values()
    assert (summary.complete, summary.not_valid) == (True, 1)
    assert (meta.outcome, meta.valid, meta.composite_score, meta.exit_reason) == (
        "provider_error",
        False,
        None,
        "not_measured",
    )
    assert [(attempt.number, attempt.outcome) for attempt in meta.attempts] == [
        (1, "provider_error"),
        (2, "provider_error"),
    ]
    costs = [attempt.cost_usd or 0 for attempt in meta.attempts]
    assert min(costs) > 0
    assert meta.all_attempts_cost_usd == pytest.approx(sum(costs))
    assert display.spent_usd == pytest.approx(summary.spent_usd)
    assert len(events(run, "attempt_finished")) == 2
    trial = run.path / "trials/claude/task/trial-1"
    assert [(trial / "attempts" / number / "artifacts/results.json").is_file() for number in "12"] == [True, True]


LOSES_OUTPUT_ONCE = """\
#!/bin/sh
cd '{directory}' || exit 9
[ "$1" = --version ] && {{ echo '2.1.325 (Claude Code)'; exit 0; }}
mkdir begun 2> begun.err && {{ head -c 12288 stream.jsonl; exit 0; }}
cat stream.jsonl
"""
"""A CLI whose first output ends after whole pages, in the middle of a line: what a full disk leaves of it."""


async def test_lost_output_is_not_the_agents(tmp_path: Path) -> None:
    init = {"type": "system", "subtype": "init", "session_id": "s", "model": "claude-x"}
    result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "word " * 8_000}
    (tmp_path / "stream.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (init, result)))
    cli = tmp_path / "claude"
    cli.write_text(LOSES_OUTPUT_ONCE.format(directory=tmp_path))
    cli.chmod(0o755)
    bench = EngineBench(tmp_path)
    host = bench.host({"ANTHROPIC_API_KEY": API_KEY})
    config = {"prompt": "Do it.", "executable": str(cli)}
    agent = {"type": "claude-code", "config": config, "env": {"IS_SANDBOX": "1"}}
    matrix = Matrix(cells=(bench.cell(host, "claude", "task", agent=agent),), trials=1)
    run = bench.new_run(matrix)
    await run_matrix(matrix, host, run, MatrixOptions(retries=RetrySpec(attempts=2, backoff_s=0.01)))
    (meta,) = metas(run).values()
    assert [(attempt.number, attempt.outcome) for attempt in meta.attempts] == [(1, "infra_error"), (2, "solved")]
    assert "in the middle of a line" in (meta.attempts[0].reason or "")
