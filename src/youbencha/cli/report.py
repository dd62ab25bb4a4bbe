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
            help="A results.json, a run of one or many trials, or a workspace (then its newest run). Default: the "
            "newest run here.",
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
    from youbencha.store.locate import find_matrix, find_results, newest_results
    from youbencha.store.read import load_results

    workspaces = [] if source else workspaces_here()
    if (matrix := find_matrix(source, workspaces)) is not None:
        _report_matrix(matrix, form, output, open_it=open_it)
        return
    results_file = find_results(source) if source else newest_results(workspaces)
    bundle = load_results(results_file)
    if output == "-":
        typer.echo(render_report(bundle, form, results_file, Path.cwd()), nl=False)
        return
    written = write_report(bundle, form, results_file, Path(output) if output else None)
    typer.echo(written)
    if open_it:
        typer.launch(str(written))


def _report_matrix(run: Path, form: ReportFormat, output: str | None, *, open_it: bool) -> None:
    from youbencha.report.formats import write_next_to_results, write_text

    target = Path(output) if output else run / form.file_name
    if output and target.is_dir():
        target /= form.file_name
    text = _matrix_text(run, form, base=target.absolute().parent)
    if output == "-":
        typer.echo(text, nl=False)
        return
    if output:
        write_text(target, text)
    else:
        write_next_to_results(target, text)
    typer.echo(target)
    if open_it:
        typer.launch(str(target))


def _matrix_text(run: Path, form: ReportFormat, *, base: Path) -> str:
    from youbencha.report.comparison import with_baselines
    from youbencha.report.leaderboard import make_leaderboard
    from youbencha.report.leaderboard_document import Grouping
    from youbencha.report.leaderboard_formats import ArenaFormat, render_leaderboard
    from youbencha.store.read import load_runs

    kind, loaded = ArenaFormat.MARKDOWN if form is ReportFormat.MD else ArenaFormat(form.value), load_runs([run])
    board = with_baselines(make_leaderboard(loaded), loaded)
    return render_leaderboard(board, kind, Grouping.TASK, width=0, base=base)
