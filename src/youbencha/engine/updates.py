"""What a run of a matrix reports while it works, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from youbencha.events import Event
from youbencha.stats.model import DifferenceInterval, Verdict
from youbencha.store.arena import AttemptInfo, TrialKey, TrialMeta
from youbencha.text import first_few


class RunStarted(NamedTuple):
    trials: int
    """With `--until-decided`, at most."""
    finished: int
    """How many were finished before; they are not repeated."""
    warnings: tuple[str, ...] = ()


class AttemptStarted(NamedTuple):
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
    """None if it is not repeated."""


class TrialFinished(NamedTuple):
    meta: TrialMeta


class TrialsSkipped(NamedTuple):
    """Trials that are not started, and why."""

    orchestrator: str | None
    """None for all orchestrators whose work is validated in the same way."""
    task: str | None
    """None for all tasks."""
    reason: str

    @property
    def which(self) -> str:
        return " on ".join(name for name in (self.orchestrator or "any agent", self.task) if name)


class ComparisonState(NamedTuple):
    """The progress of a comparison in a run with `--until-decided`."""

    first: str
    second: str
    """The baseline."""
    rounds: int
    """How many are complete."""
    difference: float | None
    interval: DifferenceInterval
    """Valid at every look."""
    verdict: Verdict
    pairs: int
    """Pairs of two valid trials."""
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
    RunStarted
    | AttemptStarted
    | AttemptEvent
    | AttemptFailed
    | TrialFinished
    | TrialsSkipped
    | ComparisonState
    | Stopping
)
UpdateSink = Callable[[Update], None]


class MatrixSummary(NamedTuple):
    trials: int
    finished: tuple[TrialMeta, ...]
    """The finished trials, in the order of the run."""
    skipped: tuple[TrialsSkipped, ...] = ()
    stopped: str | None = None
    """Why the run ended before everything had run."""
    hint: str | None = None
    drained: bool = False
    """Whether Ctrl-C ended it."""
    spent_usd: float | None = None
    """On all attempts of this run, as far as it is known. None if nothing is."""
    comparisons: tuple[ComparisonState, ...] = ()
    """Set in a run with `--until-decided`."""
    max_trials: int | None = None
    """How many trials such a run could have had."""
    budget_spent: bool = False
    """Whether it was stopped by the budget of the run."""

    @property
    def complete(self) -> bool:
        return len(self.finished) == self.trials

    @property
    def not_valid(self) -> int:
        return sum(not meta.valid for meta in self.finished)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do: all trials ran, or those that the budget of comparisons allowed."""
        return self.complete or (bool(self.comparisons) and self.budget_spent)

    @property
    def saved(self) -> int:
        """Trials that were not needed, because every comparison was decided before."""
        decided = all(comparison.verdict != "undecided" for comparison in self.comparisons)
        own = sum(meta.reused_from is None for meta in self.finished)
        return self.max_trials - own if self.max_trials and decided else 0

    @property
    def saved_usd(self) -> float | None:
        """An estimate of what they would have cost."""
        known = (meta.all_attempts_cost_usd for meta in self.finished)
        costs = [cost for cost in known if cost is not None]
        return self.saved * sum(costs) / len(costs) if costs else None
