"""`thunderdome run`: run a matrix of orchestrators, tasks and trials."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from youbencha.cli import options
from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.cli.matrix_display import MatrixDisplay
    from youbencha.engine.arena import PlanChoices
    from youbencha.engine.executor import OpensExecutor
    from youbencha.engine.matrix import Matrix
    from youbencha.engine.ray_cluster import Cluster
    from youbencha.engine.results import ArenaRun
    from youbencha.engine.run import MatrixControl, MatrixOptions
    from youbencha.engine.selection import Selection
    from youbencha.engine.updates import MatrixSummary
    from youbencha.spec.arena_loader import Arena
    from youbencha.trial.context import Host

_WHAT, _WHERE, _AGAIN = "What runs", "Where it runs", "With earlier results"
_SELECTING = ("orchestrators", "tasks", "categories")
Names = list[str] | None


class ExecutorName(StrEnum):
    LOCAL = "local"
    RAY = "ray"


def run(
    which: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="With --resume: the run. Default: the latest.")
    ] = None,
    orchestrator: Annotated[
        Names, typer.Option(metavar="NAME", help="Only these; `*` matches any text.", rich_help_panel=_WHAT)
    ] = None,
    task: Annotated[
        Names,
        typer.Option(metavar="TASK", help="Only these: an id, a name, a repository or its end.", rich_help_panel=_WHAT),
    ] = None,
    category: Annotated[
        Names, typer.Option(metavar="NAME", help="Only tasks of these; `suite/*` is a suite.", rich_help_panel=_WHAT)
    ] = None,
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Of each orchestrator on each task.", rich_help_panel=_WHAT)
    ] = None,
    parallel: Annotated[int | None, typer.Option(metavar="N", min=1, help="Trials at the same time.")] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="USD", min=0, help="The most that all trials together may spend.")
    ] = None,
    executor: Annotated[
        ExecutorName, typer.Option(help="Where trials run: in this process, or on a Ray cluster.", rich_help_panel=_WHERE)
    ] = ExecutorName.LOCAL,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="With --executor ray: the cluster. Default: $RAY_ADDRESS, or Ray is started here.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue a run that was stopped or killed.", rich_help_panel=_AGAIN),
    ] = False,
    reuse: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Take over results of this run that still apply; score them again if only the validation changed.",
            rich_help_panel=_AGAIN,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and the most that it can cost; run nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: options.Quiet = False,
    tui: options.Tui = False,
    config: options.ArenaFile = options.ARENA_FILE,
    results: Annotated[Path | None, typer.Option(metavar="DIR", help="Where results are written.")] = None,
) -> int:
    """Run a matrix of orchestrators, tasks and trials.

    Ctrl-C starts no further trials and waits for those that are running; a second one aborts them. Then `--resume`
    continues.

    Exit code 0: everything ran, and every trial measured its agent · 1: otherwise · 2: nothing could be run · 130:
    interrupted.

    Example: `thunderdome run --orchestrator claude-code --task bench-time-tracker --trials 3`
    """
    from youbencha.cli.interrupts import run_async
    from youbencha.cli.matrix import run_and_show, show_plan
    from youbencha.engine.arena import PlanChoices, load_arena
    from youbencha.engine.selection import Selection
    from youbencha.spec.arena import BudgetSpec

    selection = Selection(tuple(orchestrator or ()), tuple(task or ()), tuple(category or ()))
    _check(which, selection, trials, reuse, resume=resume, dry_run=dry_run)
    host = options.host_here()
    with options.add_hint(config):
        arena = load_arena(config, host, resolve_env=not dry_run)
    directory = results or arena.results_dir
    limit = None if budget is None else BudgetSpec(total_usd=budget)
    choices = PlanChoices(trials=trials, budget=limit, resolve_env=not dry_run)
    if address is not None and executor is ExecutorName.LOCAL:
        raise YouBenchaError("OPTION_INVALID", "--address is the address of a Ray cluster.", hint="Add --executor ray.")
    request = _Request(arena, host, directory, selection, choices, parallel, executor, address)
    if dry_run:
        show_plan(run_async(request.plan()), request.options(), as_json=as_json)
        return 0
    session = _Session(request, which if resume else None, resume=resume, reuse=reuse, say=not (quiet or as_json))
    again = _command(config, results)
    title = config.name if tui else None
    return run_and_show(session.work, lambda: session.run, as_json=as_json, quiet=quiet, tui=title, resume=again)


def _command(config: Path, results: Path | None) -> str:
    """The command that runs this arena again, without what `--resume` knows."""
    given = {"--config": config if config != options.ARENA_FILE else None, "--results": results}
    words = ["thunderdome", "run", *(word for name, path in given.items() if path for word in (name, str(path)))]
    return shlex.join(words)


class _Request(NamedTuple):
    """What the command line asks for."""

    arena: Arena
    host: Host
    results: Path
    selection: Selection
    choices: PlanChoices
    given_parallel: int | None
    executor: ExecutorName = ExecutorName.LOCAL
    address: str | None = None
    cluster: Cluster | None = None
    """Once it is connected."""

    @property
    def parallel(self) -> int:
        return self.given_parallel or (self.cluster.cpus if self.cluster else self.arena.spec.parallel)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[_Request]:
        """Connect to the Ray cluster, if that is where trials run."""
        if self.executor is ExecutorName.LOCAL:
            yield self
            return
        from youbencha.engine.ray_cluster import connect

        async with connect(self.address, self.host.env) as cluster:
            yield self._replace(cluster=cluster)

    def open_executor(self, matrix: Matrix) -> OpensExecutor | None:
        if self.cluster is None:
            return None
        from youbencha.engine.ray_executor import check_resources, opens_ray_executor

        check_resources(matrix, self.cluster)
        secrets = self.arena.spec.secrets.env_file
        never = [self.results, *([self.arena.directory / Path(secrets).expanduser()] if secrets else [])]
        return opens_ray_executor(self.cluster, never_sent=never)

    def options(self) -> MatrixOptions:
        from youbencha.engine.run import MatrixOptions

        spec = self.arena.spec
        return MatrixOptions(
            listen=self.cluster.driver_host if self.cluster else LOOPBACK,
            parallel=self.parallel,
            per_provider={str(name): most for name, most in spec.parallel_per_provider.items()},
            container_starts=spec.container_starts,
            retries=spec.retries,
            keep_workspaces=spec.results.keep_workspaces,
        )

    async def plan(self) -> Matrix:
        from youbencha.engine.arena import plan_arena

        return await plan_arena(self.arena, self.host, self.selection, self.choices)


class _Session:
    """One invocation: it plans, makes the directory of a run or finds it, and runs the matrix."""

    def __init__(self, request: _Request, which: str | None, *, resume: bool, reuse: str | None, say: bool) -> None:
        self.run: ArenaRun | None = None
        self._request = request
        self._which = which
        self._resume = resume
        self._reuse = reuse
        self._say = say

    async def work(self, display: MatrixDisplay, control: MatrixControl) -> MatrixSummary:
        from youbencha.cli.matrix import check_engine
        from youbencha.engine.results import find_run
        from youbencha.engine.reuse import reuse_results
        from youbencha.engine.run import run_matrix

        request = self._request
        earlier = find_run(request.results, self._reuse) if self._reuse else None
        if self._resume:
            matrix = await self._plan_again()
        else:
            matrix = await request.plan()
        await check_engine(matrix)
        if not self._resume:
            self.run = _new_run(request, matrix)
        assert self.run is not None
        if self._say:
            display.announce(_announcement(matrix, self.run, request, resumed=self._resume))
        with display:
            if earlier is not None:
                reused = await reuse_results(matrix, request.host, earlier, self.run, parallel=request.parallel)
                display.print("", "", f"{reused.unchanged} trials taken over, {reused.rescored} scored again")
            return await run_matrix(matrix, request.host, self.run, request.options(), display, control=control)

    async def _plan_again(self) -> Matrix:
        """Plan what the run planned when it began."""
        from youbencha.engine.results import find_run
        from youbencha.engine.resume import check_unchanged
        from youbencha.engine.selection import Selection

        found = find_run(self._request.results, self._which)
        info = found.info()
        selection = Selection(*(tuple(info.selection.get(name, ())) for name in _SELECTING))
        choices = self._request.choices._replace(trials=info.trials)
        self._request = self._request._replace(selection=selection, choices=choices)
        matrix = await self._request.plan()
        reuse = f"start a new run with `--reuse {found.name}`, which takes over all results that still apply"
        check_unchanged(info, matrix, otherwise=reuse)
        self.run = found
        return matrix


def _new_run(request: _Request, matrix: Matrix) -> ArenaRun:
    from youbencha.engine.results import create_run
    from youbencha.engine.resume import run_info

    file = request.arena.file
    selection = {name: list(getattr(request.selection, name)) for name in _SELECTING}
    info = run_info(matrix, config_file=file, selection=selection, options=_options_of(request))
    return create_run(request.results, info, config=file)


def _options_of(request: _Request) -> dict[str, Any]:
    chosen = request.options()
    return {
        "parallel": chosen.parallel,
        "per_provider": dict(chosen.per_provider),
        "container_starts": chosen.container_starts,
        "retries": chosen.retries.model_dump(),
        "budget_usd": request.choices.budget.total_usd if request.choices.budget else None,
    }


def _announcement(matrix: Matrix, run: ArenaRun, request: _Request, *, resumed: bool) -> str:
    from youbencha.engine.dry_run import describe_plan
    from youbencha.text import plural, usd

    plan = describe_plan(matrix, parallel=request.parallel, attempts=request.options().retries.attempts)
    worst = plan.worst_case.with_retries_usd
    cap = f"at most {usd(float(worst))}" if worst is not None else "no cost limit"
    verb = "resuming" if resumed else "running"
    return f"{verb} {plural(plan.trials, 'trial')}, {cap}; results: {run.path}"


def _check(
    which: str | None, selection: Selection, trials: int | None, reuse: str | None, *, resume: bool, dry_run: bool
) -> None:
    if dry_run and (resume or reuse is not None):
        raise YouBenchaError(
            "OPTION_INVALID", "--dry-run shows the plan of a new run.", hint="Remove --resume or --reuse."
        )
    if which is not None and not resume:
        raise YouBenchaError(
            "OPTION_INVALID", f"{which}: a run is only named with --resume", hint=f"Try --resume {which}."
        )
    if resume and (any(selection) or trials is not None or reuse is not None):
        raise YouBenchaError(
            "OPTION_INVALID",
            "--resume runs what the run planned when it began; it cannot select anything else.",
            hint="Remove the other options; or start a new run with --reuse.",
        )
