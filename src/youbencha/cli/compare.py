"""`yb compare` and `thunderdome compare`: is one agent better than another?"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli import CANNOT_RUN, options
from youbencha.cli.arena.report import Exclude, Output, results_dir
from youbencha.cli.console import NOT_PASSED
from youbencha.cli.gate import FailIf, GateOptions, Measures
from youbencha.cli.screen import width_of
from youbencha.report.comparison_formats import ComparisonFormat

if TYPE_CHECKING:
    from youbencha.report.comparison_model import ComparisonReport

_WHAT = "An orchestrator or variant of the latest run, a RUN (its directory, its name or the start of it), or RUN:NAME."


def compare(
    first: Annotated[str | None, typer.Argument(metavar="A", help=_WHAT)] = None,
    second: Annotated[
        str | None, typer.Argument(metavar="B", help="What to compare it with. Default: its baseline.")
    ] = None,
    form: Annotated[ComparisonFormat, typer.Option("--format", "-f", help="The format.")] = ComparisonFormat.TABLE,
    output: Output = None,
    margin: Annotated[
        float | None,
        typer.Option(metavar="M", help="Scores that differ by at most this are equivalent. Default: 0.05."),
    ] = None,
    fail_if: FailIf = None,
    measure: Measures = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a JUnit report, too.")] = None,
    exclude: Exclude = None,
    results: options.ResultsDir = None,
    config: options.ArenaFile = options.ARENA_FILE,
) -> int:
    """Tell whether A is better than B, by how much, and how sure that is.

    Without B, A is compared with its baseline; without both, everything in the latest run with its baseline.

    Exit code 0: compared · 1: the `--fail-if` gate failed · 2: could not be compared, or a `--measure` has no data.

    Example: `yb compare claude-code+tdd claude-code --fail-if worse`
    """
    from youbencha.report.comparison import make_comparison
    from youbencha.report.comparison_formats import render_comparison_junit
    from youbencha.report.contestants import find_pairs
    from youbencha.report.formats import write_text

    gate = GateOptions(fail_if, tuple(measure or ()))
    gate.check()
    found = find_pairs(_results_dir(results, config), first, second)
    report = make_comparison(found, exclude or (), margin=margin)
    _show(report, form, output)
    _show_on_github(report)
    gated = gate.apply(report, "yb compare")
    if junit is not None:
        write_text(junit, render_comparison_junit(report, gated))
    if any(pair.difference.estimate is None for pair in report.comparisons) or (gated and gated.unknown):
        return CANNOT_RUN
    return NOT_PASSED if gated and gated.failed else 0


def _results_dir(results: Path | None, config: Path) -> Path:
    """As for `thunderdome report`; if there is no arena here, the results of `yb run` with many trials."""
    from youbencha.store.layout import BENCH_DIR

    directory = results_dir(results, config)
    if results is not None or directory.is_dir():
        return directory
    places = (workspace / BENCH_DIR for workspace in options.workspaces_here())
    return next((place for place in places if place.is_dir()), directory)


def _show(report: ComparisonReport, form: ComparisonFormat, output: Path | None) -> None:
    from youbencha.report.comparison_formats import render_comparison
    from youbencha.report.formats import write_text

    base = output.absolute().parent if output else Path.cwd()
    text = render_comparison(report, form, width=width_of(None if output else sys.stdout), base=base)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(output)


def _show_on_github(report: ComparisonReport) -> None:
    if "GITHUB_STEP_SUMMARY" in os.environ:
        from youbencha.report.comparison_document import comparison_document
        from youbencha.report.markdown import render_markdown
        from youbencha.report.summary import write_step_summary

        write_step_summary(render_markdown(comparison_document(report, None, details=True)))
