"""Find runs on the disk by a path, a name, the start of a name, or as the latest. No results are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from youbencha.errors import YouBenchaError
from youbencha.files import read_file
from youbencha.store.arena import arena_run_started_at, read_run_info
from youbencha.store.layout import (
    ATTEMPTS_DIR,
    BENCH_DIR,
    LATEST,
    LOOPS_DIR,
    RALPH_DIR,
    RESULTS_FILE,
    RUN_FILE,
    RUNS_DIR,
    STATE_FILE,
    TRIALS_DIR,
    WORKSPACES,
)
from youbencha.store.loops import loop_began, loop_ids
from youbencha.text import format_path, one_line
from youbencha.workspace.run_dir import ARTIFACTS, run_started_at

RunKind = Literal["run", "arena", "loop"]
"""A single run, a run of many trials, a loop."""
TRIAL_PREFIX = "trial-"
_RESULTS = "results"
"""The arena's default results directory."""
_MAX_NAMES = 5
_MAX_LINK_BYTES = 4096


@dataclass(frozen=True, order=True)
class StoredRun:
    """A run on the disk. Runs are ordered by their start; within a second, by when their results were written."""

    began: float
    written_ns: int
    path: Path
    kind: RunKind = "run"

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def tree(self) -> Path:
        """The directory in which a loop works."""
        return self.path.parents[2]

    @property
    def results(self) -> Path:
        """The results of a single run."""
        return self.path / ARTIFACTS / RESULTS_FILE

    def has_results(self) -> bool:
        try:
            return self.results.is_file()
        except OSError:
            return False


# Runs of all kinds.


def list_runs(roots: Iterable[Path], kinds: Sequence[RunKind] = get_args(RunKind)) -> list[StoredRun]:
    """Return the runs at and below some paths, the newest first.

    Each path is a run itself, a workspace, a results directory, or a project with any of these in their usual places.
    """
    stored: dict[Path, StoredRun] = {}
    for root in dict.fromkeys(path.absolute() for path in roots):
        if "run" in kinds:
            itself = _single_run(root) if (root / ARTIFACTS).is_dir() else None
            runs = [itself] if itself else runs_below(root)
            stored |= {run.path: run for run in runs}
        if "arena" in kinds:
            stored |= {run.path: run for run in _arena_runs_below(root)}
        if "loop" in kinds:
            stored |= {run.path: run for run in _loops_below(root)}
    return sorted(stored.values(), reverse=True)


def find_run(which: str, roots: Sequence[Path], kinds: Sequence[RunKind] = get_args(RunKind)) -> StoredRun:
    """Find a run by its path, its name, the start of its name, or as the `latest`. Raises `RUN_NOT_FOUND`."""
    if which != LATEST and Path(which).is_dir():
        roots, which = [Path(which)], LATEST
    runs = list_runs(roots, kinds)
    if which == LATEST and runs:
        return runs[0]
    matches = [run for run in runs if run.name == which] or [run for run in runs if run.name.startswith(which)]
    return _only([run for run in runs if run in matches], which, " or ".join(map(format_path, roots)))


def _only(matches: Sequence[StoredRun], which: str, place: str) -> StoredRun:
    if len(matches) == 1:
        return matches[0]
    names = f": {', '.join(format_path(run.name) for run in matches[:_MAX_NAMES])}" if matches else ""
    message = f"{'Several runs begin' if matches else 'No run begins'} with {one_line(which)} in {place}{names}."
    hint = "Give a longer part of the name." if matches else "`yb runs` and `thunderdome list` list the runs."
    raise YouBenchaError("RUN_NOT_FOUND", message, hint=hint)


# Single runs: `yb run`, `yb eval`.


def find_results(path: Path) -> Path:
    """Return the results file for a path; of several runs, that of the newest."""
    if path.is_file():
        return path
    if not path.exists():
        raise results_not_found(f"There is no file or directory {path}.")
    candidates = (path / RESULTS_FILE, path / ARTIFACTS / RESULTS_FILE, *_results_of_attempts(path))
    for candidate in candidates:  # before those of runs below it
        if candidate.is_file():
            return candidate
    return newest_results([path])


def newest_results(workspaces: Sequence[Path]) -> Path:
    """Return the results file of the newest run in these directories. An older one is never returned instead."""
    runs = sorted(run for path in workspaces for run in runs_below(path))
    if not runs:
        raise results_not_found(
            f"There is no {RESULTS_FILE} in {' or '.join(map(str, workspaces))}, nor in a run below."
        )
    newest = runs[-1]
    if newest.has_results():
        return newest.results
    message = f"The newest run, {newest.path}, has no {RESULTS_FILE}: it ended too early, or is still starting."
    other = max((run for run in runs if run.has_results()), default=None)
    hint = f"The newest run with results is {other.path}: report it with `--from`." if other else None
    raise results_not_found(message, hint)


def runs_below(directory: Path) -> Iterator[StoredRun]:
    """Yield the single runs in a directory, and in the workspaces in it."""
    for root in (directory, *(directory / name for name in WORKSPACES)):
        if root.is_dir():
            yield from (run for path in root.iterdir() if (run := _single_run(path)))


def results_not_found(message: str, hint: str | None = None) -> YouBenchaError:
    default = "Give `--from` a results.json, the directory of a run, or the workspace that holds the runs."
    return YouBenchaError("RESULTS_NOT_FOUND", message, hint=hint or default)


def _results_of_attempts(trial: Path) -> Iterator[Path]:
    """Yield where the results of a trial of the arena may be, the last attempt first: that one counts."""
    try:
        numbers = [int(name) for name in os.listdir(trial / ATTEMPTS_DIR) if name.isdecimal()]  # noqa: PTH208
    except OSError:
        return
    for number in sorted(numbers, reverse=True):
        yield trial / ATTEMPTS_DIR / str(number) / ARTIFACTS / RESULTS_FILE


def _single_run(path: Path) -> StoredRun | None:
    """Return a directory as a run if it has results, or the name of a run: one without results must not be skipped.

    It may be unreadable because of the agent, or may be removed at the same time.
    """
    named = run_started_at(path.name)
    run = StoredRun(named.timestamp() if named else 0.0, 0, path)
    try:
        if run.has_results():
            written = run.results.stat().st_mtime_ns
            return StoredRun(run.began if named else written / 1e9, written, path)
        return run if named and (path / ARTIFACTS).is_dir() else None
    except OSError:
        return run if named and path.is_dir() else None


# Runs of many trials: `yb run` with several trials, `thunderdome run`.


def is_arena_run(path: Path) -> bool:
    """Whether a directory is that of a run. One that has just begun has no trials, one of the original no file."""
    return (path / RUN_FILE).is_file() or (path / TRIALS_DIR).is_dir()


def arena_runs(results: Path) -> list[Path]:
    """Return the runs in a results directory, the oldest first."""
    return _arena_runs_in(results / RUNS_DIR) or _arena_runs_in(results)


def arena_runs_at(source: Path) -> list[Path]:
    """Return the runs at a path, the oldest first: itself, or those in it or in its `runs`."""
    place = Path(os.path.realpath(source))  # `results/latest` is a link, and the report names the run
    hint = "`thunderdome run` makes results. Name a run (`results/runs/…`), or the directory of all runs' results."
    if not place.is_dir():
        raise results_not_found(f"There is no directory {format_path(source)}.", hint)
    place = place.parent if place.name == TRIALS_DIR else place
    runs = [place] if is_arena_run(place) else arena_runs(place)
    if not runs:
        raise results_not_found(f"{format_path(source)} has no results of the arena.", hint)
    return runs


def locate_arena_run(results: Path, which: str = LATEST) -> Path:
    """Return the directory of a run: it is named by its path, its name, the start of its name, or as the latest."""
    if which == LATEST:
        return _latest_arena_run(results)
    if Path(which).is_dir():
        return Path(which)
    runs = [StoredRun(0.0, 0, path, "arena") for path in arena_runs(results) if path.name.startswith(which)]
    return _only(runs, which, format_path(results)).path


def find_matrix(path: Path | None, workspaces: Sequence[Path]) -> Path | None:
    """Return the run of many trials that a path means: itself, or the newest of its runs.

    Without a path, or for a workspace, it is None if a single run began later.
    """
    places = workspaces if path is None else [path, *(path / name for name in WORKSPACES)]
    if path is not None and (path / RUN_FILE).is_file() and (path / TRIALS_DIR).is_dir():
        return path
    runs = [
        _stored_arena_run(run)
        for place in places
        for results in (place, place / BENCH_DIR)
        for run in _arena_runs_in(results / RUNS_DIR)
        if (run / RUN_FILE).is_file()
    ]
    if not runs:
        return None
    newest = max(runs)
    single = max((run.began for place in places for run in runs_below(place)), default=0.0)
    return newest.path if newest.began >= single else None


def trial_directories(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield the directory of the task, the orchestrator's name and the trial's, sorted. No link is followed."""
    for orchestrator in _directories(root):
        for task in _directories(root / orchestrator):
            place = root / orchestrator / task
            yield from ((place, orchestrator, name) for name in _directories(place) if name.startswith(TRIAL_PREFIX))


def _latest_arena_run(results: Path) -> Path:
    latest = results / LATEST
    if latest.is_file():  # with the path, where links are not possible
        latest = results / read_file(latest, _MAX_LINK_BYTES).decode("utf-8", "replace").strip()
    if is_arena_run(latest):
        return Path(os.path.realpath(latest))
    if runs := arena_runs(results):
        return runs[-1]
    hint = "`thunderdome run` creates one; `--results` names another directory."
    raise YouBenchaError("RUN_NOT_FOUND", f"There is no run in {format_path(results)}.", hint=hint)


def _arena_runs_in(directory: Path) -> list[Path]:
    return [path for name in _directories(directory) if is_arena_run(path := directory / name)]


def _arena_runs_below(root: Path) -> Iterator[StoredRun]:
    """Yield the runs of many trials at a path: itself, those of a results directory, or of one in its usual place."""
    if is_arena_run(root):
        yield _stored_arena_run(root)
        return
    workspaces = [root, *(root / name for name in WORKSPACES)]
    for results in (*workspaces, *(place / BENCH_DIR for place in workspaces), root / _RESULTS):
        yield from map(_stored_arena_run, arena_runs(results))


def _stored_arena_run(run: Path) -> StoredRun:
    """The time in the run's name counts; without one, that in `run.json`. Resuming a run rewrites the file."""
    began = arena_run_started_at(run.name)
    if began is None:
        with suppress(OSError, ValidationError, ValueError):
            began = datetime.fromisoformat(read_run_info(run).created_at)
    if began is not None:
        return StoredRun(began.timestamp(), 0, run, "arena")
    try:
        written = run.stat().st_mtime_ns
    except OSError:
        written = 0
    return StoredRun(written / 1e9, written, run, "arena")


def _directories(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


# Loops: `ralph run`.


def _loops_below(root: Path) -> Iterator[StoredRun]:
    """Yield the loops of a project, of its `.ralph`, or the loop that a path itself is."""
    tree, only = root, None
    if root.name == RALPH_DIR:
        tree = root.parent
    elif root.parent.name == LOOPS_DIR and (root / STATE_FILE).is_file():
        tree, only = root.parents[2], root.name
    for loop_id in loop_ids(tree):
        if only in (None, loop_id):
            path = tree / RALPH_DIR / LOOPS_DIR / loop_id
            yield StoredRun(loop_began(tree, loop_id), 0, path, "loop")
