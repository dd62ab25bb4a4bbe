"""The matrix of a run: which agent does which task how often, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from youbencha.trial.plan import Plan


class TrialKey(NamedTuple):
    """Identifies a trial in a run; also its directory: `trials/<orchestrator>/<task>/trial-<number>`."""

    orchestrator: str
    task: str
    number: int

    def __str__(self) -> str:
        return f"{self.orchestrator} · {self.task} · trial {self.number}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One orchestrator on one task. Its trials all run the same plan."""

    orchestrator: str
    task: str
    plan: Plan
    task_text: str
    """The task's description, for `task.md`."""
    agent_hash: str
    """Of everything that the agent's work depends on."""
    validation_hash: str
    """Of everything else that the scores depend on."""
    category: str | None = None


@dataclass(frozen=True, kw_only=True)
class Matrix:
    cells: tuple[Cell, ...]
    trials: int
    baselines: Mapping[str, str] = field(default_factory=dict)
    """What each orchestrator is compared with, if with another one of the matrix."""

    def order(self) -> Iterator[tuple[TrialKey, Cell]]:
        """Yield every trial, interleaved: agents meet a task under the same conditions, none always first.

        All first trials come before all second ones, so that a run that is stopped has compared all agents.
        """
        by_task: dict[str, list[Cell]] = {}
        for cell in self.cells:
            by_task.setdefault(cell.task, []).append(cell)
        for number, (position, cells) in product(range(1, self.trials + 1), enumerate(by_task.values())):
            shift = (number - 1 + position) % len(cells)
            for cell in (*cells[shift:], *cells[:shift]):
                yield TrialKey(cell.orchestrator, cell.task, number), cell
