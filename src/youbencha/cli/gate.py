"""Options of the CI gate, and how its result is printed. Shared by `yb compare` and `thunderdome run`."""

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
        help="Exit with code 1 if an agent is worse than the one it is compared with, or not shown to be better.",
        rich_help_panel=_PANEL,
    ),
]
Measures = Annotated[
    list[Measure] | None,
    typer.Option(
        "--measure",
        help=f"What the gate judges by; can be repeated. Default: {' and '.join(DEFAULT_MEASURES)}.",
        rich_help_panel=_PANEL,
    ),
]


class GateOptions(NamedTuple):
    fail_if: Gate | None = None
    measures: tuple[Measure, ...] = ()

    def check(self) -> None:
        """Raise an error if an option is missing that another needs."""
        if self.measures and self.fail_if is None:
            raise YouBenchaError("OPTION_INVALID", "--measure needs --fail-if.", hint="Add --fail-if worse.")

    def check_comparisons(self, matrix: Matrix) -> None:
        """Raise an error before anything is spent if the gate would have nothing to judge."""
        if self.fail_if is not None and not matrix.baselines:
            raise YouBenchaError(
                "NOTHING_TO_COMPARE",
                "--fail-if judges orchestrators that have a baseline, and none of those selected has one.",
                hint="Set `baseline: NAME` in the arena, and select that orchestrator as well.",
            )

    def apply(self, report: ComparisonReport, command: str) -> GateResult | None:
        """Apply the gate, and print which measures failed, or that it passed and what could have gone unnoticed.

        In GitHub Actions, these lines are annotations.
        """
        from youbencha.report.gate import apply_gate
        from youbencha.report.summary import annotation, in_github_actions

        if self.fail_if is None:
            return None
        result = apply_gate(report, self.fail_if, self.measures)
        title, on_github = f"{command} --fail-if {self.fail_if}", in_github_actions()
        for kind, line in result.lines():
            typer.echo(annotation(kind, title, line) if on_github else f"{title}: {line}", err=True)
        return result
