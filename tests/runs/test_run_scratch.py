"""Files that a trial puts beside its tree are found by the run's name, even after a kill."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from run_bench import PATIENCE_S, RunBench

from systems import posix_only

pytestmark = posix_only("signals are sent")


async def test_prune_finds_everything_after_a_kill(runs: RunBench) -> None:
    begun = runs.root / "begun"
    runs.write_case(waiting_program(runs, begun))
    await killed_at(runs, begun)
    await check_that_prune_finds_all(runs, begun)


async def test_prune_finds_everything_after_a_kill_of_a_judge(runs: RunBench) -> None:
    begun = runs.root / "begun"
    judge = waiting_program(runs, begun)
    config = {"type": judge["type"], "config": judge["config"], "assertions": {"good": "It is good."}}
    runs.write_case(runs.program("true"), evaluators=[{"name": "agentic-judge", "config": config}])
    await killed_at(runs, begun)
    await check_that_prune_finds_all(runs, begun)


def waiting_program(runs: RunBench, begun: Path) -> dict[str, Any]:
    """Tells where its scratch is, and does not end."""
    return runs.program(f'echo "$YOUBENCHA_METRICS_FILE" > "{begun}.part"; mv "{begun}.part" "{begun}"; sleep 1000')


async def killed_at(runs: RunBench, begun: Path) -> None:
    (runs.root / "temporary").mkdir()
    process = await runs.start("run", "-c", str(runs.case_file), env={"TMPDIR": str(runs.root / "temporary")})
    async with asyncio.timeout(PATIENCE_S):
        while not begun.exists():
            await asyncio.sleep(0.02)
    process.kill()
    await process.communicate()


async def check_that_prune_finds_all(runs: RunBench, begun: Path) -> None:
    temporary, cache = runs.root / "temporary", runs.home / "cache" / "youbencha" / "runs"
    (run,) = runs.runs()
    assert begun.read_text().startswith(f"{cache}/{run.name}-")
    assert [path.name for path in temporary.iterdir() if path.name.startswith("youbencha-")] == []
    assert [*cache.iterdir()] != []
    done = await runs.yb("prune", "--keep", "0", "--yes", env={"TMPDIR": str(temporary)})
    assert done.code == 0, done.err
    assert [*cache.iterdir()] == []
    assert runs.runs() == []
