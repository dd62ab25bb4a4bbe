"""Reuse results of earlier runs that still apply to a new one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from youbencha.engine.arena import RUBRIC
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.rescore import LOGS, rescore_trial
from youbencha.engine.resume import STAGING, matches
from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import VALIDATION
from youbencha.store.arena import TrialKey, TrialMeta
from youbencha.store.arena_run import ArenaRun, TrialDirectory, find_arena_run, not_writable
from youbencha.store.journal import Journal
from youbencha.store.layout import META_FILE, PATCH_FILE
from youbencha.store.locate import arena_runs, arena_runs_at
from youbencha.trial.context import Host
from youbencha.workspace.trees import copy_tree, remove_tree


class Reusable(NamedTuple):
    """Results that a new run can reuse."""

    trials: Mapping[TrialKey, ReusableTrial]
    costs: Mapping[tuple[str, str], float]
    """The mean cost in dollars of earlier trials, by orchestrator and task, where it is known."""
    invalid: frozenset[TrialKey] = frozenset()
    """Trials of which there is also a result that is not valid, and is not reused."""

    @property
    def rescored(self) -> int:
        """How many of the trials have to be scored again."""
        return sum(not trial.is_unchanged for trial in self.trials.values())

    def mark_rerun(self, matrix: Matrix) -> Matrix:
        """Return the matrix of a run that reuses these results, in which trials with an invalid result are reruns."""
        numbers: dict[tuple[str, str], set[int]] = {}
        for key in self.invalid:
            numbers.setdefault((key.orchestrator, key.task), set()).add(key.number)
        cells = (
            replace(cell, rerun=frozenset(numbers.get((cell.orchestrator, cell.task), ()))) for cell in matrix.cells
        )
        return replace(matrix, cells=tuple(cells))


class ReusableTrial(NamedTuple):
    cell: Cell
    source: TrialDirectory
    run: str
    meta: TrialMeta

    @property
    def is_unchanged(self) -> bool:
        """Whether the validation is unchanged as well. If not, the work is validated again, without an agent."""
        return matches(self.meta, self.cell)

    @property
    def rank(self) -> tuple[bool, str, str]:
        """Sort key, best last: trials that need no new validation beat others, then the newest wins."""
        return self.is_unchanged, self.meta.completed_at or "", self.run


class Reused(NamedTuple):
    """How many trials were reused."""

    unchanged: int = 0
    rescored: int = 0


def find_pool(results: Path, which: str) -> list[ArenaRun]:
    """Find the runs whose results may be reused: one run, or all in a directory.

    The results directory of the new run may have none yet, so that the same command also works the first time.
    """
    if os.path.realpath(which) == os.path.realpath(results):
        return [ArenaRun(run) for run in arena_runs(results)]
    if Path(which).is_dir():
        return [ArenaRun(run) for run in arena_runs_at(Path(which))]
    return [find_arena_run(results, which)]


def find_reusable(matrix: Matrix, pool: Iterable[ArenaRun]) -> Reusable:
    """Find the newest valid result of each trial whose agent and task are unchanged."""
    best: dict[TrialKey, ReusableTrial] = {}
    costs: dict[tuple[str, str], dict[bool, list[float]]] = {}
    invalid: set[TrialKey] = set()
    for run in pool:
        for key in run.trials():
            source = run.trial(key)
            cell, meta = matrix.find(key._replace(number=1)), source.meta()
            if cell is None or meta is None or meta.identity is None:
                continue
            if meta.all_attempts_cost_usd is not None:
                is_same = meta.identity.agent_hash == cell.agent_hash
                costs.setdefault((key.orchestrator, key.task), {}).setdefault(is_same, []).append(
                    meta.all_attempts_cost_usd
                )
            is_invalid = meta.valid is False and matches(meta, cell)
            if is_invalid or (meta.rerun and meta.identity.agent_hash == cell.agent_hash):
                invalid.add(key)
            trial = ReusableTrial(cell, source, run.name, meta)
            is_wanted = key.number <= matrix.trials and _applies(meta, cell, source)
            if is_wanted and (key not in best or trial.rank > best[key].rank):
                best[key] = trial
    means = {place: fmean(by_sameness.get(True) or by_sameness[False]) for place, by_sameness in costs.items()}
    return Reusable(best, means, frozenset(invalid))


async def reuse_results(reusable: Reusable, host: Host, run: ArenaRun, *, parallel: int = 1) -> Reused:
    """Copy the trials into a new run.

    If only the validation changed, they are validated again, without an agent. Trials that a judge has scored are then
    run anew: a judge cannot see again what it saw.
    """
    slots, tasks = asyncio.Semaphore(parallel), list[asyncio.Task[bool]]()
    with run.locked(), Journal(run.path) as journal:
        async with asyncio.TaskGroup() as group:
            for key, trial in reusable.trials.items():
                reused_from = trial.meta.reused_from or trial.run
                meta = trial.meta.model_copy(update={"reused_from": reused_from, "rerun": key in reusable.invalid})
                copying = _Copying(key, trial.cell, trial.source, run, meta)
                tasks.append(group.create_task(copying.run_in(slots, host, journal)))
    unchanged = len(reusable.trials) - reusable.rescored
    return Reused(unchanged, sum(task.result() for task in tasks) - unchanged)


def _applies(meta: TrialMeta, cell: Cell, source: TrialDirectory) -> bool:
    if not meta.valid or meta.identity is None or meta.identity.agent_hash != cell.agent_hash:
        return False
    names = {evaluator.name for evaluator in cell.plan.evaluators}
    can_be_rescored = VALIDATION in names and RUBRIC not in names and (source.path / PATCH_FILE).is_file()
    return matches(meta, cell) or can_be_rescored


class _Copying(NamedTuple):
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
            if not matches(self.meta, self.cell):
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
