"""The results of statistics, as reports and the engine pass them on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal["better", "worse", "equivalent", "undecided"]
"""The first compared with the second."""


MARGIN = 0.05


class TaskScores(NamedTuple):
    """The scores of the valid trials of both on one task, each from 0 to 1; or other figures that are at least 0."""

    task: str
    first: tuple[float, ...]
    second: tuple[float, ...]


class DifferenceInterval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The difference if every missing or retried trial of one agent had the same score."""

    estimate: float
    on_these_tasks: DifferenceInterval
    on_tasks_like_these: DifferenceInterval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingBounds:
    """How far the missing and retried trials of an agent could change a difference."""

    of_first: bool
    """Whether the agent is the first or the second."""
    missing: int
    """The number of planned trials without a valid result."""
    retried: int = 0
    """The number of trials that are valid only after an attempt that was not."""
    trials: int
    """All trials of the agent, the missing ones included."""
    if_failed: Bound
    if_solved: Bound

    @property
    def uncertain(self) -> int:
        return self.missing + self.retried

    @property
    def both(self) -> tuple[Bound, Bound]:
        return self.if_failed, self.if_solved


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first's mean score less the second's, over the tasks that both have scores for."""

    estimate: float | None
    on_these_tasks: DifferenceInterval | None
    """If the same tasks were run again, without end."""
    on_tasks_like_these: DifferenceInterval | None
    """If other tasks of the same kind were run: the tasks are also a sample."""
    p_value: float | None
    """The result of the exact sign-flip test over tasks."""
    tasks: int
    verdict: Verdict
    """On these tasks."""
    verdict_on_tasks_like_these: Verdict
    more_trials: int | None
    """About how many more trials, of both together, would decide on these tasks. None: it is decided, or not known."""
    detectable: float | None
    """The smallest difference that this many trials find in 80 of 100 cases. None: not even 1."""
    reason: str | None = None
    """Why there is no estimate or no interval."""
    bounds: MissingBounds | None = None
    """The bounds of the agent whose missing trials count most against the verdict. None: no trial is missing."""
    overturned: bool = False
    """Whether it would be decided if no trial were missing or retried, and is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifference:
    """The difference in a figure such as cost or time: the first's mean less the second's, over the tasks for which
    both are known."""

    first: float | None
    second: float | None
    difference: float | None
    interval: DifferenceInterval | None
    """On tasks like these."""
    ratio: float | None
    """The first's mean divided by the second's. None: not known, or the second's is 0."""
    ratio_interval: DifferenceInterval | None
    tasks: int
    reason: str | None = None
    """Why there is no difference or no interval."""


def judge_interval(interval: DifferenceInterval | None, margin: float) -> Verdict:
    """Judge a difference by its interval."""
    if interval is None:
        return "undecided"
    if -margin <= interval.low and interval.high <= margin:
        return "equivalent"
    return "better" if interval.low > 0 else "worse" if interval.high < 0 else "undecided"


CONFIDENCE = 0.95


Unit = Literal["task", "trial"]


Method = Literal["adjusted-t", "wilson"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean with its 95 % interval."""

    mean: float | None
    low: float | None
    high: float | None
    unit: Unit
    """The unit that was counted."""
    n: int
    """How many units."""
    method: Method | None
    reason: str | None = None
    """Why there is no mean, or no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOfK:
    """How many of the tasks would be solved in k trials, as a share."""

    k: int
    any: float
    """The probability of at least one success: pass@k."""
    all: float
    """The probability that all succeed: pass^k."""
