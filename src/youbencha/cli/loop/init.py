"""`ralph init`: write a first loop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_NEXT = """
Next:
  write the task into PROMPT.md
  ralph doctor           check that this machine has what the loop needs
  ralph run --dry-run    see what would happen
  ralph run              start it"""


def init(
    backend: Annotated[
        str, typer.Option("--backend", "-b", metavar="NAME", help="The agent: claude, codex, … or custom.")
    ] = "auto",
    preset: Annotated[str, typer.Option(metavar="NAME", help="What to begin with; see --list-presets.")] = "plain",
    list_presets: Annotated[bool, typer.Option("--list-presets", help="List the presets, and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing ralph.yml.")] = False,
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where to write.")] = Path(),
) -> int:
    """Write a ralph.yml and a PROMPT.md.

    Exit code 1 if a ralph.yml exists; then nothing is written, unless you give --force. A PROMPT.md is never
    overwritten.
    """
    from youbencha.cli.init import write_files
    from youbencha.loop.backends import AUTO, CUSTOM, known_backend
    from youbencha.loop.presets import PRESETS
    from youbencha.scaffold import begin_loop

    if list_presets:
        for name, description in PRESETS.items():
            typer.echo(f"{name:<18} {description}")
        return 0
    if backend not in (AUTO, CUSTOM):
        known_backend(backend)
    return write_files(lambda: begin_loop(directory, preset, backend, force=force), "LOOP_EXISTS", _NEXT)
