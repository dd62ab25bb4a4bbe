"""Print the steps of a long operation and the result of a run, and wrap long lines."""

from __future__ import annotations

import math
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from youbencha.cli.screen import console_on, width_of
from youbencha.progress import step_text

if TYPE_CHECKING:
    from youbencha.cli.display import Display
    from youbencha.progress import StepProgress
    from youbencha.store.bundle import ResultsBundle


NOT_PASSED = 1
_REPEAT_AFTER_S = 10.0

_LEAST_ROOM = 16
"""With less room for text, lines are not wrapped."""

_STYLES = {"passed": "bold green", "failed": "bold red", "partial": "bold yellow", "skipped": "yellow"}


@contextmanager
def show_partial_results(display: Display) -> Iterator[Display]:
    """Print where the results so far are if the run is interrupted."""
    try:
        with display:
            yield display
    except KeyboardInterrupt:
        if display.progress.directory is not None:
            typer.echo(f"interrupted; results so far: {display.progress.directory}", err=True)
        raise


def show_result(bundle: ResultsBundle, artifacts: Path, *, as_json: bool, quiet: bool) -> int:
    """Show the result on the terminal, as JSON or on GitHub, and return the exit code."""
    _show_on_github(bundle, artifacts)
    try:
        _print_result(bundle, artifacts, as_json=as_json, quiet=quiet)
    except (OSError, ValueError) as error:  # a closed pipe or a full disk does not change the verdict
        if not isinstance(error, BrokenPipeError):
            with suppress(OSError, ValueError):
                typer.echo(f"warning: the result could not be printed ({error}); it is in {artifacts}", err=True)
    return 0 if bundle.summary.overall_status == "passed" else NOT_PASSED


def _print_result(bundle: ResultsBundle, artifacts: Path, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        from youbencha.report.formats import render_json

        typer.echo(render_json(bundle), nl=False)
    elif quiet:
        typer.echo(f"{bundle.summary.overall_status}  {artifacts}")
    else:
        _show(bundle, artifacts)


def _show_on_github(bundle: ResultsBundle, artifacts: Path) -> None:
    if not {"GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"} & os.environ.keys():
        return
    from youbencha.report.sharing import make_shareable
    from youbencha.report.summary import github_annotations, render_step_summary, write_step_summary

    write_step_summary(render_step_summary(make_shareable(bundle, artifacts)))
    for line in github_annotations(bundle):
        typer.echo(line, err=True)


def _show(bundle: ResultsBundle, artifacts: Path) -> None:
    from youbencha.report.summary import label_width, render_terminal, terminal_text

    lines = render_terminal(bundle, artifacts)
    if sys.stdout is None or not sys.stdout.isatty():
        typer.echo(terminal_text(lines))
        return
    from rich.text import Text

    console, screen, width = console_on(sys.stdout), width_of(sys.stdout), label_width(lines)
    for label, value in lines:
        # No markup, because a model may be called "opus[1m]". No table, which would cut long paths.
        style = _STYLES.get(value.partition(":")[0].partition(",")[0], "")
        text = value if label == "Results" else wrap(value, screen, indent=width)
        console.print(Text.assemble((f"{label:<{width}}", "dim" if value else ""), (text, style)))


class StepPrinter:
    """Prints a line when a step begins, and then its progress every ten seconds, not to fill a log file."""

    def __init__(
        self,
        print_line: Callable[[str], None],
        *,
        repeat_after_s: float = _REPEAT_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._print = print_line
        self._repeat_after_s = repeat_after_s
        self._clock = clock
        self._step = ""
        self._printed_at = 0.0

    def __call__(self, step: str, detail: str = "", /) -> None:
        now = self._clock()
        if step != self._step or now - self._printed_at >= self._repeat_after_s:
            self._print(step_text(step, detail))
            self._step, self._printed_at = step, now


@contextmanager
def steps_on_stderr() -> Iterator[StepProgress]:
    """Yield a callback that prints steps to standard error; on a terminal, details are in a line that is updated."""
    from rich.markup import escape

    console = console_on(sys.stderr)
    repeat_after_s = math.inf if console.is_terminal else _REPEAT_AFTER_S
    printer = StepPrinter(lambda line: console.print(escape(line)), repeat_after_s=repeat_after_s)
    with console.status("") as status:

        def progress(step: str, detail: str = "", /) -> None:
            printer(step, detail)
            status.update(escape(step_text(step, detail)))

        yield progress


def wrap(text: str, width: int, *, indent: int, taken: int | None = None) -> str:
    """Wrap long lines between words, and indent the continuation lines.

    `taken` is the number of characters before the text in its first line; further lines of `text` keep their own
    indentation.
    """
    first, *others = text.split("\n")
    lines = [_wrapped(first, width, taken=indent if taken is None else taken, indent=indent)]
    for line in others:
        own = len(line) - len(line.lstrip(" "))
        lines.append(" " * own + _wrapped(line[own:], width, taken=own, indent=own + 2))
    return "\n".join(lines)


def _wrapped(text: str, width: int, *, taken: int, indent: int) -> str:
    """Wrap one line. Words are not broken, so that a long path can be copied."""
    if width - max(taken, indent) < _LEAST_ROOM:
        return text
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=" " * taken,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(lines)[taken:]
