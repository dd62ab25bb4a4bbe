"""The options of `thunderdome run --until-decided`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.engine.matrix import Matrix
    from youbencha.store.arena import UntilDecided
    from youbencha.store.arena_run import ArenaRun

_DECIDED = "Until it is known which is better"

Decided = Annotated[
    bool,
    typer.Option(
        "--until-decided",
        help="Run pairs of trials until each orchestrator is better or worse than its baseline, or equivalent.",
        rich_help_panel=_DECIDED,
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        metavar="M",
        help="Differences of scores within plus or minus M are equivalent. Default: 0.05.",
        rich_help_panel=_DECIDED,
    ),
]
MaxTrials = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=2,
        help="End after N trials of all together. Default: 20 for each orchestrator and task.",
        rich_help_panel=_DECIDED,
    ),
]


class UntilOptions(NamedTuple):
    """When the run ends, if not after a fixed number of trials."""

    decided: bool = False
    margin: float | None = None
    max_trials: int | None = None

    def check(self, trials: int | None, *, resume: bool) -> None:
        """Raise if the options do not go together."""
        if self.margin is not None and not 0 < self.margin < 1:
            raise _invalid(f"--margin {self.margin:g} is not between 0 and 1.", None)
        if self.margin is not None and resume:
            hint = "Remove --margin: a verdict must not depend on results that are known."
            raise _invalid("--resume keeps the margin that the run began with.", hint)
        if self.decided and trials is not None:
            hint = "Use --max-trials, which limits the trials of the whole run."
            raise _invalid("--trials cannot be combined with --until-decided.", hint)
        if (self.margin is not None or self.max_trials is not None) and not (self.decided or resume):
            raise _invalid("--margin and --max-trials are for --until-decided.", "Add --until-decided.")

    def of_run(self, recorded: UntilDecided | None) -> UntilOptions:
        """Return what a run that is resumed began with."""
        if recorded is not None:
            return UntilOptions(True, recorded.margin, recorded.max_trials)
        if self.decided or self.max_trials is not None:
            hint = "Start a new run with --until-decided and --reuse, which takes over its results."
            raise _invalid("The run was begun without --until-decided.", hint)
        return UntilOptions()

    def plan(self, matrix: Matrix) -> Matrix:
        if not self.decided:
            return matrix
        from youbencha.engine.until_decided import plan_comparisons
        from youbencha.stats.comparison import MARGIN

        return plan_comparisons(matrix, margin=self.margin or MARGIN, max_trials=self.max_trials)

    def raise_limit(self, matrix: Matrix, run: ArenaRun) -> Matrix:
        """Continue a run with more trials than it began with, if more are given."""
        began = matrix.until_decided
        if began is None or self.max_trials is None:
            return matrix
        if self.max_trials < began.max_trials:
            raise _invalid(f"The run began with --max-trials {began.max_trials}, which can only be raised.", None)
        more = UntilOptions(True, began.margin, self.max_trials).plan(matrix)
        with run.locked():
            changed = {"trials": more.trials, "until_decided": more.until_decided}
            run.replace_info(run.info().model_copy(update=changed))
        return more


def _invalid(message: str, hint: str | None) -> YouBenchaError:
    return YouBenchaError("OPTION_INVALID", message, hint=hint)
