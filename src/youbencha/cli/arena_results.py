"""Options of the CI gate, and how its result is printed. Shared by `yb compare` and `thunderdome run`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from youbencha.cli import CANNOT_RUN, NOT_PASSED, options
from youbencha.cli.interrupts import run_async
from youbencha.cli.terminal import terminal_width
from youbencha.engine.arena import PlanChoices, plan_arena
from youbencha.engine.calibrate import THRESHOLD, CalibrationScore, TaskCalibration, save_calibration
from youbencha.engine.calibrate import calibrate as score_tasks
from youbencha.engine.matrix import Matrix
from youbencha.engine.rescore import RescoredTrial, find_cell, finished_trials, rescore_run, selection_for_trials
from youbencha.engine.selection import Selection
from youbencha.errors import YouBenchaError
from youbencha.report.arena_selection import category_rules
from youbencha.report.comparison import make_comparison, with_baselines
from youbencha.report.comparison_document import comparison_document
from youbencha.report.comparison_formats import ComparisonFormat, render_comparison, render_comparison_junit
from youbencha.report.comparison_model import ComparisonReport
from youbencha.report.contestants import find_pairs
from youbencha.report.formats import write_text
from youbencha.report.gate import DEFAULT_MEASURES, Gate, GateResult, Measure, apply_gate
from youbencha.report.leaderboard import Leaderboard, make_leaderboard
from youbencha.report.leaderboard_document import Grouping
from youbencha.report.leaderboard_formats import ArenaFormat, render_leaderboard
from youbencha.report.markdown import render_markdown
from youbencha.report.summary import annotation, in_github_actions, write_step_summary
from youbencha.spec.arena import ArenaResultsSpec
from youbencha.spec.arena_loader import Arena, load_arena_file, task_categories
from youbencha.spec.document import read_document
from youbencha.store.arena import TrialKey
from youbencha.store.arena_run import ArenaRun, find_arena_run, make_results
from youbencha.store.layout import BENCH_DIR, LATEST, META_FILE, TRIALS_DIR
from youbencha.store.locate import arena_runs, locate_arena_run
from youbencha.store.read import ArenaResults, load_runs
from youbencha.text import format_duration, plural, table
from youbencha.workspace import public_url

_PANEL = "A gate for CI"

FailIf = Annotated[
    Gate | None,
    typer.Option(
        "--fail-if",
        help="Exit with code 1 if an agent is worse than the one it is compared with, or not shown to be better.",
        rich_help_panel=_PANEL,
    ),
]
Measures = Annotated[
    list[Measure] | None,
    typer.Option(
        "--measure",
        help=f"What the gate judges by; can be repeated. Default: {' and '.join(DEFAULT_MEASURES)}.",
        rich_help_panel=_PANEL,
    ),
]


class GateOptions(NamedTuple):
    fail_if: Gate | None = None
    measures: tuple[Measure, ...] = ()

    def check(self) -> None:
        """Raise an error if an option is missing that another needs."""
        if self.measures and self.fail_if is None:
            raise YouBenchaError("OPTION_INVALID", "--measure needs --fail-if.", hint="Add --fail-if worse.")

    def check_comparisons(self, matrix: Matrix) -> None:
        """Raise an error before anything is spent if the gate would have nothing to judge."""
        if self.fail_if is not None and not matrix.baselines:
            raise YouBenchaError(
                "NOTHING_TO_COMPARE",
                "--fail-if judges orchestrators that have a baseline, and none of those selected has one.",
                hint="Set `baseline: NAME` in the arena, and select that orchestrator as well.",
            )

    def apply(self, report: ComparisonReport, command: str) -> GateResult | None:
        """Apply the gate, and print which measures failed, or that it passed and what could have gone unnoticed.

        In GitHub Actions, these lines are annotations.
        """
        if self.fail_if is None:
            return None
        result = apply_gate(report, self.fail_if, self.measures)
        title, on_github = f"{command} --fail-if {self.fail_if}", in_github_actions()
        for kind, line in result.lines():
            typer.echo(annotation(kind, title, line) if on_github else f"{title}: {line}", err=True)
        return result


Format = Annotated[ArenaFormat, typer.Option("--format", "-f", help="Output format.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file. Default: standard output.")
]
By = Annotated[
    Grouping, typer.Option("--by", help="One row for each agent; each agent and task; each agent and suite.")
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="RULE",
        help="Exclude trials: agent=PATTERN, task=PATTERN, category=PATTERN, run=PATTERN, trial=AGENT/TASK/N, "
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
    directory = results_dir(results, config)
    runs = [locate_arena_run(directory, name) for name in run or (LATEST,)]
    loaded, rules = load_results(runs, config, category, exclude)
    board = make_leaderboard(loaded, rules, suites=parse_suites(suite))
    show(with_baselines(board, loaded, rules), form, by, output)


def load_results(
    sources: Sequence[Path], config: Path, category: list[str] | None, exclude: list[str] | None
) -> tuple[ArenaResults, list[str]]:
    """Load results, with categories from the arena's file where they have none.

    Also return the rules for excluding trials.
    """
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
    base = output.absolute().parent if output else Path.cwd()
    text = render_leaderboard(board, form, by, width=terminal_width(None if output else sys.stdout), base=base)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(output)


def results_dir(results: Path | None, config: Path) -> Path:
    """Return the results directory that was named, or that of the configuration, which need not be valid otherwise."""
    if results is not None:
        return results
    if config == options.ARENA_FILE and not config.exists():
        return Path(ArenaResultsSpec().dir)
    data = read_document(config, code="ARENA_INVALID", what="The arena").data
    named = data.get("results") if isinstance(data, Mapping) else None
    where = named.get("dir") if isinstance(named, Mapping) else None
    return config.parent / Path(str(where or ArenaResultsSpec().dir)).expanduser()


def leaderboard(
    run: Annotated[
        list[str] | None,
        typer.Argument(help="Runs: directories, names or prefixes of names. Default: all in the results directory."),
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

    A trial that several runs have, because it was reused or scored again, counts once: the newest one.

    Example: `thunderdome leaderboard --by suite --exclude 'run=2025-*'`
    """
    directory = results_dir(results, config)
    sources = [locate_arena_run(directory, name) for name in run] if run else [directory]
    loaded, rules = load_results(sources, config, category, exclude)
    show(make_leaderboard(loaded, rules, over_runs=True, suites=parse_suites(suite)), form, by, output)


Row = dict[str, Any]


def list_all(
    config: options.ArenaFile = options.ARENA_FILE,
    results: options.ResultsDir = None,
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="N", min=0, help="Show at most N runs, newest first.")
    ] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the orchestrators, the tasks and the runs.

    Example: `thunderdome list --json`
    """
    with options.add_hint(config):
        arena = load_arena_file(config)
    directory = results or arena.results_dir
    listing = {
        "orchestrators": _orchestrators(arena),
        "tasks": _tasks(arena),
        "suites": _suites(arena),
        "runs": list(_runs(directory, last)),
    }
    if as_json:
        typer.echo(json.dumps(listing, indent=2))
        return
    typer.echo("\n\n".join(_tables(listing)))
    if not listing["runs"]:
        typer.echo(f"\nno runs in {directory}")


def _orchestrators(arena: Arena) -> list[Row]:
    """The orchestrators, spec followed by its variants."""
    baselines = arena.baselines()
    rows: list[Row] = []
    for entry in arena.entries:
        spec = entry.spec
        row = {
            "name": spec.name,
            "variant_of": entry.orchestrator.name if entry.variant else None,
            "changes": entry.variant.changed_keys if entry.variant else [],
            "adapter": spec.adapter,
            "agent": None if spec.adapter or spec.does_nothing else spec.agent or spec.name,
            "version": spec.version,
            "model": spec.model,
            "image": spec.image,
            "baseline": baselines.get(spec.name),
        }
        rows.append(row)
    return rows


def _tasks(arena: Arena) -> list[Row]:
    return [
        {
            "id": task.key,
            "aliases": list(task.aliases),
            "name": task.name,
            "category": task.category,
            "repo": public_url(task.repo),
            "tag": task.tag,
            "time_limit_minutes": task.time_limit_minutes,
        }
        for task in arena.spec.tasks
    ]


def _suites(arena: Arena) -> list[Row]:
    """The suites with their tasks; a task without a category is in none."""
    suites: dict[str, list[str]] = {}
    for task in arena.spec.tasks:
        if task.suite:
            suites.setdefault(task.suite, []).append(task.key)
    return [{"suite": name, "tasks": ids} for name, ids in suites.items()]


def _runs(results: Path, last: int) -> Iterator[Row]:
    """The newest runs. A run of the original Thunderdome does not say how many trials were planned."""
    for path in arena_runs(results)[::-1][:last]:
        row: Row = {"run": path.name, "path": str(path), "began": None, "trials_finished": None, "trials_planned": None}
        row["trials_finished"] = sum(1 for _ in path.glob(f"{TRIALS_DIR}/*/*/trial-*/{META_FILE}"))
        with suppress(YouBenchaError):
            info = ArenaRun(path).info()
            row |= {"began": info.created_at, "trials_planned": info.total}
        yield row


def _tables(listing: dict[str, list[Row]]) -> Iterator[str]:
    width = terminal_width(sys.stdout)
    yield _table_of_orchestrators(listing["orchestrators"], width)
    tasks = [
        (
            f"{row['id']} ({', '.join(row['aliases'])})" if row["aliases"] else row["id"],
            *map(_shown, (row["category"], row["tag"])),
            format_duration(row["time_limit_minutes"] * 60_000),
            row["repo"],
        )
        for row in listing["tasks"]
    ]
    columns = ("TASK", "CATEGORY", "TAG", "TIME LIMIT", "REPOSITORY")
    yield table(columns, tasks, width=width, right=("TIME LIMIT",), drop=("REPOSITORY", "TAG", "TIME LIMIT"))
    if listing["suites"]:
        suites = [(row["suite"], str(len(row["tasks"])), f"--category '{row['suite']}/*'") for row in listing["suites"]]
        yield table(("SUITE", "TASKS", "OPTION"), suites, width=width, right=("TASKS",), drop=("OPTION",))
    if listing["runs"]:
        runs = [
            (row["run"], _minute(row["began"]), f"{row['trials_finished']:,}", _number(row["trials_planned"]))
            for row in listing["runs"]
        ]
        columns_of_runs = ("RUN", "BEGAN", "FINISHED", "PLANNED")
        yield table(columns_of_runs, runs, width=width, right=("FINISHED", "PLANNED"), drop=("BEGAN",))


def _table_of_orchestrators(rows: list[Row], width: int) -> str:
    columns = ["ORCHESTRATOR", "AGENT", "VERSION", "MODEL", "IMAGE", "CHANGES", "COMPARED WITH"]
    cells = [
        (
            row["name"],
            row["adapter"] or row["agent"] or "does nothing",
            *map(_shown, (row["version"], row["model"], row["image"], ", ".join(row["changes"]), row["baseline"])),
        )
        for row in rows
    ]
    return table(columns, cells, width=width, drop=("IMAGE", "VERSION", "MODEL", "CHANGES", "COMPARED WITH"))


def _minute(time: str | None) -> str:
    return _shown(time and time[:16].replace("T", " "))


def _shown(value: str | None) -> str:
    return value or "-"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


_WHAT = "An orchestrator or variant of the latest run, a RUN (its directory, its name or the start of it), or RUN:NAME."


def compare(
    first: Annotated[str | None, typer.Argument(metavar="A", help=_WHAT)] = None,
    second: Annotated[
        str | None, typer.Argument(metavar="B", help="The agent to compare it with. Default: its baseline.")
    ] = None,
    form: Annotated[ComparisonFormat, typer.Option("--format", "-f", help="Output format.")] = ComparisonFormat.TABLE,
    output: Output = None,
    margin: Annotated[
        float | None,
        typer.Option(metavar="M", help="Treat scores that differ by at most this much as equivalent. Default: 0.05."),
    ] = None,
    fail_if: FailIf = None,
    measure: Measures = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a JUnit report.")] = None,
    exclude: Exclude = None,
    results: options.ResultsDir = None,
    config: options.ArenaFile = options.ARENA_FILE,
) -> int:
    """Tell whether A is better than B, by how much, and how sure that is.

    Without B, A is compared with its baseline; without both, everything in the latest run with its baseline.

    Exit code 0: compared · 1: the `--fail-if` gate failed · 2: could not be compared, or a `--measure` has no data.

    Example: `yb compare claude-code+tdd claude-code --fail-if worse`
    """
    gate = GateOptions(fail_if, tuple(measure or ()))
    gate.check()
    pairs = find_pairs(_results_dir(results, config), first, second)
    report = make_comparison(pairs, exclude or (), margin=margin)
    _show(report, form, output)
    _show_on_github(report)
    gated = gate.apply(report, "yb compare")
    if junit is not None:
        write_text(junit, render_comparison_junit(report, gated))
    if any(pair.difference.estimate is None for pair in report.comparisons) or (gated and gated.unknown):
        return CANNOT_RUN
    return NOT_PASSED if gated and gated.failed else 0


def _results_dir(results: Path | None, config: Path) -> Path:
    """As for `thunderdome report`; if there is no arena here, the results of `yb run` with many trials."""
    directory = results_dir(results, config)
    if results is not None or directory.is_dir():
        return directory
    places = (workspace / BENCH_DIR for workspace in options.workspaces_here())
    return next((place for place in places if place.is_dir()), directory)


def _show(report: ComparisonReport, form: ComparisonFormat, output: Path | None) -> None:
    base = output.absolute().parent if output else Path.cwd()
    text = render_comparison(report, form, width=terminal_width(None if output else sys.stdout), base=base)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(output)


def _show_on_github(report: ComparisonReport) -> None:
    if "GITHUB_STEP_SUMMARY" in os.environ:
        write_step_summary(render_markdown(comparison_document(report, None, details=True)))


def rescore(
    run: options.RunNames = None,
    task: options.OnlyTasks = None,
    orchestrator: Annotated[
        list[str] | None,
        typer.Option(
            "--orchestrator", metavar="NAME", help="Only this orchestrator; `*` matches any text. Can be repeated."
        ),
    ] = None,
    results: options.ResultsDir = None,
    config: options.ArenaFile = options.ARENA_FILE,
    parallel: options.Validations = None,
    full: Annotated[bool, typer.Option("--full", hidden=True)] = False,
) -> int:
    """Validate and score the results of a run again.

    From each task's tag and each trial's diff.patch, without an agent or a model. Results of the original Thunderdome,
    too.

    Exit code 0: all were rescored · 1: some could not be · 2: none could be.

    Example: `thunderdome rescore --task bench-time-tracker`
    """
    host = options.host_here()
    arena = options.arena_here(config, host)

    async def work() -> list[RescoredTrial]:
        runs = [find_arena_run(results or arena.results_dir, which) for which in run or (None,)]
        keys = [target.key for directory in runs for target in finished_trials(directory)]
        selection = selection_for_trials(arena, keys, tuple(task or ()))
        choices = PlanChoices(resolve_env=False, require_scripts=False)
        cells = (await plan_arena(arena, host, selection, choices)).cells if selection else ()

        def wanted(key: TrialKey) -> bool:
            named = not orchestrator or any(fnmatchcase(key.orchestrator, pattern) for pattern in orchestrator)
            return named and (not task or find_cell(cells, key) is not None)

        done: list[RescoredTrial] = []
        for directory in runs:
            typer.echo(f"rescoring {directory.path}", err=True)
            limit = parallel or arena.spec.parallel
            done += await rescore_run(directory, cells, host, wanted, parallel=limit, on_done=_show_rescored)
        if not done:
            hint = "`thunderdome report --by task` lists the finished trials."
            raise YouBenchaError("NOTHING_SELECTED", "There is no such finished trial.", hint=hint)
        return done

    return _summarise(run_async(work()))


def _show_rescored(done: RescoredTrial) -> None:
    typer.echo(f"{done.key}: {done.problem or _score(done.after)}", err=True)


def _summarise(done: list[RescoredTrial]) -> int:
    changed = [trial for trial in done if trial.problem is None and trial.before != trial.after]
    failed = [trial for trial in done if trial.problem is not None]
    if changed:
        rows = [(*map(str, trial.key), _score(trial.before), _score(trial.after)) for trial in changed]
        header = ("ORCHESTRATOR", "TASK", "TRIAL", "BEFORE", "NOW")
        typer.echo(table(header, rows, width=terminal_width(sys.stdout), right=header[2:]))
    typer.echo(f"{plural(len(done) - len(failed), 'trial')} rescored, {len(changed)} changed, {len(failed)} failed")
    if len(failed) == len(done):
        return 2
    return 1 if failed else 0


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"


def calibrate(
    task: options.OnlyTasks = None,
    results: options.ResultsDir = None,
    config: options.ArenaFile = options.ARENA_FILE,
    parallel: options.Validations = None,
    threshold: Annotated[
        float, typer.Option(metavar="SCORE", min=0, max=1, help="Warn if doing nothing scores more than this.")
    ] = THRESHOLD,
    as_json: Annotated[bool, typer.Option("--json", help="Print calibration.json.")] = False,
) -> int:
    """Score doing nothing, the reference solution and cheating, for each task.

    Nothing of it needs an agent or a model. Writes calibration.json into the results directory, which reports use for
    the score between doing nothing (0) and the reference solution (1).

    Exit code 0: no warnings · 1: a task has warnings · 2: could not run.

    Example: `thunderdome calibrate --task bench-time-tracker`
    """
    host = options.host_here()
    arena = options.arena_here(config, host)
    directory = results or arena.results_dir
    make_results(directory)

    async def work() -> list[TaskCalibration]:
        selection, choices = Selection(tasks=tuple(task or ())), PlanChoices(resolve_env=False, require_scripts=False)
        matrix = await plan_arena(arena, host, selection, choices)
        limit = parallel or arena.spec.parallel
        return await score_tasks(matrix.cells, host, directory / "calibration", parallel=limit, on_score=_show_score)

    tasks = run_async(work())
    data = save_calibration(directory, tasks, threshold)
    if as_json:
        typer.echo(json.dumps(data, indent=2))
    else:
        _print_table(tasks)
    warnings = [(task.task, warning) for task in tasks for warning in task.warnings(threshold)]
    for name, warning in warnings:
        typer.echo(f"warning  {name}: {warning}", err=True)
    return 1 if warnings else 0


def _show_score(task: str, name: str, score: CalibrationScore) -> None:
    result = (score.problem or _share(score.tests)) if score.applicable else "not applicable"
    typer.echo(f"{task} · {name}: {result}", err=True)


def _print_table(tasks: list[TaskCalibration]) -> None:
    names = list(dict.fromkeys(name for task in tasks for name in task.scores))
    rows = [(task.task, *(_cell(task.scores.get(name)) for name in names), *_range(task)) for task in tasks]
    header = ("TASK", *map(str.upper, names), "FLOOR", "CEILING")
    typer.echo("Tests passed by doing nothing, by the reference solution, and by cheating; scores of the first two:")
    typer.echo(table(header, rows, width=terminal_width(sys.stdout), right=header[1:]))


def _range(task: TaskCalibration) -> tuple[str, str]:
    floor, ceiling = ("-" if score is None else f"{score:.3f}" for score in (task.floor, task.ceiling))
    return floor, ceiling


def _cell(score: CalibrationScore | None) -> str:
    if score is None:
        return "-"
    return _share(score.tests) if score.applicable else "n/a"


def _share(share: float | None) -> str:
    return "?" if share is None else f"{share:.0%}"
