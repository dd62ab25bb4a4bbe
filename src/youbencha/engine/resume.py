"""Continue a run: find out what is finished and what earlier attempts cost, and remove what a killed harness left.

Its processes need no removal: each ends with its guard.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from youbencha import __version__
from youbencha.engine.attempt import TrialJob, find_earlier_attempts
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.meta import make_meta
from youbencha.errors import YouBenchaError
from youbencha.gateway.budget import Spend
from youbencha.sandbox.docker.ownership import reap_containers
from youbencha.store.arena import AttemptInfo, CellInfo, RunInfo, TrialKey, TrialMeta
from youbencha.store.arena_run import ArenaRun
from youbencha.store.journal import JournalContents
from youbencha.store.layout import JOURNAL_FILE
from youbencha.text import iso_time, plural
from youbencha.trial.context import Host
from youbencha.workspace.run_dir import find_private, remove_sources
from youbencha.workspace.trees import make_accessible, remove_tree

STAGING = ".reuse-"
"""The start of the names of trials that are still being copied for reuse."""


class ResumeState(NamedTuple):
    finished: dict[TrialKey, TrialMeta]
    earlier: dict[TrialKey, list[AttemptInfo]]
    """Attempts of trials that are not finished."""
    spent: Mapping[str, Spend]
    """What each orchestrator has spent, as far as it is known."""
    resumed: bool
    warnings: tuple[str, ...]


def load_state(matrix: Matrix, run: ArenaRun, journal: JournalContents) -> ResumeState:
    """Determine what is left to do. A finished attempt that was not recorded as a trial becomes one."""
    journaled: dict[TrialKey, list[Mapping[str, Any]]] = {}
    for line in journal.records:
        if line.get("event") == "attempt_finished" and (key := _key_in(line)):
            journaled.setdefault(key, []).append(line)
    finished, earlier, attempts = {}, {}, dict[str, list[AttemptInfo]]()
    for key in dict.fromkeys((*run.trials(), *journaled)):
        if (cell := matrix.find(key)) is None:
            continue
        job = TrialJob(key=key, cell=cell, directory=run.trial(key))
        meta = _load_finished(job, journaled.get(key, ()))
        if meta is None:
            earlier[key] = job.attempts
        else:
            finished[key] = meta
        if meta is None or meta.reused_from is None:
            attempts.setdefault(key.orchestrator, []).extend(meta.attempts if meta else job.attempts)
    spent = {orchestrator: add_up(some) for orchestrator, some in attempts.items()}
    return ResumeState(finished, earlier, spent, journal.has_begun, tuple(_warnings(journal)))


def add_up(attempts: Sequence[AttemptInfo]) -> Spend:
    """Add up what attempts cost, as far as it is known."""
    costs = [Decimal(str(attempt.cost_usd)) for attempt in attempts if attempt.cost_usd is not None]
    return Spend(sum(costs, Decimal(0)) if costs else None, sum(attempt.total_tokens or 0 for attempt in attempts))


def _load_finished(job: TrialJob, journaled: Any) -> TrialMeta | None:
    """Return the result of a trial if it is finished. Otherwise, add its earlier attempts to the job."""
    meta, cell = job.directory.meta(), job.cell
    if meta is not None and matches(meta, cell):
        return meta
    bundle = find_earlier_attempts(job, journaled)
    if bundle is None or bundle.outcome is None or bundle.outcome.retry:  # it has attempts left, or gets one more
        return None
    meta = make_meta(job.key, cell, bundle, job.attempts)
    job.directory.save(meta, task_text=cell.task_text, attempt=job.attempts[-1].number)
    return meta


def matches(meta: TrialMeta, cell: Cell) -> bool:
    """Whether this is a result of the same agent, task and validation."""
    ran = meta.identity
    return ran is not None and (ran.agent_hash, ran.validation_hash) == (cell.agent_hash, cell.validation_hash)


def check_unchanged(info: RunInfo, matrix: Matrix, *, otherwise: str = "start a new run") -> None:
    """Raise `RUN_CHANGED` if the configuration would give other results than when the run began.

    `otherwise` is what to do, if not to undo the changes.
    """
    before = {(cell.orchestrator, cell.task): cell for cell in info.cells}
    now = {(cell.orchestrator, cell.task): cell for cell in cell_infos(matrix)}
    changes = [f"{' on '.join(place)} is new" for place in now.keys() - before.keys()]
    changes += [f"{' on '.join(place)} is no longer there" for place in before.keys() - now.keys()]
    for place in before.keys() & now.keys():
        old, new = before[place], now[place]
        if old.agent_hash != new.agent_hash:
            changes.append(f"{' on '.join(place)}: the agent, its files, the task, its limits or its sandbox")
        elif old.validation_hash != new.validation_hash:
            changes.append(f"{' on '.join(place)}: its validation")
    if info.trials != matrix.trials:
        changes.append(f"{plural(info.trials, 'trial')} were planned, now {matrix.trials}")
    if changes:
        shown = "".join(f"\n  - {change}" for change in sorted(changes)[:10])
        more = f"\n  - and {len(changes) - 10} more" if len(changes) > 10 else ""
        raise YouBenchaError(
            "RUN_CHANGED",
            f"The run cannot be resumed, because its configuration has changed since it began:{shown}{more}",
            hint=f"Undo the changes, or {otherwise}.",
        )


def run_info(
    matrix: Matrix, *, selection: dict[str, Any], options: dict[str, Any], config_file: Path | None = None
) -> RunInfo:
    """Describe a new run of a matrix."""
    return RunInfo(
        youbencha_version=__version__,
        created_at=iso_time(time.time()),
        config_file=str(config_file) if config_file else None,
        config_hash=hashlib.sha256(config_file.read_bytes()).hexdigest() if config_file else None,
        selection=selection,
        trials=matrix.trials,
        cells=cell_infos(matrix),
        baselines=dict(matrix.baselines),
        until_decided=matrix.until_decided,
        options=options,
    )


def cell_infos(matrix: Matrix) -> tuple[CellInfo, ...]:
    return tuple(
        CellInfo(
            orchestrator=cell.orchestrator,
            task=cell.task,
            category=cell.category,
            agent_hash=cell.agent_hash,
            validation_hash=cell.validation_hash,
            rerun=tuple(sorted(cell.rerun)),
        )
        for cell in matrix.cells
    )


def _key_in(line: Mapping[str, Any]) -> TrialKey | None:
    match line:
        case {"orchestrator": str(orchestrator), "task": str(task), "number": int(number)}:
            return TrialKey(orchestrator, task, number)
    return None


def _warnings(journal: JournalContents) -> list[str]:
    if not journal.damaged:
        return []
    lines = ", ".join(map(str, journal.damaged[:5]))
    return [f"{JOURNAL_FILE} is damaged in line {lines}; no result is lost, but costs of attempts may be unknown"]


@asynccontextmanager
async def remove_leftovers(matrix: Matrix, host: Host, run: ArenaRun, *, keep_workspaces: bool) -> AsyncIterator[None]:
    """Remove what is left of this run, whose lock is held; containers once more at the end.

    The engine may have been about to create one when the harness was killed.
    """
    await _remove_containers(matrix)
    await asyncio.to_thread(_remove_directories, run, host.cache_dir)
    if not keep_workspaces:
        await asyncio.to_thread(_remove_workspaces, run)
    try:
        yield
    finally:
        await _remove_containers(matrix)


async def _remove_containers(matrix: Matrix) -> None:
    if any(cell.plan.sandbox.type == "docker" for cell in matrix.cells):
        await reap_containers()


def _remove_directories(run: ArenaRun, cache_dir: Path) -> None:
    for directory in (*find_private(f"{run.name}-", cache_dir), *run.path.glob(f"{STAGING}*")):
        with suppress(YouBenchaError):  # what cannot be removed does not affect the run
            remove_tree(directory)


def _remove_workspaces(run: ArenaRun) -> None:
    for attempt in run.path.glob("trials/*/*/*/attempts/*"):
        if not attempt.is_symlink() and attempt.is_dir():
            with suppress(YouBenchaError, OSError):
                make_accessible(attempt)
                remove_sources(attempt)
