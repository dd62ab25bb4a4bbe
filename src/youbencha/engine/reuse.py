"""Take over results of an earlier run that still apply to a new one."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from youbencha.engine.arena import RUBRIC
from youbencha.engine.journal import Journal, not_writable, read_journal
from youbencha.engine.matrix import Cell, Matrix, TrialKey
from youbencha.engine.rescore import LOGS, rescore_trial
from youbencha.engine.results import ArenaRun, TrialDirectory
from youbencha.engine.resume import STAGING, is_of
from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import VALIDATION
from youbencha.log.arena import META_FILE, PATCH_FILE, TrialMeta
from youbencha.trial.context import Host
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
    slots, taken = asyncio.Semaphore(parallel), list[asyncio.Task[bool]]()
    unchanged = 0
    with run.locked():
        async with Journal(run.path, size=read_journal(run.path).size) as journal, asyncio.TaskGroup() as group:
            for key in earlier.trials():
                cell, source = matrix.find(key), earlier.trial(key)
                meta = await asyncio.to_thread(source.meta)
                if cell is None or meta is None or not _applies(meta, cell, source):
                    continue
                unchanged += is_of(meta, cell)
                meta = meta.model_copy(update={"reused_from": meta.reused_from or earlier.name})
                taking = _TakingOver(key, cell, source, run, meta)
                taken.append(group.create_task(taking.run_in(slots, host, journal)))
    return Reused(unchanged, sum(task.result() for task in taken) - unchanged)


def _applies(meta: TrialMeta, cell: Cell, source: TrialDirectory) -> bool:
    if not meta.valid or meta.identity is None or meta.identity.agent_hash != cell.agent_hash:
        return False
    names = {evaluator.name for evaluator in cell.plan.evaluators}
    can_be_rescored = VALIDATION in names and RUBRIC not in names and (source.path / PATCH_FILE).is_file()
    return is_of(meta, cell) or can_be_rescored


class _TakingOver(NamedTuple):
    """One trial. It appears in the new run at once, with its files and its result."""

    key: TrialKey
    cell: Cell
    source: TrialDirectory
    run: ArenaRun
    meta: TrialMeta

    async def run_in(self, slots: asyncio.Semaphore, host: Host, journal: Journal) -> bool:
        """Return False if it could not be validated again; then it is run."""
        target = self.run.trial(self.key)
        name = target.attempt_id(0)
        staging = TrialDirectory(self.run.path / f"{STAGING}{name}", name)
        async with slots:
            await asyncio.to_thread(self._copy, staging)
            if not is_of(self.meta, self.cell):
                try:
                    await rescore_trial(staging, self.meta, self.cell, host)
                except YouBenchaError:
                    await asyncio.to_thread(remove_tree, staging.path)
                    return False
            target.path.parent.mkdir(parents=True, exist_ok=True)
            staging.path.rename(target.path)
        journal.add("trial_reused", **self.key._asdict(), reused_from=self.meta.reused_from)
        return True

    def _copy(self, staging: TrialDirectory) -> None:
        try:
            copy_tree(self.source.path, staging.path, skip=[self.source.path / META_FILE, self.source.path / LOGS])
        except OSError as error:
            raise not_writable(staging.path, error) from error
        staging.save(self.meta, task_text=self.cell.task_text, attempt=None)
