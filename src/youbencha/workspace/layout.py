"""The directory of a run: `<workspace>/<name>-<time>-<id>/`, and what is in it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from youbencha.errors import YouBenchaError
from youbencha.workspace.lock import lock_file
from youbencha.workspace.removal import remove_tree

PRIVATE, ARTIFACTS, LOCK = ".youbencha", "artifacts", ".lock"
_IGNORE_ALL = "# Made by youBencha: what is in here belongs to no repository.\n*\n"


class RunDirectory:
    """A run's own place. Locked from its making until it is closed, so that nobody takes it for an old one."""

    def __init__(self, path: Path, held: ExitStack) -> None:
        self.path = path
        self.modified = path / "src-modified"
        """Where the agent works."""
        self.expected = path / "src-expected"
        """How it should be; made after the agent has ended, if at all."""
        self.artifacts = path / ARTIFACTS
        self.private = path / PRIVATE
        """For what only the harness needs."""
        self._held = held

    @classmethod
    def create(cls, root: Path, name: str | None = None) -> Self:
        """In `root`, which is made if need be, and is then ignored by the user's git. Leaves nothing if it fails."""
        root = root.absolute()
        with writing_to(root), ExitStack() as undo:
            _make_root(root)
            path = root / _new_name(name or "run")
            path.mkdir()
            undo.callback(remove_tree, path)
            held = undo.enter_context(ExitStack())
            _hold(path, held)
            run = cls(path, held)
            for directory in (run.modified, run.artifacts, run.private):
                directory.mkdir()
            undo.pop_all()
            return run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The run is over: others may remove it."""
        self._held.close()

    def delete_sources(self) -> None:
        """Everything but the artifacts."""
        self.close()
        for name in os.listdir(self.path):  # noqa: PTH208 - only the names are wanted
            if name != ARTIFACTS:
                remove_tree(self.path / name)

    def remove(self) -> None:
        """All of it, because nothing ran."""
        self.close()
        remove_tree(self.path)


@contextmanager
def writing_to(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise not_writable(place, error.strerror or str(error)) from error


def not_writable(place: Path, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "WORKSPACE_NOT_WRITABLE",
        f"Cannot write the workspace {place}: {reason}",
        hint="Make room there, or set `workspace_dir` to a directory that you may write to.",
    )


def write_atomically(path: Path, data: bytes) -> None:
    """The whole file or none: who reads it meanwhile, or after a kill, finds the one before."""
    partial = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        try:
            partial.write_bytes(data)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise YouBenchaError(
            "ARTIFACTS_NOT_WRITABLE",
            f"Cannot write {path}: {error.strerror or error}",
            hint="Check that the artifacts directory exists, belongs to you and has room.",
        ) from error


def _make_root(root: Path) -> None:
    if not root.exists():
        root.mkdir(parents=True, exist_ok=True)
        (root / ".gitignore").write_text(_IGNORE_ALL)


def _new_name(name: str) -> str:
    return f"{name}-{time.strftime('%Y-%m-%d-%H%M%S')}-{os.urandom(3).hex()}"


def _hold(path: Path, held: ExitStack) -> None:
    lock = held.enter_context(lock_file(path / LOCK))
    lock.take(json.dumps({"pid": os.getpid(), "started_at": time.time()}))
