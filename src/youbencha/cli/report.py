"""`yb report`: write the results of a run in one of several formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from youbencha.report.formats import ReportFormat


def report(
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="A results.json, a run, or a workspace (then its newest run). Default: the newest run here.",
        ),
    ] = None,
    form: Annotated[
        ReportFormat, typer.Option("--format", "-f", help="markdown (or md), json, html or junit.")
    ] = ReportFormat.MARKDOWN,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Default: next to the results. `-` prints it.")
    ] = None,
    open_it: Annotated[
        bool, typer.Option("--open", help="Open it afterwards, with the system's default program.")
    ] = False,
) -> None:
    """Write a report about a run.

    Example: `yb report --from .youbencha-workspace --format html --open`
    """
    from youbencha.cli.options import workspaces_here
    from youbencha.report.formats import render_report, write_report
    from youbencha.report.loading import find_results, load_results, newest_results

    results_file = find_results(source) if source else newest_results(workspaces_here())
    bundle = load_results(results_file)
    if output == "-":
        typer.echo(render_report(bundle, form, results_file), nl=False)
        return
    written = write_report(bundle, form, results_file, Path(output) if output else None)
    typer.echo(written)
    if open_it:
        typer.launch(str(written))
