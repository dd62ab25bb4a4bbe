"""The options of a gate in CI, and what it says. Shared by `yb compare` and `thunderdome run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from youbencha.errors import YouBenchaError
from youbencha.report.gate import DEFAULT_MEASURES, Gate, Measure

if TYPE_CHECKING:
    from youbencha.engine.matrix import Matrix
    from youbencha.report.comparison_model import ComparisonReport
    from youbencha.report.gate import GateResult

_PANEL = "A gate for CI"

FailIf = Annotated[
    Gate | None,
    typer.Option(
        "--fail-if",
        help="End with code 1 if it is worse than what it is compared with; or if it is not known to be better.",
        rich_help_panel=_PANEL,
    ),
]
Measures = Annotated[
    list[Measure] | None,
    typer.Option(
        "--measure",
        help=f"What decides; can be repeated. Default: {' and '.join(DEFAULT_MEASURES)}.",
        rich_help_panel=_PANEL,
    ),
]


class GateOptions(NamedTuple):
    fails_if: Gate | None = None
    measures: tuple[Measure, ...] = ()

    def check(self) -> None:
        """Raise if the options do not go together."""
        if self.measures and self.fails_if is None:
            raise YouBenchaError("OPTION_INVALID", "--measure is for --fail-if.", hint="Add --fail-if worse.")

    def check_comparisons(self, matrix: Matrix) -> None:
        """Raise before anything is spent if there is nothing that the gate could judge."""
        if self.fails_if is not None and not matrix.baselines:
            raise YouBenchaError(
                "NOTHING_TO_COMPARE",
                "--fail-if judges orchestrators that have a baseline, and none of those selected has one.",
                hint="Name it in the arena (`baseline: NAME`), and select it, too.",
            )

    def apply(self, report: ComparisonReport, command: str) -> GateResult | None:
        """Decide, and say by which measure it failed; or that it passed, and what could have gone unnoticed.

        In GitHub Actions, these lines are annotations.
        """
        from youbencha.report.gate import apply_gate
        from youbencha.report.summary import annotation, in_github_actions

        if self.fails_if is None:
            return None
        result = apply_gate(report, self.fails_if, self.measures)
        title, on_github = f"{command} --fail-if {self.fails_if}", in_github_actions()
        for kind, line in result.lines():
            typer.echo(annotation(kind, title, line) if on_github else f"{title}: {line}", err=True)
        return result
