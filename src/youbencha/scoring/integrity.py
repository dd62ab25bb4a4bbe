"""Find signs of cheating in an agent's tool calls and changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from youbencha.log.arena import IntegrityFlag
from youbencha.log.model import YouBenchaLog
from youbencha.workspace import FileChange


@dataclass(frozen=True, kw_only=True)
class IntegrityContext:
    """What the rules need to know about a trial."""

    hidden_files: tuple[str, ...] = ()
    """Paths of the hidden tests, relative to the tree."""
    solution_refs: tuple[str, ...] = ()
    """Tags that the agent must not know: of the reference solution, of the hidden tests."""
    harness_paths: tuple[str, ...] = ()
    """Directories of the harness: results, configuration."""
    workspace: str = "/workspace"
    """Where the agent worked, in its sandbox."""
    has_network: bool = False
    greenfield: bool = False
    protected: tuple[str, ...] = ()
    """Patterns of further files that the agent may not change."""


def flags_of(
    log: YouBenchaLog | None, changes: Iterable[FileChange], context: IntegrityContext
) -> tuple[IntegrityFlag, ...]:
    """What may be an attempt to cheat, each with its evidence: one line of at most 200 characters."""
    raise NotImplementedError
