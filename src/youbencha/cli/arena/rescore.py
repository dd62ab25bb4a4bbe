"""`thunderdome rescore`: validate and score the results of a run again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli import options
from youbencha.cli.screen import width_of
from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.engine.rescore import RescoredTrial


def rescore(
    run: options.RunNames = None,
    task: options.OnlyTasks = None,
    orchestrator: Annotated[
        list[str] | None,
        typer.Option("--orchestrator", metavar="NAME", help="Only this one; `*` is any text. Can be repeated."),
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
    from fnmatch import fnmatchcase

    from youbencha.cli.interrupts import run_async
    from youbencha.engine.arena import PlanChoices, plan_arena
    from youbencha.engine.rescore import find_cell, finished_trials, rescore_run, selection_for_trials
    from youbencha.store.arena import TrialKey
    from youbencha.store.arena_run import find_arena_run

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
            done += await rescore_run(directory, cells, host, wanted, parallel=limit, on_done=_show)
        if not done:
            hint = "`thunderdome report --by task` shows what there is."
            raise YouBenchaError("NOTHING_SELECTED", "There is no such finished trial.", hint=hint)
        return done

    return _summarise(run_async(work()))


def _show(done: RescoredTrial) -> None:
    typer.echo(f"{done.key}: {done.problem or _score(done.after)}", err=True)


def _summarise(done: list[RescoredTrial]) -> int:
    from youbencha.text import plural, table

    changed = [each for each in done if each.problem is None and each.before != each.after]
    failed = [each for each in done if each.problem is not None]
    if changed:
        rows = [(*map(str, each.key), _score(each.before), _score(each.after)) for each in changed]
        header = ("ORCHESTRATOR", "TASK", "TRIAL", "BEFORE", "NOW")
        typer.echo(table(header, rows, width=width_of(sys.stdout), right=header[2:]))
    typer.echo(f"{plural(len(done) - len(failed), 'trial')} rescored, {len(changed)} changed, {len(failed)} failed")
    if len(failed) == len(done):
        return 2
    return 1 if failed else 0


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"
