"""What a comparison consists of, for every format."""

from __future__ import annotations

from dataclasses import dataclass

from youbencha.report.arena_selection import Exclusion
from youbencha.report.leaderboard import Row, TrialCoverage
from youbencha.stats.model import Difference, DifferenceInterval, PassOfK, ValueDifference, Verdict
from youbencha.store.read import Unreadable


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
    started_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """One agent on one task."""

    trials: tuple[ComparedTrial, ...]
    scored: int
    """Valid, with a score."""
    judged: int
    """Valid, and it is known whether they were solved: not of results of the original Thunderdome."""
    solved: int
    score: float
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
class DecidedEarly:
    """How a run with `--until-decided` ended."""

    rounds: int
    """Of this comparison."""
    trials: int
    """Of the whole run, as the two below, without those that were taken over from another."""
    max_trials: int
    saved: int
    """0 if it is undecided."""
    intervals: tuple[DifferenceInterval, ...]
    """Of the confidence sequence, after each round."""
    given_up: tuple[str, ...]
    """Tasks without valid pairs of trials, because of which there were no more rounds."""


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
    decided_early: DecidedEarly | None
    """Set if a confidence sequence judges the trials; else they are judged once, at the end."""
    more_trials_cost_usd: float | None
    """About what the trials would cost that would decide. Null: not known, or none are needed."""
    pass_rate: Difference
    """The difference between the shares of solved trials. There is no interval on tasks like these if a confidence
    sequence judges the trials, because it would be valid for a single look only."""
    cost_usd: ValueDifference
    """Of a trial, as time and tokens."""
    duration_s: ValueDifference
    tokens: ValueDifference
    tasks: tuple[TaskComparison, ...]
    """The largest difference first."""
    only_first: tuple[str, ...]
    """Tasks for which the second has no score."""
    only_second: tuple[str, ...]
    warnings: tuple[str, ...]
    """Why the two may not be comparable."""
    unchanged: str | None = None
    """A sentence, if no request of the variant differed from the baseline's. Null if some did, or if it is unknown."""

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
    more_trials_command: str | None = None
    """Command that runs enough further trials to decide. Null if nothing is undecided, or if it is unknown."""
