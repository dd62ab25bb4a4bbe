"""Compare two agents by their scores on the same tasks: by how much they differ, and whether the difference is real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal["better", "worse", "equivalent", "undecided"]
"""Of the first compared with the second."""
MARGIN = 0.05


class TaskScores(NamedTuple):
    """The scores of the valid trials of both on one task, each from 0 to 1."""

    task: str
    first: tuple[float, ...]
    second: tuple[float, ...]


class DifferenceInterval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first's mean score less the second's, over the tasks that both have scores for."""

    estimate: float | None
    on_these_tasks: DifferenceInterval | None
    """If the same tasks were run again, without end."""
    on_tasks_like_these: DifferenceInterval | None
    """If other tasks of the same kind were run: the tasks are a sample, too."""
    p_value: float | None
    """Of the exact sign-flip test over tasks."""
    tasks: int
    verdict: Verdict
    """On these tasks."""
    verdict_on_tasks_like_these: Verdict
    more_trials: int | None
    """About how many more trials, of both together, would decide on these tasks. None: it is decided, or not known."""
    detectable: float | None
    """The smallest difference that this many trials find in 80 of 100 cases."""
    reason: str | None = None
    """Why there is no estimate or no interval."""


def compare_scores(tasks: Sequence[TaskScores], *, margin: float = MARGIN, confidence: float = 0.95) -> Difference:
    """Compare two agents. Tasks for which one of them has no score are left out."""
    raise NotImplementedError
