"""`yb runs`: what was run here, and how it went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def runs(
    last: Annotated[int, typer.Option("--last", "-n", metavar="N", min=1, help="How many, the newest first.")] = 20,
    workspace_dir: Annotated[Path | None, typer.Option(help="Where the runs are.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the runs in the workspace, the newest first: verdict, agent, model, tokens, cost.

    Example: `yb runs -n 5`
    """
    from youbencha.cli.settings import settings_here
    from youbencha.report.past import as_data, past_runs, table

    root = workspace_dir or settings_here().workspace_dir
    found = past_runs(root, last)
    if as_json:
        import json

        typer.echo(json.dumps([as_data(run) for run in found], indent=2))
    elif found:
        typer.echo("\n".join(table(found)))
    else:
        typer.echo(f"no runs in {root}")
