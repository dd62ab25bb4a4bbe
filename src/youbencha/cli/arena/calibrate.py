"""`thunderdome calibrate`: what doing nothing, the reference solution and cheating score."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli import options
from youbencha.cli.screen import width_of
from youbencha.engine.calibrate import THRESHOLD

if TYPE_CHECKING:
    from youbencha.engine.calibrate import CalibrationScore, TaskCalibration


def calibrate(
    task: options.OnlyTasks = None,
    results: options.ResultsDir = None,
    config: options.ArenaFile = options.ARENA_FILE,
    parallel: options.Validations = None,
    threshold: Annotated[
        float, typer.Option(metavar="SCORE", min=0, max=1, help="Warn if doing nothing scores more.")
    ] = THRESHOLD,
    as_json: Annotated[bool, typer.Option("--json", help="Print calibration.json.")] = False,
) -> int:
    """Score doing nothing, the reference solution and cheating, for each task.

    Nothing of it needs an agent or a model. Writes calibration.json into the results directory, which reports use for
    the score between doing nothing (0) and the reference solution (1).

    Exit code 0: no warnings · 1: a task has warnings · 2: could not run.

    Example: `thunderdome calibrate --task bench-time-tracker`
    """
    from youbencha.cli.interrupts import run_async
    from youbencha.engine.arena import PlanChoices, plan_arena
    from youbencha.engine.calibrate import calibrate as score_tasks
    from youbencha.engine.calibrate import save_calibration
    from youbencha.engine.selection import Selection
    from youbencha.store.arena_run import make_results

    host = options.host_here()
    arena = options.arena_here(config, host)
    directory = results or arena.results_dir
    make_results(directory)

    async def work() -> list[TaskCalibration]:
        selection, choices = Selection(tasks=tuple(task or ())), PlanChoices(resolve_env=False, require_scripts=False)
        matrix = await plan_arena(arena, host, selection, choices)
        limit = parallel or arena.spec.parallel
        return await score_tasks(matrix.cells, host, directory / "calibration", parallel=limit, on_score=_show)

    tasks = run_async(work())
    data = save_calibration(directory, tasks, threshold)
    if as_json:
        typer.echo(json.dumps(data, indent=2))
    else:
        _print_table(tasks)
    warnings = [(each.task, warning) for each in tasks for warning in each.warnings(threshold)]
    for name, warning in warnings:
        typer.echo(f"warning  {name}: {warning}", err=True)
    return 1 if warnings else 0


def _show(task: str, name: str, score: CalibrationScore) -> None:
    result = (score.problem or _share(score.tests)) if score.applicable else "not applicable"
    typer.echo(f"{task} · {name}: {result}", err=True)


def _print_table(tasks: list[TaskCalibration]) -> None:
    from youbencha.text import table

    names = list(dict.fromkeys(name for task in tasks for name in task.scores))
    rows = [(task.task, *(_cell(task.scores.get(name)) for name in names), *_range(task)) for task in tasks]
    header = ("TASK", *map(str.upper, names), "FLOOR", "CEILING")
    typer.echo("Tests passed by doing nothing, by the reference solution, and by cheating; scores of the first two:")
    typer.echo(table(header, rows, width=width_of(sys.stdout), right=header[1:]))


def _range(task: TaskCalibration) -> tuple[str, str]:
    floor, ceiling = ("-" if score is None else f"{score:.3f}" for score in (task.floor, task.ceiling))
    return floor, ceiling


def _cell(score: CalibrationScore | None) -> str:
    if score is None:
        return "-"
    return _share(score.tests) if score.applicable else "n/a"


def _share(share: float | None) -> str:
    return "?" if share is None else f"{share:.0%}"
