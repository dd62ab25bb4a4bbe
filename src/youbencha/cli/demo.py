"""`yb demo`: see the whole thing work, without a key."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer


def demo(
    workspace: Annotated[Path, typer.Option(help="Where the demo's directory is made.", show_default=True)] = Path(
        ".youbencha-workspace"
    ),
) -> int:
    """Let the real Claude Code CLI mend a bug, with a scripted model behind it. Needs no API key.

    The first time, the CLI is fetched into the toolbox (about 160 MB).
    """
    from youbencha.cli.asynchronous import run_async
    from youbencha.cli.display import choose_display
    from youbencha.cli.run import conclude, telling_where
    from youbencha.demo import prepare_demo, run_demo
    from youbencha.events import Noted

    directory = workspace.resolve() / f"demo-{datetime.now():%Y-%m-%d-%H%M%S-%f}"
    with telling_where(choose_display("demo · claude-code", quiet=False)) as display:
        prepared = run_async(prepare_demo(directory, progress=lambda text: display(Noted(text=text))))
        finished = run_async(run_demo(prepared, on_event=display))
    _show_diff((finished.directory.artifacts / "git-diff.patch").read_text(encoding="utf-8", errors="replace"))
    code = conclude(finished.bundle, finished.directory.artifacts, as_json=False, quiet=False)
    typer.echo(_what_next(prepared.test_case, finished.directory.path))
    return code


def _what_next(test_case: Path, run: Path) -> str:
    return (
        f"\nThe test case  {_from_here(test_case)}"
        f"\nA closer look  yb report --from {shlex.quote(_from_here(run))} --format html --open"
        "\nNow yours      yb init, then yb run -c testcase.yaml"
    )


def _from_here(path: Path) -> str:
    """Short, where it can be: in full it takes two lines of a terminal."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _show_diff(diff: str) -> None:
    if not sys.stdout.isatty():
        typer.echo(f"{diff.strip()}\n")
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console(highlight=False).print(Syntax(diff.strip(), "diff", theme="ansi_dark"), "")
