"""`thunderdome report`: the results of a run, in one of several formats."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli import options
from youbencha.cli.screen import width_of
from youbencha.report.arena_formats import ArenaFormat
from youbencha.report.arena_tables import Grouping

if TYPE_CHECKING:
    from youbencha.report.leaderboard import Leaderboard

Format = Annotated[ArenaFormat, typer.Option("--format", "-f", help="The format.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: standard output.")]
By = Annotated[
    Grouping, typer.Option("--by", help="One row for each agent; each agent and task; each agent and suite.")
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="RULE",
        help="Leave trials out: agent=PATTERN, task=PATTERN, category=PATTERN, run=PATTERN, trial=AGENT/TASK/N, "
        "outcome=NAME, exit_reason=NAME, cost=DOLLARS, flagged. Can be repeated.",
    ),
]


def report(
    run: options.RunNames = None,
    form: Format = ArenaFormat.TABLE,
    output: Output = None,
    by: By = Grouping.AGENT,
    exclude: Exclude = None,
    results: options.ResultsDir = None,
    config: options.ArenaFile = options.ARENA_FILE,
) -> None:
    """Report the results of a run.

    Also of a directory with results of several runs, and of results of the original Thunderdome.

    Example: `thunderdome report --format html --output report.html`
    """
    from youbencha.log.arena import LATEST
    from youbencha.report.arena_loading import load_runs, locate_run
    from youbencha.report.comparison import with_baselines
    from youbencha.report.leaderboard import make_leaderboard

    directory = results_dir(results, config)
    runs = [locate_run(directory, each) for each in run or (LATEST,)]
    loaded, rules = load_runs(runs), exclude or ()
    show(with_baselines(make_leaderboard(loaded, rules), loaded, rules), form, by, output)


def show(board: Leaderboard, form: ArenaFormat, by: Grouping, output: Path | None) -> None:
    """Print the leaderboard, or write it to a file."""
    from youbencha.report.arena_formats import render_leaderboard
    from youbencha.report.formats import write_text

    base = output.absolute().parent if output else Path.cwd()
    text = render_leaderboard(board, form, by, width=width_of(None if output else sys.stdout), base=base)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(output)


def results_dir(results: Path | None, config: Path) -> Path:
    """Return the results directory that was named, or that of the configuration, which need not be valid otherwise."""
    from youbencha.spec.arena import ArenaResultsSpec
    from youbencha.spec.document import read_document

    if results is not None:
        return results
    if config == options.ARENA_FILE and not config.exists():
        return Path(ArenaResultsSpec().dir)
    data = read_document(config, code="ARENA_INVALID", what="The arena").data
    named = data.get("results") if isinstance(data, Mapping) else None
    where = named.get("dir") if isinstance(named, Mapping) else None
    return config.parent / Path(str(where or ArenaResultsSpec().dir)).expanduser()
