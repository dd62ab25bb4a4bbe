"""`results.json` and `youbencha-log.json` of a whole run: the real Claude Code CLI, a scripted model, the gateway."""

from __future__ import annotations

import json
import sys
from typing import Any

from golden_files import API_KEY, Golden, GoldenBench, serving, tidy

from agent_clis import NEWEST
from claude_bench import versions
from youbencha import __version__

SHOP = {"prices.py": "TAX = 0.19\n", "test_prices.py": "from prices import TAX\n\nassert TAX == 0.2\n"}
SCRIPT = """
model: claude-golden
usage: {input_tokens: 1000, output_tokens: 25, cache_read_input_tokens: 700, cache_creation_input_tokens: 50}
turns:
  - text: I will look first.
    tools: [{name: Read, id: toolu_01, input: {file_path: "${cwd}/prices.py"}}]
  - thinking: It is 20 percent.
    text: Now the edit.
    tools: [{name: Write, id: toolu_02, input: {file_path: "${cwd}/prices.py", content: "TAX = 0.2\\n"}}]
  - tools: [{name: Bash, id: toolu_03, input: {command: "cat missing.txt", description: Look}}]
  - text: The tax is fixed.
"""
TIMES = ("started_at", "completed_at", "duration_ms", "timestamp", "phases_ms", "provider_wait_ms")
MACHINE = ("os", "python_version", "agent_sha256", "config_hash", "prices", "run_id")
OF_THE_CLI = ("result", "turns", "request_fingerprints")
"""In its own words, and as it counts: these change with its versions."""


@versions(NEWEST)
def test_results(claude_cli: Any, golden: Golden, bench: GoldenBench) -> None:
    bench.make_repository(SHOP)
    script = bench.root / "script.yaml"
    script.write_text(SCRIPT)
    with serving("script", str(script)) as model:
        bench.setenv(ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY=API_KEY)
        directory = bench.run(
            agent={
                "type": "claude-code",
                "model": "claude-golden",
                "config": {"prompt": "Fix the tax.", "executable": str(claude_cli.executable)},
                "env": {"IS_SANDBOX": "1"},
            },
            gateway={
                "budget_per_trial_usd": 1,
                "prices": {"claude-golden": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}},
            },
            evaluators=[
                {"name": "git-diff", "config": {"assertions": {"max_files_changed": 1}, "required_paths": ["*.py"]}},
                {"name": "command:tests", "config": {"command": [sys.executable, "-B", "test_prices.py"]}},
                {"name": "command:lint", "config": {"command": "false"}},
            ],
            post_evaluation=[{"name": "database", "config": {"type": "json-file", "output_path": "history.jsonl"}}],
        )
    names = {
        str(directory): "run directory",
        str(bench.root): "root",
        str(claude_cli.executable): "claude",
        claude_cli.version: "claude version",
        __version__: "youbencha version",
        sys.executable: "python",
    }
    results, log = (
        tidy(json.loads((directory / "artifacts" / name).read_bytes()), names, (*TIMES, *MACHINE, *OF_THE_CLI))
        for name in ("results.json", "youbencha-log.json")
    )
    for costs in ("reported", "difference"):  # by the CLI's price list
        results["agent"]["gateway"][costs]["cost_usd"] = "<cost_usd>"
    golden.check_json("results.json", results)
    golden.check_json("youbencha-log.json", log)
