"""`yb init`: write a first test case."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from youbencha.scaffold import FileResult

_NEXT = """
Next:
  yb doctor                       check that this machine has what a run needs
  yb validate -c testcase.yaml    check the test case
  yb run -c testcase.yaml         run it"""


def init(
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where to write.")] = Path(),
) -> int:
    """Write a commented testcase.yaml, and the judge's definition for Claude Code and Copilot.

    Exit code 1 if a testcase.yaml exists; then nothing is written, unless you give --force.
    """
    from youbencha.cli.interrupts import run_async
    from youbencha.scaffold import begin_project

    return write_files(lambda: run_async(begin_project(directory, force=force)), "TESTCASE_EXISTS", _NEXT)


def write_files(write: Callable[[], Sequence[FileResult]], exists: str, what_next: str) -> int:
    """Write files, print what became of each, and return the exit code: 1 for an error with the code `exists`."""
    try:
        results = write()
    except YouBenchaError as error:
        if error.code != exists:
            raise
        typer.echo(f"error [{error.code}] {error.message}\nhint  {error.hint}", err=True)
        return 1
    code = show_files(results)
    if code == 0:
        typer.echo(what_next)
    return code


def show_files(results: Sequence[FileResult]) -> int:
    """Print one line for each file, and return the exit code."""
    for result in results:
        reason = f"  ({result.reason})" if result.reason else ""
        typer.echo(f"{result.action:<12} {result.path.as_posix()}{reason}", err=result.action == "error")
    return int(any(result.action == "error" for result in results))
