"""`ralph diff` and `ralph restore`: what a loop has changed, and how the files were before."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from youbencha.cli.options import confirm
from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.workspace.checkpoints import Checkpoint, Checkpoints, PatchStyle

Result = TypeVar("Result")
_MOST_LISTED = 50

Loop = Annotated[str | None, typer.Option("--loop", metavar="ID", help="Which loop. Default: the latest here.")]


def diff(
    since: Annotated[str, typer.Argument(metavar="[N]", help="Since this checkpoint; 0 is before the loop.")] = "0",
    until: Annotated[
        str | None, typer.Argument(metavar="[M]", help="Until this one. Default: the files as they are now.")
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Only the files, and how many lines changed.")] = False,
    loop: Loop = None,
) -> int:
    """Show what the loop has changed since an iteration.

    If the output is not a terminal, it is a complete patch for `git apply`.

    Example: `ralph diff 3`
    """
    from youbencha.cli.options import settings_here
    from youbencha.text import visible

    to_terminal = sys.stdout.isatty()
    style: PatchStyle = "stat" if stat else "shown" if to_terminal else "exact"
    cache_dir = settings_here().cache_dir
    patch = _ask(_chosen(loop), cache_dir, lambda checkpoints: checkpoints.patch(since, until, style=style))
    if to_terminal:
        typer.echo(visible(patch.decode("utf-8", "replace")))
    else:
        sys.stdout.buffer.write(patch)
    return 0


def restore(
    name: Annotated[
        str | None, typer.Argument(metavar="[N]", help="The checkpoint. Without it, all of them are listed.")
    ] = None,
    loop: Loop = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Make the files as they were after an iteration (0: before the loop).

    Files that did not exist then are removed, except ignored ones. How the files are now is kept as a checkpoint first,
    so that you can go back. Your branch, index and stash do not change.

    Example: `ralph restore 3`
    """
    from youbencha.cli.options import settings_here
    from youbencha.store.loop_lock import loop_lock
    from youbencha.text import listed, plural, shown

    chosen, cache_dir = _chosen(loop), settings_here().cache_dir
    if name is None:
        return _list(chosen, cache_dir)
    with loop_lock(Path.cwd(), f"ralph restore {name}", cache_dir):
        paths, missing = _ask(chosen, cache_dir, lambda checkpoints: _preview(checkpoints, name))
        if missing:
            typer.echo(f"warning  not in the checkpoint, too large or not readable then: {listed(missing)}", err=True)
        if not paths:
            typer.echo(f"The files are as they were at checkpoint {name}.")
            return 0
        for path in paths[:_MOST_LISTED]:
            typer.echo(f"  {shown(path)}")
        if len(paths) > _MOST_LISTED:
            typer.echo(f"  and {len(paths) - _MOST_LISTED} more")
        confirm(f"Restore {plural(len(paths), 'file')} to checkpoint {name} of the loop {chosen}?", yes=yes)
        restored = _ask(chosen, cache_dir, lambda checkpoints: checkpoints.restore(name))
    typer.echo(f"restored {plural(len(restored.paths), 'file')}; `ralph restore {restored.kept_as}` undoes this")
    return 0


async def _preview(checkpoints: Checkpoints, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that would be restored, and those that cannot be."""
    return await checkpoints.changes(name), await checkpoints.missing(name)


def _list(loop: str, cache_dir: Path | None) -> int:
    from youbencha.text import plural

    async def listed(checkpoints: Checkpoints) -> tuple[list[Checkpoint], list[str]]:
        return await checkpoints.list(), [name for name in checkpoints.names if not name.isdecimal()]

    numbered, others = _ask(loop, cache_dir, listed)
    typer.echo(f"Checkpoints of the loop {loop}:")
    for each in numbered:
        what = plural(each.files_changed, "file") + " changed" if each.number else "before the loop"
        typer.echo(f"{each.number:>5}  {each.commit[:12]}  {what}")
    for name in others:
        typer.echo(f"       {name}")
    return 0


def _chosen(loop: str | None) -> str:
    """The loop that was named, or the latest in this directory."""
    from youbencha.store.loops import loop_ids
    from youbencha.workspace.checkpoints import loops_with_checkpoints

    known = loops_with_checkpoints(Path.cwd())
    if loop is not None and loop in known:
        return loop
    here = sorted(set(loop_ids(Path.cwd())) & set(known))
    if loop is None and here:
        return here[-1]
    what = f"The loop {loop} has no checkpoints." if loop else f"No loop in {Path.cwd()} has checkpoints."
    hint = "`ralph run` takes them, if the directory is in a git repository."
    if known:
        hint = f"Loops with checkpoints in this repository: {', '.join(known[-5:])}. Name one with --loop."
    raise YouBenchaError("NO_CHECKPOINTS", what, hint=hint)


def _ask(loop: str, cache_dir: Path | None, call: Callable[[Checkpoints], Awaitable[Result]]) -> Result:
    """Open the checkpoints of a loop for one call."""
    from youbencha.cli.interrupts import run_async
    from youbencha.workspace.checkpoints import Checkpoints

    async def work() -> Result:
        with closing(await Checkpoints.open(Path.cwd(), loop, cache_dir=cache_dir)) as checkpoints:
            return await call(checkpoints)

    return run_async(work())
