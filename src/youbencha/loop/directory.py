"""The files of a loop below `.ralph`: its state, its journal, and the events file that agents append to.

The agent can write to all of them. While a loop runs, its memory is the truth: whatever an agent removed or replaced is
written again.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from youbencha.errors import YouBenchaError
from youbencha.files import open_to_append, replace_atomically
from youbencha.loop.topics import CURRENT_EVENTS, TopicLog
from youbencha.store.layout import ITERATIONS_FILE, LOOPS_DIR, RALPH_DIR, RECORDING_FILE, STATE_FILE
from youbencha.store.loops import (
    IterationRecord,
    LoopHistory,
    LoopState,
    newest_loop,
    parse_iterations,
    read_iterations,
    read_state,
)
from youbencha.workspace.trees import make_accessible, remove_tree

GUIDANCE_FILE = "guidance.jsonl"
"""The file to which `ralph guide` writes."""
_IGNORE_ALL = b"# Created by youBencha: git ignores everything in this directory.\n*\n"
STOP_REQUEST, RESTART_REQUEST = "stop-requested", "restart-requested"
"""Files in `.ralph` by which other programs ask a loop to end."""


class LoopDirectory:
    """`.ralph/loops/<id>/`: what the harness writes about one loop. `tree` is the user's directory."""

    def __init__(self, tree: Path, loop_id: str) -> None:
        self.tree = tree
        self.loop_id = loop_id
        self.ralph = tree / RALPH_DIR
        self.path = self.ralph / LOOPS_DIR / loop_id
        self.recording_file = self.path / RECORDING_FILE
        self.events_file = self.ralph / f"events-{loop_id}.jsonl"
        self.guidance = TopicLog(self.path / GUIDANCE_FILE, tree)
        self._journal = b""
        """What the journal should contain."""
        self._flusher = ThreadPoolExecutor(1, "youbencha-journal")
        self._flushing: Future[None] | None = None

    def create(self) -> None:
        """Make the directory of the loop, unless it exists, and its events file; name that where agents look.

        Raises YouBenchaError if the user has something else in the place of `.ralph`.
        """
        if self.ralph.is_symlink() or (self.ralph.exists() and not self.ralph.is_dir()):
            raise YouBenchaError(
                "LOOP_NOT_WRITABLE",
                f"{self.ralph} is not a directory.",
                hint="Move it: the loop needs a directory of that name for its files.",
            )
        with writing(self.ralph):
            self.restore()
            if not os.path.lexists(self.events_file):
                self.events_file.touch(mode=0o644)
            events = f"{RALPH_DIR}/{self.events_file.name}\n".encode()
            replace_atomically(self.tree / CURRENT_EVENTS, events)

    @classmethod
    def newest(cls, tree: Path) -> Self:
        """The newest loop in a directory. Raises YouBenchaError if there is none."""
        if (loop_id := newest_loop(tree)) is None:
            raise YouBenchaError(
                "NO_LOOP", f"There is no loop in {tree}.", hint="Start one: `ralph run` without --continue."
            )
        return cls(tree, loop_id)

    def restore(self) -> None:
        """Make sure that the directories are directories, and no links: an agent may have removed or replaced them."""
        for directory in (self.ralph, self.ralph / LOOPS_DIR, self.path):
            make_directory(directory)
        if not os.path.lexists(self.ralph / ".gitignore"):
            replace_atomically(self.ralph / ".gitignore", _IGNORE_ALL)

    def iteration_dir(self, number: int) -> Path:
        """For the raw output of an iteration, made new."""
        directory = self.path / "iterations" / str(number)
        with writing(directory):
            make_directory(directory.parent)
            remove_tree(directory)
            directory.mkdir()
        return directory

    def save(self, state: LoopState) -> None:
        """Write the state. If the loop dies at any time, the files have the old state or the new one."""
        self._replace(STATE_FILE, state.model_dump_json(indent=2).encode())

    def append(self, record: IterationRecord) -> None:
        """Append a record to the journal, and write what was removed from it again."""
        line = record.model_dump_json().encode() + b"\n"
        with writing(self.path / ITERATIONS_FILE):
            self.flush()
            descriptor = self._open_journal()
            try:
                os.write(descriptor, line)
            except OSError:
                os.close(descriptor)
                raise
        self._journal += line
        # In a thread: a busy disk takes 4 ms and more, and the next iteration need not wait for it.
        self._flushing = self._flusher.submit(_flush, descriptor)

    def flush(self) -> None:
        """Wait until the journal is on the disk."""
        if self._flushing is not None:
            self._flushing.result()

    def _open_journal(self) -> int:
        path = self.path / ITERATIONS_FILE
        try:
            if not self._journal or path.lstat().st_size == len(self._journal):
                return open_to_append(path)
        except OSError:  # it was removed, or replaced
            self.restore()
        remove_tree(path)
        replace_atomically(path, self._journal)
        return open_to_append(path)

    def write(self, name: str, data: str) -> None:
        """Write a file next to the state, such as the summary, once the journal is on the disk."""
        with writing(self.path):
            self.flush()
        self._replace(name, data.encode("utf-8", "replace"))

    def _replace(self, name: str, data: bytes) -> None:
        path = self.path / name
        with writing(self.path):
            self.restore()
            try:
                replace_atomically(path, data)
            except IsADirectoryError:
                remove_tree(path)
                replace_atomically(path, data)

    def load(self) -> LoopHistory:
        """Read the state and the journal. Nothing is changed.

        Raises YouBenchaError if a file is damaged, or of another version.
        """
        state = read_state(self.tree, self.loop_id)
        self._journal = read_iterations(self.tree, self.loop_id)
        return LoopHistory(state, parse_iterations(self._journal, self.path / ITERATIONS_FILE))

    def take_request(self) -> str | None:
        """The file by which another program asked the loop to end, if there is one; it is removed."""
        for name in (STOP_REQUEST, RESTART_REQUEST):
            if os.path.lexists(self.ralph / name):
                remove_tree(self.ralph / name)
                return name
        return None


def make_directory(path: Path) -> None:
    """Make sure that a path is a usable directory; replace anything else that an agent has put there."""
    if path.is_symlink() or not path.is_dir():
        if os.path.lexists(path):
            remove_tree(path)
        path.mkdir()
    make_accessible(path)


def _flush(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_loop_id() -> str:
    """Return a new name that sorts by time, which is in UTC because time zones change."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"


class writing:  # noqa: N801 - a context manager, quicker than a generator
    """Turn an OSError into a message about the loop's files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise YouBenchaError(
                "LOOP_NOT_WRITABLE",
                f"Cannot write {self._path}: {error.strerror or error}",
                hint="Free some space or correct its permissions, then continue with `ralph run --continue`.",
            ) from error
