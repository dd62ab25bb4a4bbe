"""Run a matrix of trials from the command line, and show its result. Shared by `thunderdome run` and `yb run`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Container, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from youbencha.cli import INTERRUPTED
from youbencha.cli.console import NOT_PASSED
from youbencha.cli.interrupts import run_async
from youbencha.cli.matrix_display import MatrixDisplay, choose_matrix_display
from youbencha.text import count, one_line, plural, sentences, usd

if TYPE_CHECKING:
    from youbencha.engine.matrix import Matrix
    from youbencha.engine.reuse import Reusable
    from youbencha.engine.run import MatrixControl, MatrixOptions
    from youbencha.engine.updates import MatrixSummary
    from youbencha.store.arena import TrialKey
    from youbencha.store.arena_run import ArenaRun

Work = Callable[[MatrixDisplay, "MatrixControl"], Coroutine[Any, Any, "MatrixSummary"]]


def run_and_show(
    work: Work,
    run: Callable[[], ArenaRun | None],
    *,
    as_json: bool,
    quiet: bool = False,
    tui: str | None = None,
    by_task: bool = False,
    resume: str = "thunderdome run",
    succeeded: Callable[[MatrixSummary], bool] | None = None,
) -> int:
    """Run a matrix, which the first Ctrl-C drains and the second aborts; print the result and return the exit code.

    `run` returns the run, once there is one. `tui` is the title of the full screen, if it is wanted. With `by_task`,
    the table has a row for each agent and task. `resume` is the command that continues the run. If everything ran,
    `succeeded` decides whether the exit code is 0, by default if every trial measured its agent.
    """
    from youbencha.engine.run import MatrixControl

    control, display = MatrixControl(), choose_matrix_display(quiet=quiet, tui=tui)
    try:
        summary = run_async(display.show(work(display, control)), drain=control.drain)
    except KeyboardInterrupt:
        if (found := run()) is not None:
            typer.echo(f"interrupted; {_how_to_resume(resume, found)}", err=True)
        raise
    found = run()
    assert found is not None
    with suppress(BrokenPipeError):  # it is in the results, too
        if as_json:
            typer.echo(json.dumps(_document(summary, found), indent=2))
        else:
            _show(summary, found, by_task=by_task)
    if not summary.complete:
        _say_what_is_left(summary)
        typer.echo(_how_to_resume(resume, found), err=True)
        if not summary.ended:
            return INTERRUPTED if summary.drained else NOT_PASSED
    return 0 if (succeeded or measured)(summary) else NOT_PASSED


def measured(summary: MatrixSummary) -> bool:
    """Whether every trial measured its agent; if some need not, whether every comparison has results."""
    return all(each.pairs for each in summary.comparisons) if summary.comparisons else not summary.not_valid


def show_plan(matrix: Matrix, options: MatrixOptions, *, as_json: bool, reusable: Reusable | None = None) -> None:
    """Show what would run, and the most that it can cost."""
    from youbencha.engine.dry_run import describe_plan

    plan = describe_plan(matrix, parallel=options.parallel, attempts=options.retries.attempts, reusable=reusable)
    typer.echo(json.dumps(plan.as_data(), indent=2) if as_json else plan.as_text())


async def check_engine(matrix: Matrix) -> None:
    """Raise at once if there is no engine for the containers. A run that has begun would wait for one."""
    if any(cell.plan.sandbox.type == "docker" for cell in matrix.cells):
        from youbencha.sandbox.docker.engine import connect

        async with connect():
            return


async def check_matrix_versions(matrix: Matrix, env: Mapping[str, str]) -> None:
    """Raise at once if the CLI of an agent is too old. `env` is the harness's environment."""
    from youbencha.adapters import get_adapter
    from youbencha.trial.plan import check_version

    checked = set()
    for plan in (cell.plan for cell in matrix.cells):
        kind, config = plan.case.agent.type, plan.agent_config
        program = (kind, config.get("version"), config.get("executable"))
        if program not in checked:
            checked.add(program)
            await check_version(plan, get_adapter(kind, env))


async def check_matrix_models(matrix: Matrix, done: Container[TrialKey] = ()) -> None:
    """Raise at once if a provider does not know a model that is configured for trials which are not done."""
    from youbencha.trial.gateway_plan import check_models

    cells = {(cell.orchestrator, cell.task): cell for key, cell in matrix.order() if key not in done}.values()
    await check_models(model for cell in cells for model in cell.plan.configured_models(cell.orchestrator))


def _show(summary: MatrixSummary, run: ArenaRun, *, by_task: bool) -> None:
    from youbencha.cli.screen import width_of
    from youbencha.report.comparison import with_baselines
    from youbencha.report.leaderboard import make_leaderboard
    from youbencha.report.leaderboard_document import Grouping
    from youbencha.report.leaderboard_formats import ArenaFormat, render_leaderboard
    from youbencha.store.read import load_runs

    if summary.rows:
        loaded = load_runs([run.path])
        board = with_baselines(make_leaderboard(loaded), loaded)
        by = Grouping.TASK if by_task else Grouping.AGENT
        text = render_leaderboard(board, ArenaFormat.TABLE, by, width=width_of(sys.stdout), base=run.path)
        typer.echo(text, nl=False)
    finished = f"{count(len(summary.rows))} of {plural(summary.trials, 'trial')} finished"
    not_valid = f", {count(summary.not_valid)} not valid" if summary.not_valid else ""
    spent = f", {usd(summary.spent_usd)} spent" if summary.spent_usd else ""
    typer.echo(f"\n{finished}{not_valid}{spent}{_saved(summary)}\nResults: {run.path}")


def _saved(summary: MatrixSummary) -> str:
    if not summary.saved:
        return ""
    money = f" (about {usd(summary.saved_usd)})" if summary.saved_usd else ""
    return f"; {count(summary.saved)} of at most {count(summary.max_trials)} saved{money}"


def _say_what_is_left(summary: MatrixSummary) -> None:
    left = summary.trials - len(summary.rows)
    typer.echo(f"{plural(left, 'trial')} not finished", err=True)
    reasons: dict[str, list[str]] = {}
    for each in summary.skipped:
        reasons.setdefault(each.reason, []).append(each.which)
    for reason, places in reasons.items():
        typer.echo(f"  {', '.join(places)}: {one_line(reason, 500)}", err=True)
    if summary.stopped:
        typer.echo(f"  {sentences(one_line(summary.stopped, 500), summary.hint)}", err=True)


def _how_to_resume(command: str, run: ArenaRun) -> str:
    return f"continue with: {command} --resume {run.name}"


def _document(summary: MatrixSummary, run: ArenaRun) -> dict[str, Any]:
    return {
        "run": run.name,
        "directory": str(run.path),
        "trials": summary.trials,
        "finished": len(summary.rows),
        "complete": summary.complete,
        "not_valid": summary.not_valid,
        "interrupted": summary.drained and not summary.complete,
        "stopped": summary.stopped,
        "spent_usd": summary.spent_usd,
        "comparisons": [{**each._asdict(), "interval": each.interval._asdict()} for each in summary.comparisons],
        "max_trials": summary.max_trials,
        "saved_trials": summary.saved if summary.comparisons else None,
        "saved_usd": summary.saved_usd if summary.comparisons else None,
        "skipped": [each._asdict() for each in summary.skipped],
        "results": [
            {**row.key._asdict(), **{name: value for name, value in row._asdict().items() if name != "key"}}
            for row in summary.rows
        ],
    }
