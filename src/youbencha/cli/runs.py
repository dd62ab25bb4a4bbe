"""`yb runs`: list the runs in the workspace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from youbencha.cli.screen import width_of
from youbencha.errors import YouBenchaError
from youbencha.text import plural


def runs(
    last: Annotated[int, typer.Option("--last", "-n", metavar="N", min=1, help="How many, the newest first.")] = 20,
    workspace_dir: Annotated[Path | None, typer.Option(help="Where the runs are.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the runs in the workspace, the newest first: verdict, agent, model, tokens, cost.

    Example: `yb runs -n 5`
    """
    from youbencha.cli.options import workspaces_here
    from youbencha.report.arena_loading import all_runs
    from youbencha.report.history import as_data, past_runs, runs_table
    from youbencha.store.layout import BENCH_DIR

    if workspace_dir is not None and not workspace_dir.is_dir():
        message = f"There is no directory {workspace_dir}."
        raise YouBenchaError("WORKSPACE_NOT_FOUND", message, hint="Check --workspace-dir.")
    roots = [workspace_dir] if workspace_dir else workspaces_here()
    found = past_runs(roots, last)
    if as_json:
        import json

        typer.echo(json.dumps([as_data(run) for run in found], indent=2))
        return
    many = [run for root in roots for run in all_runs(root / BENCH_DIR)]
    if found:
        typer.echo(runs_table(found, width_of(sys.stdout)))
    elif not many:
        typer.echo(f"no runs in {' or '.join(map(str, roots))}")
    if many:
        typer.echo(f"{plural(len(many), 'run')} of several trials; the newest: `yb report --from {many[-1]} -o -`")
