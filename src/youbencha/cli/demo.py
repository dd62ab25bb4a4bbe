"""`yb demo`: a complete run without a key."""

from __future__ import annotations

import shlex
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer


def demo(
    workspace: Annotated[Path, typer.Option(help="Where the demo's directory is created.", show_default=True)] = Path(
        ".youbencha-workspace"
    ),
) -> int:
    """Watch the real Claude Code CLI fix a bug, with a scripted model. Needs no API key.

    The first run downloads the CLI into the toolbox (about 160 MB).
    """
    from youbencha.cli.console import StepPrinter, show_partial_results, show_result
    from youbencha.cli.display import choose_display
    from youbencha.cli.interrupts import run_async
    from youbencha.demo import prepare_demo, run_demo
    from youbencha.events import ProgressNote
    from youbencha.files import DIFF_FILE

    directory = workspace.resolve() / f"demo-{datetime.now():%Y-%m-%d-%H%M%S-%f}"
    with show_partial_results(choose_display("demo · claude-code", quiet=False)) as display:
        progress = StepPrinter(lambda line: display(ProgressNote(text=line)))
        prepared = run_async(prepare_demo(directory, progress=progress))
        finished = run_async(run_demo(prepared, on_event=display))
    _show_diff((finished.directory.artifacts / DIFF_FILE).read_text(encoding="utf-8", errors="replace"))
    code = show_result(finished.bundle, finished.directory.artifacts, as_json=False, quiet=False)
    typer.echo(_what_next(prepared.test_case, finished.directory.path.parent))
    return code


def _what_next(test_case: Path, workspace: Path) -> str:
    yb = _as_typed()
    return (
        f"\nThe test case  {_from_here(test_case)}"
        f"\nThe report     {yb} report --from {shlex.quote(_from_here(workspace))} --format html --open"
        f"\nYour own       {yb} init, then {yb} run -c testcase.yaml"
    )


def _as_typed() -> str:
    """The command to type: after `make demo`, `yb` is not on PATH."""
    return "yb" if shutil.which("yb") else shlex.quote(_from_here(Path(sys.argv[0]).absolute()))


def _from_here(path: Path) -> str:
    """A relative path if possible: the full one takes two lines of a terminal."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _show_diff(diff: str) -> None:
    if not sys.stdout.isatty():
        typer.echo(f"{diff.strip()}\n")
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console(highlight=False).print(Syntax(diff.strip(), "diff", theme="ansi_dark"), "")
