"""From output to YouBenchaLog, compared with only parsing the same lines with the fastest parser."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from bench.measure import Figure, median_of, ms
from bench.streams import stream_json
from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.process import Redactor

_GOALS_MS = {1_000_000: 10, 10_000_000: 80}
_HOSTILE = ("\x1b", "\x1b]", "\x1bP", "{", "\\ud83d", '{"type":"stream_event"}\n', "x\n", "{\n", "\n", " ", "Model: ")
"""Each of these, repeated, once took more than linear time."""


def measure() -> Iterator[Figure]:
    adapter = ClaudeCodeAdapter()
    context = AgentExecutionContext(
        workspace_dir=Path(), repo_dir=Path(), artifacts_dir=Path(), config={"prompt": "Work."}
    )
    for size, goal in _GOALS_MS.items():
        output = stream_json(size)
        result = _result(output)
        ours = median_of(7, lambda result=result: adapter.normalize_log(result, context))  # type: ignore[misc]
        bare = median_of(7, lambda output=output: [orjson.loads(line) for line in output.split("\n") if line])  # type: ignore[misc]
        yield Figure(
            f"normalize {len(output) / 1e6:.0f} MB of stream-json",
            ms(ours),
            f"orjson alone {ms(bare)}",
            f"≤ {goal} ms",
            ours * 1000 <= goal,
        )
    text = _result("[TOOL: read_file] src/main.py\n" * 55_000)
    ours = median_of(3, lambda: adapter.normalize_log(text, context))
    bare = median_of(3, lambda: re.findall(r"(?m)^\[TOOL: (\w+)\] (.*)", text.output))
    yield Figure(
        "normalize 55,000 lines of text that claim a tool call",
        ms(ours),
        f"one pattern for all of it {ms(bare)}",
        "≤ 300 ms",
        ours <= 0.3,
    )


def measure_masking() -> Iterator[Figure]:
    """The log of a session with ordinary words that begin like keys: `task-1` has the `sk-` of one."""
    secrets = [
        f"{name}-{hashlib.sha256(name.encode()).hexdigest()}" for name in ("api", "token", "password", "dsn", "pat")
    ]
    redactor, text = (
        Redactor(secrets),
        "".join(f'{{"id":"task-{number}","file":"src/main.py"}}\n' for number in range(25_000)),
    )
    data = text.encode()
    ours = median_of(7, lambda: redactor.text(text))
    bare = median_of(7, lambda: secrets[0].encode() in data)
    yield Figure(
        f"mask {len(data) / 1e6:.0f} MB with 5 secrets to look for, and 25,000 words that begin like one",
        ms(ours),
        f"one search for one text {ms(bare)}",
        "≤ 40 ms",
        ours <= 0.040,
    )


def measure_hostile() -> Iterator[Figure]:
    """Four times the output should take about four times as long: no output may take quadratic time."""
    adapter = ClaudeCodeAdapter()
    context = AgentExecutionContext(
        workspace_dir=Path(), repo_dir=Path(), artifacts_dir=Path(), config={"prompt": "Work."}
    )

    def cost(unit: str, size: int) -> float:
        result = _result("x" + unit * (size // len(unit)) + "x")
        return median_of(3, lambda: adapter.normalize_log(result, context))

    growth = {unit: cost(unit, 1_000_000) / cost(unit, 250_000) for unit in _HOSTILE}
    worst = max(growth, key=lambda unit: growth[unit])
    yield Figure(
        f"hostile output, growth of the worst ({worst!r})",
        f"{growth[worst]:.1f} times",
        "4.0 times the length",
        "≤ 8 times",
        growth[worst] <= 8,
    )


def _result(output: str) -> AgentExecutionResult:
    return AgentExecutionResult(
        exit_code=0,
        status="success",
        output=output,
        started_at="2026-01-01T00:00:00.000Z",
        completed_at="2026-01-01T00:00:01.000Z",
        duration_ms=1000,
    )
