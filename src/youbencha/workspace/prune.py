"""Runs of the past, and their removal. A run that goes on is never touched.

An agent may have left anything in them: rights taken away, a lock that is a link, or one that names other places.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import RESULTS_FILE, read_untrusted
from youbencha.workspace.lock import is_locked, lock_file
from youbencha.workspace.reclaim import make_accessible
from youbencha.workspace.run_dir import ARTIFACTS, LOCK, PRIVATE_PARENT, find_private, private_in, run_started_at
from youbencha.workspace.trees import not_removable, remove_tree
from youbencha.workspace.walk import size_on_disk

_LONGEST_NOTE = 65536


class StoredRun(NamedTuple):
    path: Path
    created_at: datetime
    size_bytes: int
    """On the disk: holes take no room."""
    in_use: bool
    """A live process holds its lock."""
    complete: bool
    """It has results. A run that is neither in use nor complete died."""


def old_runs(root: Path, older_than: timedelta | None = None, keep: int | None = None) -> list[StoredRun]:
    """Return the runs older than that and not among the newest `keep`, the oldest first. Without either: all.

    Only what is recognisably ours counts, by its name and by what is in it.
    """
    runs = sorted((found for found in _runs_in(root)), key=lambda run: (run[1], run[0].name))
    if keep is not None:
        runs = runs[: max(0, len(runs) - keep)]
    now = datetime.now().astimezone()
    chosen = [(path, made) for path, made in runs if older_than is None or now - made > older_than]
    return [_looked_at(path, made) for path, made in chosen]


def remove_run(run: StoredRun, *, sources_only: bool = False) -> None:
    """Remove a run, or everything but its artifacts. Refused while a live process works in it.

    Raises a YouBenchaError if this one cannot be removed; others may be.
    """
    if run.path.is_symlink() or not run.path.is_dir():
        return
    lock_path = run.path / LOCK
    try:
        make_accessible(run.path)
        if not _is_file(lock_path):
            remove_tree(lock_path)  # never ours
        with lock_file(lock_path) as lock:
            if not lock.try_take():
                raise YouBenchaError(
                    "RUN_IN_USE", f"{run.path} is in use.", hint="Wait for that run to end, or end it, then try again."
                )
            private = _private_of(run.path)
            if os.name != "nt":
                _remove(run.path, private, sources_only=sources_only)
                return
        _remove(run.path, private, sources_only=sources_only)  # Windows removes nothing that is open
    except OSError as error:
        raise not_removable(run.path, error) from error


def orphaned_directories(root: Path, parents: Iterable[str] | None = None) -> dict[Path, list[Path]]:
    """Return the directories that dead runs in `root` left elsewhere, by run.

    Looked for in `parents`, by default where the runs say. Only names lead from there to a run: see `find_private`.
    """
    if parents is None:
        parents = {parent for path, _ in _runs_in(root) if (parent := _private_parent(path))}
    found: dict[Path, list[Path]] = {}
    for parent in sorted(parents):
        for name, place in private_in(parent):
            if _died(root / name):
                found.setdefault(root / name, []).append(place)
    return found


def remove_left_behind(run: Path, places: Iterable[Path]) -> bool:
    """Remove the directories of a dead run. Return False if another process is removing them."""
    try:
        with lock_file(run / LOCK) as lock:
            if not lock.try_take():
                return False
            for place in places:
                remove_tree(place)
    except OSError as error:
        raise not_removable(run, error) from error
    return True


def clear_left_behind(root: Path, parent: Path) -> None:
    """Remove what dead runs left in `parent`, when a new run begins: one look if there is nothing.

    What cannot be removed waits for `yb prune`, which tells why.
    """
    for run, places in orphaned_directories(root, [str(parent)]).items():
        with suppress(YouBenchaError):
            remove_left_behind(run, places)


def _died(path: Path) -> bool:
    """Whether a run is ours, has noted where its private directories are, and is not locked.

    Who makes a run takes its lock before he writes to it. So one with no note may be about to be taken, and looking
    whether it is would be in the way.
    """
    if not run_started_at(path.name) or path.is_symlink():
        return False
    return _private_parent(path) is not None and not is_locked(path / LOCK)


def _remove(path: Path, private: list[Path], *, sources_only: bool) -> None:
    for each in private:
        remove_tree(each)
    if not sources_only:
        remove_tree(path)
        return
    for name in os.listdir(path):  # noqa: PTH208 - only the names are wanted
        if name != ARTIFACTS:
            remove_tree(path / name)


def _private_of(path: Path) -> list[Path]:
    """Return what a dead run left elsewhere. Its lock only says where to look: an agent could have written it."""
    parent = _private_parent(path)
    return list(find_private(path.name, parent)) if parent is not None else []


def _private_parent(path: Path) -> str | None:
    try:
        parent = json.loads(read_untrusted(path, LOCK, _LONGEST_NOTE))[PRIVATE_PARENT]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return parent if isinstance(parent, str) else None


def _runs_in(root: Path) -> list[tuple[Path, datetime]]:
    try:
        paths = list(root.iterdir())
    except OSError:
        return []
    return [(path, made) for path in paths if (made := run_started_at(path.name)) and _is_ours(path)]


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    with suppress(OSError):  # another user's: whatever can be seen of it counts
        make_accessible(path)
    try:
        return _is_file(path / LOCK) or (path / ARTIFACTS).is_dir()
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _looked_at(path: Path, made: datetime) -> StoredRun:
    try:
        complete = (path / ARTIFACTS / RESULTS_FILE).is_file()
    except OSError:
        complete = False
    return StoredRun(path, made, size_on_disk(path), is_locked(path / LOCK), complete)
