"""What the adapter adds to the agent: time, memory, and leaks over many runs.

The agent is a fake that answers at once: the real one's start-up time would hide what is measured here.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.measure import Figure, mb, ms
from bench.streams import stream_json
from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter

_FAKE_AGENT = """#!/bin/sh
[ "$1" = --version ] && echo "2.1.325 (Claude Code)" && exit
exec cat "{stream}"
"""


@dataclass(frozen=True)
class Bench:
    context: AgentExecutionContext
    argv: list[str]


@contextmanager
def fake_agent(output_bytes: int) -> Iterator[Bench]:
    """Not on Windows: the fake agent is a shell script."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        stream = directory / "stream.ndjson"
        stream.write_text(stream_json(output_bytes))
        claude = directory / "claude"
        claude.write_text(_FAKE_AGENT.format(stream=stream))
        claude.chmod(0o755)
        workspace = directory / "workspace"
        workspace.mkdir()
        context = AgentExecutionContext(
            workspace_dir=workspace,
            repo_dir=workspace,
            artifacts_dir=directory / "artifacts",
            config={"prompt": "Work.", "executable": str(claude)},
            env={"IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-ant-nothing-secret"},
        )
        yield Bench(context, [str(claude), "-p", "Work."])


def measure_overhead() -> Iterator[Figure]:
    with fake_agent(2_000) as bench:
        overheads, bare = asyncio.run(_overheads(bench, 100))
    p50 = statistics.median(overheads)
    p95 = statistics.quantiles(overheads, n=20)[-1]
    yield Figure(
        "adapter overhead, p50 of 100 (execute minus the process's own time)",
        f"{ms(p50)} (p95 {ms(p95)})",
        f"whole subprocess.run {ms(statistics.median(bare))}",
        "≤ 5 ms",
        p50 <= 0.005,
    )


async def _overheads(bench: Bench, times: int) -> tuple[list[float], list[float]]:
    adapter = ClaudeCodeAdapter()
    await adapter.execute(bench.context)  # the first run of a harness starts its fork server and asks for the version
    overheads, bare = [], []
    for _ in range(times):
        start = time.perf_counter()
        result = await adapter.execute(bench.context)
        overheads.append(time.perf_counter() - start - result.details["process_s"])
        start = time.perf_counter()
        _run_bare(bench)
        bare.append(time.perf_counter() - start)
    return overheads, bare


def _run_bare(bench: Bench) -> None:
    subprocess.run(bench.argv, capture_output=True, check=True, cwd=bench.context.workspace_dir)


def measure_memory() -> Iterator[Figure]:
    """In a separate process, because a peak cannot be reset."""
    answer = subprocess.run([sys.executable, "-m", "bench.adapter"], stdout=subprocess.PIPE, text=True, check=True)
    before, after, output = map(int, answer.stdout.split())
    above = after - before - output
    yield Figure(
        f"memory above an output of {mb(output)} (execute + normalize_log)",
        mb(above),
        f"process before {mb(before)}",
        "≤ 20 MB",
        above <= 20e6,
    )


def _memory() -> None:
    adapter = ClaudeCodeAdapter()
    with fake_agent(2_000) as small:
        _execute(adapter, small)
    before = _peak_rss()
    with fake_agent(9_900_000) as large:
        gc.collect()
        before = max(before, _peak_rss())
        result = _execute(adapter, large)
        log = adapter.normalize_log(result, large.context)
        assert log.usage is not None
    print(before, _peak_rss(), len(result.output.encode()))


def _peak_rss() -> int:
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _execute(adapter: ClaudeCodeAdapter, bench: Bench) -> AgentExecutionResult:
    return asyncio.run(adapter.execute(bench.context))


def measure_endurance() -> Iterator[Figure]:
    with fake_agent(20_000) as bench:
        before, after = asyncio.run(_endurance(bench, 100))
    yield Figure(
        "100 executions: open files, children, resident memory",
        f"{after.fds} fds, {after.children} children, {mb(after.rss)}",
        f"{before.fds} fds, {before.children} children, {mb(before.rss)} before",
        "no growth (memory ≤ 1 MB)",
        after.fds <= before.fds and after.children <= before.children and after.rss - before.rss <= 1e6,
    )


@dataclass(frozen=True)
class Footprint:
    fds: int
    children: int
    rss: int

    @classmethod
    def now(cls) -> Footprint:
        gc.collect()
        process = psutil.Process()
        children = process.children(recursive=True)
        return cls(process.num_fds(), len(children), process.memory_info().rss)


async def _endurance(bench: Bench, times: int) -> tuple[Footprint, Footprint]:
    adapter = ClaudeCodeAdapter()

    async def work() -> None:
        adapter.normalize_log(await adapter.execute(bench.context), bench.context)

    for _ in range(10):  # caches fill and the allocator settles
        await work()
    before = Footprint.now()
    for _ in range(times):
        await work()
    return before, Footprint.now()


if __name__ == "__main__":
    _memory()
