"""Find out what is finished in the directory of a run, and what earlier attempts cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from youbencha.engine.attempts import Job, earlier_attempts
from youbencha.engine.journal import JOURNAL_FILE, JournalContents
from youbencha.engine.matrix import Cell, Matrix, TrialKey
from youbencha.engine.meta import meta_of
from youbencha.engine.results import Run
from youbencha.engine.updates import TrialRow, row_of
from youbencha.errors import YouBenchaError
from youbencha.log.arena import CellInfo, RunInfo, TrialMeta
from youbencha.text import plural


class State(NamedTuple):
    order: tuple[TrialKey, ...]
    finished: Mapping[TrialKey, TrialRow]
    jobs: tuple[Job, ...]
    """Trials that are not finished, in order."""
    spent: Mapping[str, float]
    """Dollars, by orchestrator."""
    resumed: bool
    warnings: tuple[str, ...]


def load_state(matrix: Matrix, run: Run, journal: JournalContents) -> State:
    """Determine what is left to do. An attempt that was finished, but not noted as a trial, becomes one."""
    noted: dict[TrialKey, list[Mapping[str, Any]]] = {}
    for line in journal.records:
        if line.get("event") == "attempt_finished" and (key := _key_in(line)):
            noted.setdefault(key, []).append(line)
    order, finished, jobs, spent = [], {}, [], dict[str, float]()
    for position, (key, cell) in enumerate(matrix.order()):
        order.append(key)
        job = Job(key=key, cell=cell, position=position, directory=run.trial(key))
        meta = _finished(job, noted.get(key, ()))
        if meta is not None:
            finished[key] = row_of(key, meta)
            cost = 0.0 if meta.reused_from else sum(attempt.cost_usd or 0 for attempt in meta.attempts)
        else:
            jobs.append(job)
            cost = sum(attempt.cost_usd or 0 for attempt in job.attempts)
        spent[key.orchestrator] = spent.get(key.orchestrator, 0) + cost
    return State(tuple(order), finished, tuple(jobs), spent, bool(journal.records), tuple(_warnings(journal)))


def _finished(job: Job, noted: Any) -> TrialMeta | None:
    """The result of a trial, if it is finished; else its earlier attempts are added to the job."""
    meta, cell = job.directory.meta(), job.cell
    if meta is not None and is_of(meta, cell):
        return meta
    bundle = earlier_attempts(job, noted)
    if bundle is None or bundle.outcome is None or bundle.outcome.retry:
        return None
    meta = meta_of(job.key, cell, bundle, job.attempts)
    job.directory.save(meta, task_text=cell.task_text, attempt=job.attempts[-1].number)
    return meta


def is_of(meta: TrialMeta, cell: Cell) -> bool:
    """Whether this is a result of the same agent, task and validation."""
    found = meta.identity
    return found is not None and (found.agent_hash, found.validation_hash) == (cell.agent_hash, cell.validation_hash)


def check_unchanged(info: RunInfo, matrix: Matrix) -> None:
    """Raise `RUN_CHANGED` if the configuration would give other results than when the run began."""
    before = {(cell.orchestrator, cell.task): cell for cell in info.cells}
    now = {(cell.orchestrator, cell.task): cell for cell in cell_infos(matrix)}
    changes = [f"{' on '.join(place)} is new" for place in now.keys() - before.keys()]
    changes += [f"{' on '.join(place)} is no longer there" for place in before.keys() - now.keys()]
    for place in before.keys() & now.keys():
        old, new = before[place], now[place]
        if old.agent_hash != new.agent_hash:
            changes.append(f"{' on '.join(place)}: the agent, the task, its limits or its sandbox")
        elif old.validation_hash != new.validation_hash:
            changes.append(f"{' on '.join(place)}: its validation")
    if info.trials != matrix.trials:
        changes.append(f"{plural(info.trials, 'trial')} were planned, now {matrix.trials}")
    if changes:
        shown = "".join(f"\n  - {change}" for change in sorted(changes)[:10])
        more = f"\n  - and {len(changes) - 10} more" if len(changes) > 10 else ""
        raise YouBenchaError(
            "RUN_CHANGED",
            f"The run cannot be resumed, because it has changed since it began:{shown}{more}",
            hint="Undo the changes; or start a new run with `--reuse`, which takes over all results that still apply.",
        )


def cell_infos(matrix: Matrix) -> tuple[CellInfo, ...]:
    return tuple(
        CellInfo(
            orchestrator=cell.orchestrator,
            task=cell.task,
            category=cell.category,
            agent_hash=cell.agent_hash,
            validation_hash=cell.validation_hash,
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
