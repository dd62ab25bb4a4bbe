"""`thunderdome leaderboard`: rank the orchestrators over several runs."""

from __future__ import annotations

from typing import Annotated

import typer

from youbencha.cli import options
from youbencha.cli.arena.report import (
    By,
    Category,
    Exclude,
    Format,
    Output,
    Suites,
    load_results,
    parse_suites,
    results_dir,
    show,
)
from youbencha.report.leaderboard_document import Grouping
from youbencha.report.leaderboard_formats import ArenaFormat


def leaderboard(
    run: Annotated[
        list[str] | None,
        typer.Argument(help="Runs: directories, names, or the start of a name. Default: all in the results directory."),
    ] = None,
    form: Format = ArenaFormat.TABLE,
    output: Output = None,
    by: By = Grouping.AGENT,
    category: Category = None,
    suite: Suites = None,
    exclude: Exclude = None,
    results: options.ResultsDir = None,
    config: options.ArenaFile = options.ARENA_FILE,
) -> None:
    """Rank the orchestrators over several runs.

    A trial that several runs have, because it was taken over or scored again, counts once: the newest.

    Example: `thunderdome leaderboard --by suite --exclude 'run=2025-*'`
    """
    from youbencha.report.leaderboard import make_leaderboard
    from youbencha.store.locate import locate_arena_run

    directory = results_dir(results, config)
    sources = [locate_arena_run(directory, each) for each in run] if run else [directory]
    loaded, rules = load_results(sources, config, category, exclude)
    show(make_leaderboard(loaded, rules, over_runs=True, suites=parse_suites(suite)), form, by, output)
