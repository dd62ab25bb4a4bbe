"""The files of a loop below `.ralph`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from youbencha.loop.model import IterationRecord, LoopState

RALPH_DIR = ".ralph"


class LoopDirectory:
    """`.ralph/loops/<id>/`: what the harness writes about one loop. `tree` is the user's directory."""

    def __init__(self, tree: Path, loop_id: str) -> None:
        self.tree = tree
        self.loop_id = loop_id
        self.ralph = tree / RALPH_DIR
        self.path = self.ralph / "loops" / loop_id
        self.state_file = self.path / "loop.json"
        self.recording_file = self.path / "recording.jsonl"
        self.events_file = self.ralph / f"events-{loop_id}.jsonl"

    @classmethod
    def create(cls, tree: Path) -> Self:
        """Make the directory of a new loop, and a new events file, which `.ralph/current-events` then names."""
        raise NotImplementedError

    @classmethod
    def newest(cls, tree: Path) -> Self:
        """The newest loop in a directory. Raises YouBenchaError if there is none."""
        raise NotImplementedError

    def iteration_dir(self, number: int) -> Path:
        return self.path / "iterations" / str(number)

    def save(self, state: LoopState) -> None:
        raise NotImplementedError

    def append(self, record: IterationRecord) -> None:
        raise NotImplementedError

    def load(self) -> LoopHistory:
        """Read the state and the records. Raises YouBenchaError if the state is damaged or of another version."""
        raise NotImplementedError


class LoopHistory(NamedTuple):
    state: LoopState
    records: tuple[IterationRecord, ...]
