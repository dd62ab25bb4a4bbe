"""`yb runs`: list the runs in the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from youbencha.errors import YouBenchaError


def runs(
    last: Annotated[int, typer.Option("--last", "-n", metavar="N", min=1, help="How many, the newest first.")] = 20,
    workspace_dir: Annotated[Path | None, typer.Option(help="Where the runs are.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the runs in the workspace, the newest first: verdict, agent, model, tokens, cost.

    Example: `yb runs -n 5`
    """
    from youbencha.report.history import as_data, past_runs, table

    roots = _workspaces(workspace_dir)
    found = past_runs(roots, last)
    if as_json:
        import json

        typer.echo(json.dumps([as_data(run) for run in found], indent=2))
    elif found:
        typer.echo("\n".join(table(found)))
    else:
        typer.echo(f"no runs in {' or '.join(map(str, roots))}")


def _workspaces(given: Path | None) -> list[Path]:
    """The given workspace; else those of `yb run` and `yb eval`."""
    if given is None:
        from youbencha.cli.options import settings_here

        settings = settings_here()
        return [settings.workspace_dir, settings.output_dir]
    if not given.is_dir():
        raise YouBenchaError("WORKSPACE_NOT_FOUND", f"There is no directory {given}.", hint="Check --workspace-dir.")
    return [given]
