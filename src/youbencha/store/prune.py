"""Find and remove old runs. A run that is in progress is never touched.

An agent may have left anything in them: directories without permissions, a lock that is a link, or one that names
other directories.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.locks import is_locked, lock_file, read_note
from youbencha.store.layout import RESULTS_FILE
from youbencha.workspace.run_dir import (
    ARTIFACTS,
    LOCK,
    PRIVATE_PARENT,
    private_directories,
    remove_sources,
    run_started_at,
)
from youbencha.workspace.trees import make_accessible, not_removable, remove_tree, size_on_disk


class OldRun(NamedTuple):
    path: Path
    created_at: datetime
    size_bytes: int
    """On the disk, without holes."""
    in_use: bool
    """A live process holds its lock."""
    complete: bool
    """It has results. A run that is neither in use nor complete has died."""


def old_runs(root: Path, older_than: timedelta | None = None, keep: int | None = None) -> list[OldRun]:
    """Return the runs that are older than `older_than` and not among the newest `keep`, the oldest first.

    Runs are recognised by their name and their contents.
    """
    runs = sorted(_runs_in(root), key=lambda run: (run[1], run[0].name))
    if keep is not None:
        runs = runs[: max(0, len(runs) - keep)]
    now = datetime.now().astimezone()
    chosen = [(path, made) for path, made in runs if older_than is None or now - made > older_than]
    return [_looked_at(path, made) for path, made in chosen]


def remove_run(run: OldRun, *, sources_only: bool = False) -> None:
    """Remove a run, or everything but its artifacts. Raises a YouBenchaError if it is in use or cannot be removed."""
    if run.path.is_symlink() or not run.path.is_dir():
        return
    lock_path = run.path / LOCK
    try:
        make_accessible(run.path)
        if not _is_file(lock_path):
            remove_tree(lock_path)  # the agent's
        with lock_file(lock_path) as lock:
            if not lock.take_without_note():
                raise YouBenchaError(
                    "RUN_IN_USE",
                    f"{run.path} is in use.",
                    hint="Wait for that run to finish, or stop it, then try again.",
                )
            private = _find_private(run.path)
            if os.name != "nt":
                _remove(run.path, private, sources_only=sources_only)
                return
        _remove(run.path, private, sources_only=sources_only)  # Windows cannot remove an open file
    except OSError as error:
        raise not_removable(run.path, error) from error


def orphaned_directories(root: Path, parents: Iterable[str] | None = None) -> dict[Path, list[Path]]:
    """Return the directories that dead runs in `root` left elsewhere, by run.

    They are searched in `parents`, by default those in the runs' locks, and assigned to runs by name.
    """
    if parents is None:
        parents = {parent for path, _ in _runs_in(root) if (parent := _private_parent(path))}
    found: dict[Path, list[Path]] = {}
    for parent in sorted(parents):
        for name, directory in private_directories(parent):
            if _died(root / name):
                found.setdefault(root / name, []).append(directory)
    return found


def remove_orphaned(run: Path, directories: Iterable[Path]) -> bool:
    """Remove the private directories of a dead run. Return False if another process is removing them."""
    try:
        with lock_file(run / LOCK) as lock:
            if not lock.take_without_note():
                return False
            for directory in directories:
                remove_tree(directory)
    except OSError as error:
        raise not_removable(run, error) from error
    return True


def remove_all_orphaned(root: Path, parent: Path) -> None:
    """Remove what dead runs left in `parent`. Called when a new run begins; listing `parent` is cheap.

    What cannot be removed is left to `yb prune`, which reports the reason.
    """
    for run, directories in orphaned_directories(root, [str(parent)]).items():
        with suppress(YouBenchaError):
            remove_orphaned(run, directories)


def _died(path: Path) -> bool:
    """Whether a run has a note about its private directories, and is not locked.

    A new run takes its lock before it writes the note. So a run without a note may be about to take the lock, and
    checking the lock would interfere.
    """
    if not run_started_at(path.name) or path.is_symlink():
        return False
    return _private_parent(path) is not None and not is_locked(path / LOCK)


def _remove(path: Path, private: list[Path], *, sources_only: bool) -> None:
    for directory in private:
        remove_tree(directory)
    (remove_sources if sources_only else remove_tree)(path)


def _find_private(path: Path) -> list[Path]:
    """Return what a dead run left elsewhere. Its lock only says where to search: an agent could have written it."""
    return [directory for name, directory in private_directories(_private_parent(path) or "") if name == path.name]


def _private_parent(path: Path) -> str | None:
    """Return the directory that a run's lock names, which an agent could have written."""
    parent = read_note(path / LOCK).get(PRIVATE_PARENT)
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
    with suppress(OSError):  # another user's
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


def _looked_at(path: Path, made: datetime) -> OldRun:
    try:
        complete = (path / ARTIFACTS / RESULTS_FILE).is_file()
    except OSError:
        complete = False
    return OldRun(path, made, size_on_disk(path), is_locked(path / LOCK), complete)
