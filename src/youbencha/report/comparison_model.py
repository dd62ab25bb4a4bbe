"""What a comparison consists of, for every format."""

from __future__ import annotations

from dataclasses import dataclass

from youbencha.report.arena_selection import Exclusion
from youbencha.report.leaderboard import Row, TrialCoverage
from youbencha.stats.model import Difference, DifferenceInterval, PassOfK, ValueDifference, Verdict
from youbencha.store.read import ArenaTrial, Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """One agent on one task."""

    trials: tuple[ArenaTrial, ...]
    scored: int
    """The number of valid trials with a score."""
    judged: int
    """The number of valid trials known to be solved or unsolved; results of the original Thunderdome do not say."""
    solved: int
    score: float
    """The mean score."""
    flaky: bool
    """Whether some trials were solved and others failed."""


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
    """The orchestrator's name, with the run's if that is what tells the two agents apart."""
    orchestrator: str
    runs: tuple[str, ...]
    coverage: TrialCoverage
    """How many trials there are, over all tasks."""
    figures: Row
    """The figures over the compared tasks."""
    passes: tuple[PassOfK, ...]
    versions: tuple[str, ...]
    """The versions of the agent's CLI."""
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedEarly:
    """How a run with `--until-decided` ended."""

    rounds: int
    """The number of rounds of this comparison."""
    trials: int
    """The number of trials of the whole run, as the two figures below, without trials reused from another run."""
    max_trials: int
    saved: int
    """The number of trials that were not needed; 0 if the comparison is undecided."""
    intervals: tuple[DifferenceInterval, ...]
    """The interval of the confidence sequence after each round."""
    given_up: tuple[str, ...]
    """Tasks without valid pairs of trials, because of which there were no more rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairComparison:
    """The first compared with the second."""

    first: ComparedAgent
    second: ComparedAgent
    verdict: Verdict
    """The verdict on these tasks."""
    difference: Difference
    """The difference of the scores."""
    p_adjusted: float | None
    """The p-value, adjusted by Holm's method if there are several comparisons."""
    decided_early: DecidedEarly | None
    """Set if a confidence sequence judges the trials, which are otherwise judged once at the end."""
    more_trials_cost_usd: float | None
    """The estimated cost of the trials that would decide. Null if unknown, or if none are needed."""
    pass_rate: Difference
    """The difference between the shares of solved trials. There is no interval on tasks like these if a confidence
    sequence judges the trials, because it would be valid for a single look only."""
    cost_usd: ValueDifference
    """The cost of a trial."""
    duration_s: ValueDifference
    tokens: ValueDifference
    tasks: tuple[TaskComparison, ...]
    """The tasks, largest difference first."""
    only_first: tuple[str, ...]
    """Tasks for which the second has no score."""
    only_second: tuple[str, ...]
    warnings: tuple[str, ...]
    """Reasons why the two may not be comparable."""
    unchanged: str | None = None
    """A sentence, if no request of the variant differed from the baseline's. Null if some did, or if it is unknown."""

    @property
    def flaky(self) -> tuple[TaskComparison, ...]:
        return tuple(task for task in self.tasks if task.first.flaky or task.second.flaky)


@dataclass(frozen=True, kw_only=True)
class ComparisonReport:
    comparisons: tuple[PairComparison, ...]
    one_pair: bool
    """Whether one pair was requested rather than all pairs of a run."""
    margin: float
    confidence: float
    """The confidence of each interval: several comparisons share the 5%."""
    runs: tuple[str, ...]
    exclusions: tuple[Exclusion, ...]
    superseded: int
    """The number of trials left out because there is a newer one of the same identity."""
    unreadable: tuple[Unreadable, ...]
    notes: tuple[str, ...]
    more_trials_command: str | None = None
    """Command that runs enough further trials to decide. Null if nothing is undecided, or if it is unknown."""
