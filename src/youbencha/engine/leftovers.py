"""Remove what a killed harness left: containers, private directories, and the workspaces of its attempts.

Its processes need no removal: each ends with its guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from youbencha.engine.matrix import Matrix
from youbencha.engine.results import Run
from youbencha.errors import YouBenchaError
from youbencha.trial.context import Host
from youbencha.workspace.reclaim import make_accessible
from youbencha.workspace.run_dir import private_of, remove_sources
from youbencha.workspace.trees import remove_tree


@asynccontextmanager
async def remove_leftovers(matrix: Matrix, host: Host, run: Run, *, keep_workspaces: bool) -> AsyncIterator[None]:
    """Remove what is left of this run, whose lock is held; containers once more at the end.

    The engine may have been about to create one when the harness was killed.
    """
    await _remove_containers(matrix)
    await asyncio.to_thread(_remove_private, run, host.cache_dir)
    if not keep_workspaces:
        await asyncio.to_thread(_remove_workspaces, run)
    try:
        yield
    finally:
        await _remove_containers(matrix)


async def _remove_containers(matrix: Matrix) -> None:
    if any(cell.plan.sandbox.type == "docker" for cell in matrix.cells):
        from youbencha.sandbox.docker.ownership import reap_containers

        await reap_containers()


def _remove_private(run: Run, cache_dir: Path) -> None:
    for directory in private_of(f"{run.name}-", cache_dir):
        with suppress(YouBenchaError):  # what cannot be removed from the cache does not affect the run
            remove_tree(directory)


def _remove_workspaces(run: Run) -> None:
    for attempt in run.path.glob("trials/*/*/*/attempts/*"):
        if not attempt.is_symlink() and attempt.is_dir():
            with suppress(YouBenchaError, OSError):
                make_accessible(attempt)
                remove_sources(attempt)
