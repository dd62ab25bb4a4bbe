"""`yb prune`: remove old runs from a workspace, and containers and private directories of dead runs."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from youbencha.errors import YouBenchaError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def prune(
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Remove runs older than this: 30m, 12h, 7d, 2w.")
    ] = None,
    keep: Annotated[int | None, typer.Option(metavar="N", min=0, help="Keep the newest N runs.")] = None,
    sources_only: Annotated[
        bool, typer.Option("--sources-only", help="Remove only the agents' files, and keep the results.")
    ] = False,
    workspace_dir: Annotated[Path | None, typer.Option(help="Where the runs are.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Remove old runs, and what crashed runs left elsewhere. Runs in progress are never touched.

    Without --older-than and --keep: everything older than 7 days.

    Example: `yb prune --keep 20`
    """
    from youbencha.cli.options import confirm, settings_here
    from youbencha.store.prune import old_runs, remove_run
    from youbencha.text import plural

    _reap(dry_run=dry_run)
    root = workspace_dir or settings_here().workspace_dir
    cleared = _clear(root, dry_run=dry_run)
    age = _age(older_than) if older_than else (timedelta(days=7) if keep is None else None)
    runs = [run for run in old_runs(root, older_than=age, keep=keep) if not run.in_use]
    if not runs:
        typer.echo(f"nothing to remove in {root}")
        return 0 if cleared else 2
    for run in runs:
        state = "" if run.complete else "  (without results)"
        typer.echo(f"{run.created_at:%Y-%m-%d %H:%M}  {run.size_bytes / 1_000_000:9,.1f} MB  {run.path.name}{state}")
    total = f"{sum(run.size_bytes for run in runs) / 1_000_000:,.1f} MB"
    what = "the agents' files of " if sources_only else ""
    if dry_run:
        typer.echo(f"would remove {what}{plural(len(runs), 'run')}, {total}")
        return 0
    confirm(f"Remove {what}{plural(len(runs), 'run')} ({total})?", yes=yes)
    kept = 0
    for run in runs:
        try:
            remove_run(run, sources_only=sources_only)
        except (YouBenchaError, OSError) as error:
            kept += 1
            typer.echo(f"kept {run.path.name}: {error}", err=True)
    typer.echo(
        f"removed {what}{plural(len(runs) - kept, 'run')}"
        + (f", {total}" if not kept else f"; {kept} could not be removed")
    )
    return 0 if cleared and not kept else 2


def _reap(*, dry_run: bool) -> None:
    """Remove the containers of dead runs without asking: they contain nothing of value."""
    from youbencha.cli.interrupts import run_async
    from youbencha.sandbox.docker.ownership import reap_containers

    reaped = run_async(reap_containers(dry_run=dry_run))
    for name in reaped.names:
        typer.echo(f"{'would remove' if dry_run else 'removed'} the container {name} of a crashed run")


def _clear(root: Path, *, dry_run: bool) -> bool:
    """Remove the private directories of dead runs without asking: they contain nothing of value.

    Return whether none of them is left.
    """
    from youbencha.store.prune import orphaned_directories, remove_orphaned

    all_removed = True
    for run, directories in orphaned_directories(root).items():
        what = f"the files of the crashed run {run.name} in {directories[0].parent}"
        try:
            if dry_run:
                typer.echo(f"would remove {what}")
            elif remove_orphaned(run, directories):
                typer.echo(f"removed {what}")
        except YouBenchaError as error:
            all_removed = False
            typer.echo(f"kept {what}: {error}", err=True)
    return all_removed


def _age(written: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([mhdw])", written.strip())
    if not found:
        raise YouBenchaError("AGE_INVALID", f"--older-than {written}: not an age", hint="Write 30m, 12h, 7d or 2w.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
