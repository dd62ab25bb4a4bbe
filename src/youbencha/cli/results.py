"""`yb report`: write the results of a run in one of several formats."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from youbencha.cli.options import workspaces_here
from youbencha.cli.terminal import terminal_width
from youbencha.errors import YouBenchaError
from youbencha.report.comparison import with_baselines
from youbencha.report.formats import ReportFormat, render_report, write_next_to_results, write_report, write_text
from youbencha.report.leaderboard import make_leaderboard
from youbencha.report.leaderboard_document import Grouping
from youbencha.report.leaderboard_formats import ArenaFormat, render_leaderboard
from youbencha.store.index import RunSummary, Store
from youbencha.store.layout import BENCH_DIR
from youbencha.store.locate import arena_runs, find_matrix, find_results, newest_results
from youbencha.store.read import load_results, load_runs
from youbencha.text import UNKNOWN, format_count, format_duration, format_usd, one_line, plural, table


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
        ReportFormat, typer.Option("--format", "-f", help="Output format: markdown (or md), json, html or junit.")
    ] = ReportFormat.MARKDOWN,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file; `-` prints it. Default: next to the results."
        ),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the report with the system's default program.")] = False,
) -> None:
    """Write a report about a run.

    Example: `yb report --from .youbencha-workspace --format html --open`
    """
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
    kind, loaded = ArenaFormat.MARKDOWN if form is ReportFormat.MD else ArenaFormat(form.value), load_runs([run])
    board = with_baselines(make_leaderboard(loaded), loaded)
    return render_leaderboard(board, kind, Grouping.TASK, width=0, base=base)


N = TypeVar("N", int, float)
_COLUMNS = ("BEGAN", "VERDICT", "OUTCOME", "TEST CASE", "AGENT", "MODEL", "TOKENS", "COST", "TIME", "RUN")
_TO_THE_RIGHT = ("TOKENS", "COST", "TIME")
_DROPPED_FIRST = ("MODEL", "BEGAN", "AGENT", "OUTCOME", "TOKENS", "TIME", "COST", "TEST CASE")
"""The columns that a narrow terminal does without, in this order. The name of a run says when it began."""
_MAX_CELL = 40
_MAX_FIGURE = 10**15
"""Larger numbers are not shown: a results file may contain anything."""


def runs(
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="N", min=1, help="Show at most N runs, newest first.")
    ] = 20,
    workspace_dir: Annotated[Path | None, typer.Option(help="The workspace that contains the runs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs in the workspace, the newest first: verdict, agent, model, tokens, cost.

    Example: `yb runs -n 5`
    """
    if workspace_dir is not None and not workspace_dir.is_dir():
        message = f"There is no directory {workspace_dir}."
        raise YouBenchaError("WORKSPACE_NOT_FOUND", message, hint="Check --workspace-dir.")
    roots = [workspace_dir] if workspace_dir else workspaces_here()
    summaries = Store(roots).summaries(last, ("run",))
    if as_json:
        typer.echo(json.dumps([_as_data(summary) for summary in summaries], indent=2))
        return
    matrices = [run for root in roots for run in arena_runs(root / BENCH_DIR)]
    if summaries:
        typer.echo(_runs_table(summaries, terminal_width(sys.stdout)))
    elif not matrices:
        typer.echo(f"no runs in {' or '.join(map(str, roots))}")
    if matrices:
        newest = matrices[-1]
        typer.echo(f"{plural(len(matrices), 'run')} of several trials; the newest: `yb report --from {newest} -o -`")


def _as_data(summary: RunSummary) -> dict[str, Any]:
    """Return a run as JSON data. Unknown is null."""
    return {
        "run": summary.run.name,
        "path": str(summary.run.path),
        "began": summary.began.isoformat(timespec="seconds"),
        "state": summary.state,
        "outcome": summary.outcome,
        "valid": summary.valid,
        "test_case": summary.title,
        "agent": summary.agent,
        "agent_version": summary.agent_version,
        "model": summary.model,
        "total_tokens": _figure(summary.total_tokens),
        "cost_usd": _figure(summary.cost_usd),
        "partial": summary.partial,
        "duration_ms": _figure(summary.duration_ms),
    }


def _runs_table(summaries: Sequence[RunSummary], width: int) -> str:
    """Format a table. The name of a run, which users copy, is last."""
    return table(_COLUMNS, map(_row, summaries), width=width, right=_TO_THE_RIGHT, drop=_DROPPED_FIRST)


def _row(summary: RunSummary) -> tuple[str, ...]:
    outcome = (summary.outcome or "").replace("_", " ")
    words = (outcome, summary.title or "", summary.agent or "", summary.model or "")
    figures = (format_count(_figure(summary.total_tokens)), format_usd(_figure(summary.cost_usd)))
    at_least = "≥ " if summary.partial else ""
    return (
        f"{summary.began:%Y-%m-%d %H:%M}",
        summary.state,
        *(one_line(word, _MAX_CELL) or "-" for word in words),
        *("-" if figure == UNKNOWN else at_least + figure for figure in figures),
        format_duration(_figure(summary.duration_ms)).replace(UNKNOWN, "-"),
        one_line(summary.run.name, 4096),
    )


def _figure(number: N | None) -> N | None:
    return number if number is not None and abs(number) < _MAX_FIGURE else None
