"""What a run of a matrix reports while it works, and at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from youbencha.events import Event
from youbencha.stats.comparison import DifferenceInterval, Verdict
from youbencha.store.arena import AttemptInfo, TrialKey, TrialMeta
from youbencha.store.bundle import OutcomeName
from youbencha.text import first_few


class TrialRow(NamedTuple):
    """What is kept of a finished trial."""

    key: TrialKey
    outcome: OutcomeName | None
    valid: bool | None
    composite_score: float | None
    cost_usd: float | None
    """Of all attempts."""
    last_cost_usd: float | None
    """Of the attempt that counts, with its judges."""
    total_tokens: int | None
    duration_s: float | None
    reason: str | None
    attempts: int
    reused_from: str | None = None
    retried: bool = False
    """Whether it is valid only after an attempt that was not."""


class RunBegun(NamedTuple):
    trials: int
    """With `--until-decided`, at most."""
    finished: int
    """Before; they are not repeated."""
    warnings: tuple[str, ...] = ()


class AttemptBegun(NamedTuple):
    key: TrialKey
    number: int


class AttemptEvent(NamedTuple):
    """An event of a running attempt."""

    key: TrialKey
    event: Event


class AttemptFailed(NamedTuple):
    """An attempt that does not finish its trial."""

    key: TrialKey
    info: AttemptInfo
    retry_in_s: float | None
    """None: not again."""


class TrialFinished(NamedTuple):
    row: TrialRow


class TrialsSkipped(NamedTuple):
    """Trials that are not started, and why."""

    orchestrator: str | None
    """None for all orchestrators whose work is validated in the same way."""
    task: str | None
    """None: of all tasks."""
    reason: str

    @property
    def which(self) -> str:
        return " on ".join(name for name in (self.orchestrator or "any agent", self.task) if name)


class ComparisonState(NamedTuple):
    """How far a comparison of a run with `--until-decided` is."""

    first: str
    second: str
    """The baseline."""
    rounds: int
    """Completed."""
    difference: float | None
    interval: DifferenceInterval
    """Valid at every look."""
    verdict: Verdict
    pairs: int
    """Of two valid trials."""
    missing: int
    """Pairs without two valid trials."""
    given_up: tuple[str, ...] = ()
    """Tasks without any valid pair in several rounds: it ends undecided."""
    lacking: str | None = None
    """The missing trials that could overturn the verdict of the others, which keeps it undecided."""

    def __str__(self) -> str:
        known = "unknown" if self.difference is None else f"{self.difference:+.2f}"
        interval = f"{self.interval.low:+.2f} to {self.interval.high:+.2f}"
        given_up = f"; given up: no valid pair of trials on {first_few(self.given_up)}" if self.given_up else ""
        lacking = f": {self.lacking}" if self.lacking else ""
        round_ = f"round {self.rounds}, difference {known} ({interval}), {self.verdict}{lacking}{given_up}"
        return f"{self.first} vs {self.second}: {round_}"


class Stopping(NamedTuple):
    """No further trial is started."""

    reason: str
    running: int


Update = (
    RunBegun | AttemptBegun | AttemptEvent | AttemptFailed | TrialFinished | TrialsSkipped | ComparisonState | Stopping
)
UpdateSink = Callable[[Update], None]


class MatrixSummary(NamedTuple):
    trials: int
    rows: tuple[TrialRow, ...]
    """Of all finished trials, in the order of the run."""
    skipped: tuple[TrialsSkipped, ...] = ()
    stopped: str | None = None
    """Why the run ended before everything had run."""
    hint: str | None = None
    drained: bool = False
    """Ended by Ctrl-C."""
    spent_usd: float | None = None
    """On all attempts of this run, as far as it is known. None if nothing is."""
    comparisons: tuple[ComparisonState, ...] = ()
    """Of a run with `--until-decided`."""
    max_trials: int | None = None
    """The most that it could have had."""
    budget_spent: bool = False
    """Whether it was stopped by the budget of the run."""

    @property
    def complete(self) -> bool:
        return len(self.rows) == self.trials

    @property
    def not_valid(self) -> int:
        return sum(not row.valid for row in self.rows)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do: all trials ran, or those that the budget of comparisons allowed."""
        return self.complete or (bool(self.comparisons) and self.budget_spent)

    @property
    def saved(self) -> int:
        """Trials that were not needed, because every comparison was decided before."""
        decided = all(each.verdict != "undecided" for each in self.comparisons)
        own = sum(row.reused_from is None for row in self.rows)
        return self.max_trials - own if self.max_trials and decided else 0

    @property
    def saved_usd(self) -> float | None:
        """About what they would have cost."""
        costs = [row.cost_usd for row in self.rows if row.cost_usd is not None]
        return self.saved * sum(costs) / len(costs) if costs else None


def row_of(key: TrialKey, meta: TrialMeta) -> TrialRow:
    return TrialRow(
        key=key,
        outcome=meta.outcome,
        valid=meta.valid,
        composite_score=meta.composite_score,
        cost_usd=meta.all_attempts_cost_usd,
        last_cost_usd=meta.attempts[-1].cost_usd if meta.attempts else None,
        total_tokens=meta.total_tokens,
        duration_s=meta.duration_s,
        reason=meta.reason,
        attempts=len(meta.attempts),
        reused_from=meta.reused_from,
        retried=meta.retried,
    )
