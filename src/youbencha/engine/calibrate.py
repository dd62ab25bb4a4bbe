"""Score doing nothing, the reference solution and cheating, to show what the scores of a task mean."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from youbencha import __version__
from youbencha.engine.cheats import CHEATS, CheatName, cheat
from youbencha.engine.matrix import Cell
from youbencha.errors import YouBenchaError
from youbencha.files import read_nofollow, write_atomically
from youbencha.locks import lock_file
from youbencha.store.bundle import EvaluationResult
from youbencha.store.layout import CALIBRATION_FILE
from youbencha.trial.context import Host
from youbencha.trial.plan import Plan
from youbencha.trial.rescore import find_validation, validate_patch
from youbencha.workspace import Repository
from youbencha.workspace.run_dir import remove_private
from youbencha.workspace.trees import remove_tree

NOTHING, REFERENCE = "nothing", "reference"
THRESHOLD = 0.1
"""A higher score for doing nothing is worth a warning."""

_GAIN = 1e-6
_MAX_BYTES = 64 * 1024 * 1024


class CalibrationScore(NamedTuple):
    tests: float | None
    """The share of tests that passed. None: not measured."""
    composite: float | None
    problem: str | None = None
    """Why it could not be measured."""
    applicable: bool = True
    """Whether it could be tried: a task may have nothing that this cheat can change."""


def _describe(score: CalibrationScore) -> str:
    passed = "" if score.tests is None else f" ({score.tests:.0%} of the tests pass)"
    return f"{score.composite or 0:.2f}{passed}"


@dataclass(kw_only=True)
class TaskCalibration:
    task: str
    scores: dict[str, CalibrationScore] = field(default_factory=dict)
    """The scores of doing nothing, of the reference solution if there is one, and of each way to cheat."""

    @property
    def floor(self) -> float | None:
        return self.scores[NOTHING].composite

    @property
    def ceiling(self) -> float | None:
        return self.scores[REFERENCE].composite if REFERENCE in self.scores else None

    def warnings(self, threshold: float = THRESHOLD) -> list[str]:
        """Describe what is wrong with the task."""
        problems = [f"{name}: {score.problem}" for name, score in self.scores.items() if score.problem]
        floor, ceiling = self.floor or 0.0, self.ceiling
        if floor > threshold:
            problems.append(f"doing nothing scores {_describe(self.scores[NOTHING])}")
        if ceiling is not None and ceiling < 1 - _GAIN:
            problems.append(f"the reference solution scores only {_describe(self.scores[REFERENCE])}")
        for name, score in self.scores.items():
            if name in CHEATS and (score.composite or 0) > floor + _GAIN:
                problems.append(f"{name} scores {_describe(score)}, more than doing nothing")
        return problems

    def as_data(self, threshold: float = THRESHOLD) -> dict[str, Any]:
        return {
            "floor": self.floor,
            "ceiling": self.ceiling,
            "scores": {name: score._asdict() for name, score in self.scores.items()},
            "warnings": self.warnings(threshold),
        }


def save_calibration(results: Path, tasks: Sequence[TaskCalibration], threshold: float = THRESHOLD) -> dict[str, Any]:
    """Write `calibration.json`, and return its content. Tasks that were not calibrated now stay as they are in it."""
    try:
        known = json.loads(read_nofollow(results, CALIBRATION_FILE, _MAX_BYTES))["tasks"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        known = {}
    new = {task.task: task.as_data(threshold) for task in tasks}
    data = {"youbencha_version": __version__, "threshold": threshold, "tasks": {**known, **new}}
    write_atomically(results / CALIBRATION_FILE, json.dumps(data, indent=2).encode())
    return data


async def calibrate(
    cells: Sequence[Cell],
    host: Host,
    logs: Path,
    *,
    parallel: int = 1,
    on_score: Callable[[str, str, CalibrationScore], None] = lambda _task, _name, _score: None,
) -> list[TaskCalibration]:
    """Calibrate each task of these cells, with the plan of its first one. `logs` is replaced.

    Raises `CALIBRATION_IN_USE` if another process does the same.
    """
    with lock_file(logs.with_name(f".{logs.name}.lock")) as lock:
        if not lock.take():
            message = f"Another process{lock.holder()} calibrates in {logs.parent}."
            raise YouBenchaError(
                "CALIBRATION_IN_USE", message, hint="Wait for it to finish, or stop it, then try again."
            )
        return await _calibrate(cells, host, logs, parallel, on_score)


async def _calibrate(
    cells: Sequence[Cell],
    host: Host,
    logs: Path,
    parallel: int,
    on_score: Callable[[str, str, CalibrationScore], None],
) -> list[TaskCalibration]:
    run = f"calibration-{hashlib.sha256(os.fsencode(logs.resolve())).hexdigest()[:12]}"
    await asyncio.to_thread(remove_private, f"{run}-", host.cache_dir)
    remove_tree(logs)
    plans: dict[str, Plan] = {}
    for cell in cells:
        plans.setdefault(cell.task, cell.plan)
    limit = asyncio.Semaphore(parallel)
    tasks = {name: TaskCalibration(task=name) for name in plans}

    async def calibrate_one(task: str, name: str, patch: Path | None) -> None:
        score = CalibrationScore(None, None, applicable=False)
        if patch is not None:
            async with limit:
                directory = logs / task / name.replace(" ", "-")
                unique = f"{run}-{os.urandom(6).hex()}"
                score = _score(await validate_patch(plans[task], host, patch, directory=directory, name=unique))
        tasks[task].scores[name] = score
        on_score(task, name, score)

    with TemporaryDirectory(prefix="youbencha-calibrate-") as temporary:
        patches = {task: await _patches(plan, host, Path(temporary, task)) for task, plan in plans.items()}
        async with asyncio.TaskGroup() as group:
            for task, by_name in patches.items():
                for name, patch in by_name.items():
                    group.create_task(calibrate_one(task, name, patch))
    order = [NOTHING, REFERENCE, *CHEATS]
    for calibration in tasks.values():
        calibration.scores = {name: calibration.scores[name] for name in order if name in calibration.scores}
    return list(tasks.values())


def _score(result: EvaluationResult) -> CalibrationScore:
    if result.status == "skipped":
        return CalibrationScore(None, None, result.error.message if result.error else result.message)
    return CalibrationScore(result.metrics["tests_score"], result.metrics["composite_score"])


async def _patches(plan: Plan, host: Host, place: Path) -> dict[str, Path | None]:
    """Return a patch for everything that is scored; None for a cheat that cannot be tried."""
    repository = await host.open_plan_repository(plan, lambda *_: None)
    place.mkdir()
    (place / "nothing.patch").touch()
    patches: dict[str, Path | None] = {NOTHING: place / "nothing.patch"}
    reference = find_validation(plan).config.get("reference_tag")
    if isinstance(reference, str):
        patches[REFERENCE] = place / "reference.patch"
        await repository.difference(await repository.find(reference), place / "reference.patch")
    for number, name in enumerate(CHEATS):
        patches[name] = await _make_cheat(repository, name, place / str(number))
    return patches


async def _make_cheat(repository: Repository, name: CheatName, place: Path) -> Path | None:
    tree = place / "tree"
    tree.mkdir(parents=True)
    await repository.check_out(tree)
    start = await repository.snapshot(tree, place / "start.git")
    await asyncio.to_thread(cheat, tree, name)
    changes = await start.changes(place / "cheat.patch")
    return changes.patch_file if changes.files else None
