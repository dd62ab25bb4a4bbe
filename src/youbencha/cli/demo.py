"""`yb demo`: a complete run without a key."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer


def demo(
    workspace_dir: Annotated[
        Path | None, typer.Option(help="Where the run is stored. Default: as for `yb run`.")
    ] = None,
    loop: Annotated[bool, typer.Option("--loop", help="Show a loop (`ralph run`) instead.")] = False,
) -> int:
    """Watch the real Claude Code CLI fix a bug, with a scripted model. Needs no API key.

    The first run downloads the CLI into the toolbox (about 160 MB).
    """
    if loop:
        return _demo_loop()
    from youbencha.cli.console import StepPrinter, show_partial_results, show_result
    from youbencha.cli.display import choose_display
    from youbencha.cli.interrupts import run_async
    from youbencha.cli.options import settings_here
    from youbencha.demo import TEST_CASE, prepare_demo, run_demo
    from youbencha.events import ProgressNote
    from youbencha.store.layout import DIFF_FILE

    root = workspace_dir or settings_here().workspace_dir
    with (
        TemporaryDirectory(prefix="youbencha-demo-", ignore_cleanup_errors=True) as temporary,
        show_partial_results(choose_display("demo · claude-code", quiet=False)) as display,
    ):
        progress = StepPrinter(lambda line: display(ProgressNote(text=line)))
        prepared = run_async(prepare_demo(Path(temporary).resolve(), progress=progress))
        finished = run_async(run_demo(prepared, root.resolve(), on_event=display))
    _show_diff((finished.directory.artifacts / DIFF_FILE).read_text(encoding="utf-8", errors="replace"))
    code = show_result(finished.bundle, finished.directory.artifacts, as_json=False, quiet=False)
    typer.echo(_what_next(TEST_CASE, workspace_dir))
    return code


def _demo_loop() -> int:
    """Run the loop in a temporary repository, and show what it changed."""
    from youbencha.cli.console import StepPrinter
    from youbencha.cli.interrupts import run_async
    from youbencha.cli.loop.display import choose_loop_display
    from youbencha.demo import LOOP, prepare_demo, run_loop_demo
    from youbencha.events import ProgressNote
    from youbencha.store.loops import EXIT_CODES
    from youbencha.workspace.checkpoints import Checkpoints

    with TemporaryDirectory(prefix="youbencha-demo-", ignore_cleanup_errors=True) as temporary:
        with choose_loop_display(as_json=False, quiet=False) as display:
            progress = StepPrinter(lambda line: display(ProgressNote(text=line)))
            prepared = run_async(prepare_demo(Path(temporary).resolve(), progress=progress))
            state = run_async(run_loop_demo(prepared, on_event=display))
        checkpoints = run_async(Checkpoints.open(prepared.repository, state.loop_id))
        typer.echo()
        _show_diff(run_async(checkpoints.diff(0)))
        checkpoints.close()
    typer.echo(
        f"The loop       {_from_here(LOOP)}\nYour own       {_as_typed('ralph')} init, then {_as_typed('ralph')} run"
    )
    assert state.outcome is not None
    return EXIT_CODES[state.outcome]


def _what_next(test_case: Path, workspace: Path | None) -> str:
    yb = _as_typed("yb")
    source = f" --from {shlex.quote(str(workspace))}" if workspace else ""
    return (
        f"\nThe test case  {_from_here(test_case)}"
        f"\nThe report     {yb} report{source} --format html --open"
        f"\nYour own       {yb} init, then {yb} run -c testcase.yaml"
    )


def _as_typed(command: str) -> str:
    """The command to type: after `make demo`, it is not on PATH."""
    here = Path(sys.argv[0]).absolute().with_name(command)
    return command if shutil.which(command) else shlex.quote(_from_here(here))


def _from_here(path: Path) -> str:
    """A relative path if possible: the full one takes two lines of a terminal."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _show_diff(diff: str) -> None:
    from youbencha.cli.screen import console_on, is_plain

    if is_plain(sys.stdout):
        typer.echo(f"{diff.strip()}\n")
        return
    from rich.syntax import Syntax

    console_on(sys.stdout).print(Syntax(diff.strip(), "diff", theme="ansi_dark"), "")
