"""Take over results of an earlier run that still apply to a new one."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from youbencha.engine.arena import RUBRIC, VALIDATION
from youbencha.engine.journal import Journal, not_writable, read_journal
from youbencha.engine.matrix import Cell, Matrix, TrialKey
from youbencha.engine.rescore import LOGS, rescored
from youbencha.engine.results import PATCH_FILE, ArenaRun, TrialDirectory
from youbencha.engine.resume import is_of
from youbencha.log.arena import META_FILE, TrialMeta
from youbencha.trial.context import Host
from youbencha.trial.rescore import validate_patch
from youbencha.workspace.trees import copy_tree, remove_tree


class Reused(NamedTuple):
    """How many trials were taken over."""

    unchanged: int = 0
    rescored: int = 0


async def reuse_results(matrix: Matrix, host: Host, earlier: ArenaRun, run: ArenaRun, *, parallel: int = 1) -> Reused:
    """Copy every valid trial of the same agent and task into a new run.

    If only the validation changed, they are validated again, without an agent. Trials that a judge has scored are then
    run anew: a judge cannot see again what it saw.
    """
    slots, unchanged, again = asyncio.Semaphore(parallel), 0, list[asyncio.Task[bool]]()
    with run.locked():
        async with (
            Journal(run.path, size=read_journal(run.path).size) as journal,
            asyncio.TaskGroup() as group,
        ):
            for key, cell in matrix.order():
                source, target = earlier.trial(key), run.trial(key)
                meta = await asyncio.to_thread(source.meta)
                if meta is None or not meta.valid or meta.identity is None:
                    continue
                same_agent = meta.identity.agent_hash == cell.agent_hash
                meta = meta.model_copy(update={"reused_from": meta.reused_from or earlier.name})
                if is_of(meta, cell):
                    await asyncio.to_thread(_take_over, source, target, cell, meta)
                    journal.add("trial_reused", **key._asdict(), reused_from=earlier.name)
                    unchanged += 1
                elif same_agent and _can_be_rescored(source, cell):
                    work = _Rescoring(key, cell, source, target, meta)
                    again.append(group.create_task(work.run(host, slots, journal, earlier.name)))
    return Reused(unchanged, sum(task.result() for task in again))


def _can_be_rescored(source: TrialDirectory, cell: Cell) -> bool:
    names = {evaluator.name for evaluator in cell.plan.evaluators}
    return VALIDATION in names and RUBRIC not in names and (source.path / PATCH_FILE).is_file()


class _Rescoring(NamedTuple):
    key: TrialKey
    cell: Cell
    source: TrialDirectory
    target: TrialDirectory
    meta: TrialMeta

    async def run(self, host: Host, slots: asyncio.Semaphore, journal: Journal, reused_from: str) -> bool:
        """Validate the patch, and take the trial over; not if the validation does not work."""
        async with slots:
            logs = self.target.path.with_name(f".{self.target.path.name}-{LOGS}")
            logs.parent.mkdir(parents=True, exist_ok=True)
            patch = self.source.path / PATCH_FILE
            result = await validate_patch(self.cell.plan, host, patch, directory=logs)
            if result.status == "skipped":
                await asyncio.to_thread(remove_tree, logs)
                return False
            meta = rescored(self.meta, result, self.cell)
            await asyncio.to_thread(_take_over, self.source, self.target, self.cell, meta)
            await asyncio.to_thread(logs.rename, self.target.path / LOGS)
        journal.add("trial_reused", **self.key._asdict(), reused_from=reused_from, composite_score=meta.composite_score)
        return True


def _take_over(source: TrialDirectory, target: TrialDirectory, cell: Cell, meta: TrialMeta) -> None:
    try:
        target.path.parent.mkdir(parents=True, exist_ok=True)
        copy_tree(source.path, target.path, skip=[source.path / META_FILE, source.path / LOGS])
    except OSError as error:
        raise not_writable(target.path, error) from error
    target.save(meta, task_text=cell.task_text, attempt=None)
