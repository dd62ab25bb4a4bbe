"""Take over results of an earlier run that still apply to a new one."""

from __future__ import annotations

import asyncio

from youbencha.engine.journal import not_writable
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.results import ArenaRun, TrialDirectory
from youbencha.engine.resume import is_of
from youbencha.log.arena import META_FILE, TrialMeta
from youbencha.workspace.trees import copy_tree


async def reuse_results(matrix: Matrix, earlier: ArenaRun, run: ArenaRun) -> int:
    """Copy every valid trial of the same agent, task and validation into a new run; return how many."""
    taken = 0
    for key, cell in matrix.order():
        source, target = earlier.trial(key), run.trial(key)
        meta = await asyncio.to_thread(source.meta)
        if meta is not None and meta.valid and is_of(meta, cell):
            await asyncio.to_thread(_take_over, source, target, cell, _from(meta, earlier))
            taken += 1
    return taken


def _from(meta: TrialMeta, run: ArenaRun) -> TrialMeta:
    return meta.model_copy(update={"reused_from": meta.reused_from or run.name})


def _take_over(source: TrialDirectory, target: TrialDirectory, cell: Cell, meta: TrialMeta) -> None:
    try:
        target.path.parent.mkdir(parents=True, exist_ok=True)
        copy_tree(source.path, target.path, skip=[source.path / META_FILE])
    except OSError as error:
        raise not_writable(target.path, error) from error
    target.save(meta, task_text=cell.task_text, attempt=None)
