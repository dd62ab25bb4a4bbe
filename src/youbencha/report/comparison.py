"""Compare two agents by their trials: whether one is better, by how much, and what that rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from youbencha.report.arena_loading import Unreadable
from youbencha.report.arena_selection import Exclusion
from youbencha.report.leaderboard import Row, TrialCoverage
from youbencha.stats.comparison import MARGIN, Difference, DifferenceInterval, Verdict

Judged = Literal["once", "until decided"]
"""Once, after a fixed number of trials; or by the confidence sequence that ended them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTrial:
    run: str
    trial: int
    directory: str
    outcome: str | None
    valid: bool | None
    """Null: not known; counted as valid."""
    score: float | None
    diff: str | None
    """The path of the file. Null: there is none."""
    transcript: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """One agent on one task."""

    trials: tuple[ComparedTrial, ...]
    scored: int
    """Valid, with a score."""
    solved: int
    score: float | None
    """The mean."""
    flaky: bool
    """Both solved and failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    task: str
    first: TaskResult
    second: TaskResult
    difference: float
    """The first's mean score less the second's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOfK:
    """How many of the tasks would be solved in k trials, as a share."""

    k: int
    any: float
    """At least once: pass@k."""
    all: float
    """Every time: pass^k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAgent:
    name: str
    """As in the report: the orchestrator's, with the run's if that tells them apart."""
    orchestrator: str
    runs: tuple[str, ...]
    coverage: TrialCoverage
    """Of all its trials."""
    figures: Row
    """Over the tasks that are compared."""
    passes: tuple[PassOfK, ...]
    versions: tuple[str, ...]
    """Of the agent's CLI."""
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The first's mean of an unbounded figure less the second's, over the tasks for which both have it."""

    first: float | None
    second: float | None
    difference: float | None
    interval: DifferenceInterval | None
    """On these tasks."""
    tasks: int
    reason: str | None = None
    """Why there is no difference or no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedEarly:
    """How a run with `--until-decided` ended."""

    rounds: int
    trials: int
    """Of both, in these rounds."""
    max_trials: int
    """That the run could have had, of these two."""
    saved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairComparison:
    """The first compared with the second."""

    first: ComparedAgent
    second: ComparedAgent
    verdict: Verdict
    """On these tasks."""
    difference: Difference
    """Of the scores."""
    p_adjusted: float | None
    """By Holm's method, if there are several comparisons; else the p-value itself."""
    judged: Judged
    decided_early: DecidedEarly | None
    more_trials_cost_usd: float | None
    """About what the trials would cost that would decide. Null: not known, or none are needed."""
    pass_rate: Difference
    cost_usd: Gap
    """Of a trial."""
    cost_per_solved_usd: Gap
    duration_s: Gap
    tokens: Gap
    tasks: tuple[TaskComparison, ...]
    """The largest difference first."""
    only_first: tuple[str, ...]
    """Tasks for which the second has no score."""
    only_second: tuple[str, ...]
    warnings: tuple[str, ...]
    """Why the two may not be comparable."""

    @property
    def flaky(self) -> tuple[TaskComparison, ...]:
        return tuple(each for each in self.tasks if each.first.flaky or each.second.flaky)


@dataclass(frozen=True, kw_only=True)
class ComparisonReport:
    comparisons: tuple[PairComparison, ...]
    one_pair: bool
    """Whether a pair was asked for; else all that there are."""
    margin: float
    confidence: float
    """Of each interval: with several comparisons, each has its share of the 5 %."""
    runs: tuple[str, ...]
    exclusions: tuple[Exclusion, ...]
    superseded: int
    """Trials that were left out because there is a newer one of the same identity."""
    unreadable: tuple[Unreadable, ...]
    notes: tuple[str, ...]


def make_comparison(pairs: Sequence[object], *, margin: float = MARGIN) -> ComparisonReport:
    raise NotImplementedError
