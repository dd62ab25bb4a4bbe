"""What a trial lays beside its tree is found again by the run's name, even after a kill."""

from __future__ import annotations

import asyncio

from run_lab import PATIENCE_S, RunLab

from systems import posix_only

pytestmark = posix_only("signals are sent")


async def test_a_kill_leaves_nothing_that_prune_does_not_find(runs: RunLab) -> None:
    temporary, cache, begun = runs.root / "temporary", runs.home / "cache" / "youbencha" / "runs", runs.root / "begun"
    temporary.mkdir()
    agent = runs.program(f'echo "$YOUBENCHA_METRICS_FILE" > {begun}.part; mv {begun}.part {begun}; sleep 1000')
    runs.write_case(agent)
    process = await runs.start("run", "-c", str(runs.case_file), env={"TMPDIR": str(temporary)})
    async with asyncio.timeout(PATIENCE_S):
        while not begun.exists():
            await asyncio.sleep(0.02)
    process.kill()
    await process.communicate()
    (run,) = runs.runs()
    assert begun.read_text().startswith(f"{cache}/{run.name}-")
    assert [path.name for path in temporary.iterdir() if path.name.startswith("youbencha-")] == []
    assert [*cache.iterdir()] != []
    done = await runs.yb("prune", "--keep", "0", "--yes", env={"TMPDIR": str(temporary)})
    assert done.code == 0, done.err
    assert [*cache.iterdir()] == []
    assert runs.runs() == []
