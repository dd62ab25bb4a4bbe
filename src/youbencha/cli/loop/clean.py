"""`ralph clean`: remove what earlier loops left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.loop.clean import Leftover


def clean(
    older_than: Annotated[float, typer.Option(metavar="DAYS", min=0, help="Only what is older than this.")] = 7.0,
    everything: Annotated[
        bool, typer.Option("--all", help="All loops, and the scratchpad, tasks, memories and events, too.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove working trees that have changes which are not committed or merged.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; only --all and --force do.")] = False,
) -> int:
    """Remove what earlier loops left: their directories in .ralph, their checkpoints, and their working trees.

    A running loop is never touched, nor are the scratchpad, tasks and memories (except with --all). A working tree is
    removed only if its changes are committed and merged (except with --force).

    Example: `ralph clean --older-than 30`
    """
    from youbencha.cli.interrupts import run_async
    from youbencha.cli.options import confirm, settings_here
    from youbencha.loop.clean import Cleaning
    from youbencha.text import plural

    cleaning = Cleaning(Path.cwd(), 0 if everything else older_than, settings_here().cache_dir, force)
    found = run_async(cleaning.leftovers()) + (cleaning.agents_files() if everything else [])
    if not found:
        typer.echo("nothing to remove")
        return 0
    for each in found:
        typer.echo(f"{each.size_bytes / 1_000_000:9,.1f} MB  {each.what}")
    total = f"{plural(len(found), 'item')}, {sum(each.size_bytes for each in found) / 1_000_000:,.1f} MB"
    if dry_run:
        typer.echo(f"would remove {total}")
        return 0
    confirm(f"Remove {total}?", yes=yes or not (everything or force))
    kept = run_async(_remove(found))
    typer.echo(f"removed {total}" if not kept else f"removed {plural(len(found) - kept, 'item')}; {kept} kept")
    return 0 if not kept else 1


async def _remove(found: list[Leftover]) -> int:
    """Remove each, and return how many could not be removed."""
    kept = 0
    for each in found:
        try:
            await each.remove()
        except (YouBenchaError, OSError) as error:
            kept += 1
            typer.echo(f"kept {each.what}: {error}", err=True)
    return kept
