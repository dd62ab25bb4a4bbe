"""One loop at a time in a directory.

The lock file is in the cache, not in `.ralph`: an agent that runs `git clean -fdx` would remove it there. It is
released when the process ends, however it ends.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.json_lines import as_str
from youbencha.locks import describe_holder, is_locked, lock_file, read_note
from youbencha.user_dirs import cache_not_writable, default_cache_dir

_LOCKS = "loop-locks"


class RunningLoop(NamedTuple):
    """The loop that holds the lock."""

    loop_id: str | None
    """None if it is unknown."""
    holder: str
    """Its process: ` (process 7, since 2026-01-31 12:00)`; may be empty."""

    def __str__(self) -> str:
        return f"{self.loop_id or 'another loop'}{self.holder}"


@contextmanager
def loop_lock(tree: Path, loop_id: str, cache_dir: Path | None = None) -> Iterator[None]:
    """Hold the lock of a directory. Raises YouBenchaError if a loop is running there."""
    path = _lock_path(tree, cache_dir)
    with ExitStack() as opened:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = opened.enter_context(lock_file(path))
            taken = lock.take(loop=loop_id, directory=str(tree))
        except OSError as error:
            raise cache_not_writable("the lock of a loop", path.parent, error.strerror or str(error)) from error
        if not taken:
            raise YouBenchaError(
                "LOOP_RUNNING",
                f"A loop is running in {tree}: {_read_holder(path)}.",
                hint="Wait for it, stop it, or run this one in a separate working tree: `ralph run --worktree`.",
            )
        yield


def running_loop(tree: Path, cache_dir: Path | None = None) -> RunningLoop | None:
    """Return the loop that is running in a directory."""
    path = _lock_path(tree, cache_dir)
    return _read_holder(path) if is_locked(path) else None


def _read_holder(path: Path) -> RunningLoop:
    note = read_note(path)
    return RunningLoop(as_str(note.get("loop")), describe_holder(note))


def _lock_path(tree: Path, cache_dir: Path | None) -> Path:
    try:
        parent = cache_dir or default_cache_dir()
    except RuntimeError:  # this user has no home directory
        parent = Path(tempfile.gettempdir())
    real = os.path.realpath(tree)
    name = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    return parent.absolute() / _LOCKS / f"{name}.lock"
