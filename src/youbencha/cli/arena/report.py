"""`thunderdome report`: the results of a run, in one of several formats."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli import options
from youbencha.cli.screen import width_of
from youbencha.errors import YouBenchaError
from youbencha.report.leaderboard_document import Grouping
from youbencha.report.leaderboard_formats import ArenaFormat

if TYPE_CHECKING:
    from youbencha.report.leaderboard import Leaderboard
    from youbencha.store.read import ArenaResults

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

Category = Annotated[
    list[str] | None,
    typer.Option(
        "--category", metavar="NAME", help="Only tasks of this category, such as `greenfield/*`. Can be repeated."
    ),
]
Suites = Annotated[
    list[str] | None,
    typer.Option(
        "--suite",
        metavar="NAME=CATEGORY,…",
        help="Combine categories into a suite: it gets a column with its mean score, and the mean of all suites "
        "decides the ranking. Can be repeated.",
    ),
]


def report(
    run: options.RunNames = None,
    form: Format = ArenaFormat.TABLE,
    output: Output = None,
    by: By = Grouping.AGENT,
    category: Category = None,
    suite: Suites = None,
    exclude: Exclude = None,
    results: options.ResultsDir = None,
    config: options.ArenaFile = options.ARENA_FILE,
) -> None:
    """Report the results of a run.

    Also of a directory with results of several runs, and of results of the original Thunderdome.

    Example: `thunderdome report --format html --output report.html`
    """
    from youbencha.report.comparison import with_baselines
    from youbencha.report.leaderboard import make_leaderboard
    from youbencha.store.layout import LATEST
    from youbencha.store.locate import locate_arena_run

    directory = results_dir(results, config)
    runs = [locate_arena_run(directory, each) for each in run or (LATEST,)]
    loaded, rules = load_results(runs, config, category, exclude)
    board = make_leaderboard(loaded, rules, suites=parse_suites(suite))
    show(with_baselines(board, loaded, rules), form, by, output)


def load_results(
    sources: Sequence[Path], config: Path, category: list[str] | None, exclude: list[str] | None
) -> tuple[ArenaResults, list[str]]:
    """Load results, with categories from the arena's file where they have none.

    Also return the rules for excluding trials.
    """
    from youbencha.report.arena_selection import category_rules
    from youbencha.spec.arena_loader import task_categories
    from youbencha.store.read import load_runs

    loaded = load_runs(sources)
    if config != options.ARENA_FILE or config.exists():
        loaded = loaded.with_categories(task_categories(config))
    return loaded, [*category_rules(loaded, category or ()), *(exclude or ())]


def parse_suites(written: list[str] | None) -> dict[str, tuple[str, ...]]:
    """Parse the values of `--suite`: NAME=CATEGORY,CATEGORY…"""
    suites: dict[str, tuple[str, ...]] = {}
    for text in written or ():
        name, _, categories = text.partition("=")
        suites[name] = tuple(category.strip() for category in categories.split(",") if category.strip())
        if not name or not suites[name]:
            hint = "Examples: --suite 'hard=*/hard', --suite easy=features,bugfix."
            raise YouBenchaError(
                "OPTION_INVALID", f"--suite {text}: the name or the categories are missing.", hint=hint
            )
    return suites


def show(board: Leaderboard, form: ArenaFormat, by: Grouping, output: Path | None) -> None:
    """Print the leaderboard, or write it to a file."""
    from youbencha.report.formats import write_text
    from youbencha.report.leaderboard_formats import render_leaderboard

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
