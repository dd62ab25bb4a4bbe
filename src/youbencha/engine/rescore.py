"""Validate finished trials again, from their task's commit and their `diff.patch`, and rewrite `meta.json`.

No agent and no model is needed. Trees of the original harness can be rescored, too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from youbencha.engine.matrix import Cell
from youbencha.engine.selection import Selection, select
from youbencha.errors import YouBenchaError
from youbencha.evaluators.validation import with_rubric
from youbencha.spec.arena import repo_key
from youbencha.spec.arena_loader import Arena
from youbencha.store.arena import FlagKind, IntegrityFlag, TrialKey, TrialMeta
from youbencha.store.arena_run import ArenaRun, TrialDirectory
from youbencha.store.bundle import EvaluationResult, OutcomeName
from youbencha.store.journal import Journal
from youbencha.store.layout import PATCH_FILE, TRIALS_DIR
from youbencha.store.legacy import without_zeros
from youbencha.trial.context import Host
from youbencha.trial.outcome import determine_outcome
from youbencha.trial.rescore import validate_patch
from youbencha.workspace.run_dir import remove_private
from youbencha.workspace.trees import remove_tree

_TRIAL = re.compile(r"trial-([1-9]\d{0,5})")
LOGS = "rescore"
_FLAGS_FROM_LOG: tuple[FlagKind, ...] = ("hidden_path", "solution_search", "network")
"""Signs in what the agent did, which a validation of its patch does not see."""

_DECIDED_BY_VALIDATION: tuple[OutcomeName | None, ...] = ("solved", "unsolved", "verifier_error", None)
"""Outcomes that the validation decides. Others, such as a limit, stay."""


class RescoredTrial(NamedTuple):
    key: TrialKey
    before: float | None
    after: float | None
    problem: str | None = None
    """Why it could not be validated: its result is as before."""


class _Target(NamedTuple):
    key: TrialKey
    directory: TrialDirectory
    meta: TrialMeta


async def rescore_run(
    run: ArenaRun,
    cells: Sequence[Cell],
    host: Host,
    wanted: Callable[[TrialKey], bool] = lambda _: True,
    *,
    parallel: int = 1,
    on_done: Callable[[RescoredTrial], None] = lambda _: None,
) -> list[RescoredTrial]:
    """Rescore the trials of a run that have a patch, as `cells` say."""
    limit = asyncio.Semaphore(parallel)
    with run.locked():
        await asyncio.to_thread(remove_private, f"{run.name}-", host.cache_dir)
        targets = [target for target in finished_trials(run) if wanted(target.key)]
        with Journal(run.path) as journal:

            async def one(target: _Target) -> RescoredTrial:
                async with limit:
                    done = await _rescore(target, cells, host)
                if done.problem is None:
                    key = target.key._asdict()
                    journal.add("trial_rescored", **key, score_before=done.before, score=done.after)
                on_done(done)
                return done

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(target)) for target in targets]
    return [task.result() for task in tasks]


def finished_trials(run: ArenaRun) -> Iterator[_Target]:
    """Yield the trials of a run that have a result and a patch."""
    for path in sorted((run.path / TRIALS_DIR).glob("*/*/trial-*")):
        number = _TRIAL.fullmatch(path.name)
        if number is None or path.is_symlink() or not (path / PATCH_FILE).is_file():
            continue
        directory = run.trial(TrialKey(path.parent.parent.name, path.parent.name, int(number[1])))
        meta = directory.meta()
        if meta is not None:
            yield _Target(TrialKey(meta.orchestrator, meta.task, meta.trial), directory, meta)


def selection_for_trials(arena: Arena, keys: Sequence[TrialKey], tasks: tuple[str, ...]) -> Selection | None:
    """Select the orchestrators and tasks that these trials need. None: the arena has none of their tasks.

    Tasks without results are not selected, because their repositories need not exist. `tasks` limits the choice, unless
    it is empty.
    """
    wanted = select(arena.orchestrators, arena.spec.tasks, Selection(tasks=tasks)).tasks
    names, agents = {key.task for key in keys}, {key.orchestrator for key in keys}
    chosen = tuple(task.key for task in wanted if {task.key, repo_key(task.repo)} & names)
    orchestrators = tuple(agent.name for agent in arena.orchestrators if agent.name in agents)
    return Selection(orchestrators, chosen) if chosen else None


def find_cell(cells: Sequence[Cell], key: TrialKey) -> Cell | None:
    """Return the cell of a trial, or any of its task. The original harness names a task by the last part of its URL."""
    named = [cell for cell in cells if cell.task == key.task]
    candidates = named or [cell for cell in cells if repo_key(cell.plan.case.repo) == key.task]
    same_agent = (cell for cell in candidates if cell.orchestrator == key.orchestrator)
    return next(same_agent, next(iter(candidates), None))


async def _rescore(target: _Target, cells: Sequence[Cell], host: Host) -> RescoredTrial:
    before = target.meta.composite_score
    cell = find_cell(cells, target.key)
    if cell is None:
        return RescoredTrial(target.key, before, None, "the configuration has no such task")
    try:
        meta = await rescore_trial(target.directory, target.meta, cell, host)
    except YouBenchaError as error:
        return RescoredTrial(target.key, before, None, error.message)
    return RescoredTrial(target.key, before, meta.composite_score)


async def rescore_trial(directory: TrialDirectory, meta: TrialMeta, cell: Cell, host: Host) -> TrialMeta:
    """Validate one trial again and rewrite its `meta.json`. Raises YouBenchaError if it cannot be validated."""
    logs = directory.path / LOGS
    remove_tree(logs)
    name = f"{directory.attempt_id(0)}-{LOGS}"
    result = await validate_patch(cell.plan, host, directory.path / PATCH_FILE, directory=logs, name=name)
    if result.status == "skipped":
        reason = result.error.message if result.error else result.message
        raise YouBenchaError("RESCORE_FAILED", reason, hint=f"The logs are in {logs}.")
    meta = apply_scores(meta, result, cell)
    directory.replace_meta(meta)
    return meta


def apply_scores(meta: TrialMeta, result: EvaluationResult, cell: Cell) -> TrialMeta:
    """Return the result of a trial with new scores. The judges' score and the flags from the agent's log stay."""
    meta = without_zeros(meta)  # while it can still be recognised as a result of the original
    final = with_rubric(result.metrics, meta.scores.rubric)
    seen = [flag for flag in meta.flags if flag.kind in _FLAGS_FROM_LOG]
    decides = meta.outcome in _DECIDED_BY_VALIDATION
    update: dict[str, object] = {
        "scores": final.scores,
        "composite_score": None if meta.valid is False and not decides else final.composite_score,
        "flags": (*seen, *(IntegrityFlag.model_validate(flag) for flag in result.metrics["flags"])),
    }
    if decides:
        outcome = determine_outcome("success", (), [result])
        reason = result.message if outcome.name == "solved" else outcome.reason
        update |= {"outcome": outcome.name, "valid": True, "reason": reason}
    if meta.identity is not None:
        validation = {
            "validation_hash": cell.validation_hash,
            "validation_commit": result.metrics["validation_commit"],
        }
        update["identity"] = meta.identity.model_copy(update=validation)
    return meta.model_copy(update=update)
