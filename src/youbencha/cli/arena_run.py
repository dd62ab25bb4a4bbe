"""The options of `thunderdome run` about where trials run: here, or on a Ray cluster."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from youbencha.cli import options
from youbencha.cli.arena_results import FailIf, GateOptions, Measures
from youbencha.cli.interrupts import run_async
from youbencha.cli.matrix import (
    MatrixDisplay,
    check_matrix,
    check_matrix_models,
    measured,
    run_and_show,
    show_plan,
)
from youbencha.engine.arena import PlanChoices, plan_arena
from youbencha.engine.attempt import OpensExecutor
from youbencha.engine.dry_run import describe_plan
from youbencha.engine.matrix import Matrix
from youbencha.engine.ray.shipping import check_files
from youbencha.engine.resume import check_unchanged, run_info
from youbencha.engine.reuse import Reusable, find_pool, find_reusable, reuse_results
from youbencha.engine.run import MatrixControl, MatrixOptions, run_matrix
from youbencha.engine.schedule import plan_comparisons
from youbencha.engine.selection import Selection
from youbencha.engine.updates import MatrixSummary
from youbencha.errors import YouBenchaError
from youbencha.report.comparison import make_comparison
from youbencha.report.contestants import baseline_pairs
from youbencha.spec.arena import BudgetSpec
from youbencha.spec.arena_loader import Arena
from youbencha.stats.model import MARGIN
from youbencha.store.arena import UntilDecided
from youbencha.store.arena_run import ArenaRun, create_run, find_arena_run
from youbencha.store.read import load_runs
from youbencha.text import format_usd, plural
from youbencha.trial.context import Host
from youbencha.trial.gateways import LOOPBACK

if TYPE_CHECKING:
    from youbencha.engine.ray.cluster import Cluster

_WHERE = "Where it runs"


class ExecutorName(StrEnum):
    LOCAL = "local"
    RAY = "ray"


Executor = Annotated[
    ExecutorName, typer.Option(help="Run trials in this process, or on a Ray cluster.", rich_help_panel=_WHERE)
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The Ray cluster. Default: $RAY_ADDRESS; without that, Ray is started here.",
        rich_help_panel=_WHERE,
    ),
]


class TrialPlace(NamedTuple):
    """Where trials run."""

    cluster: Cluster | None
    """None: in this process."""

    def open_executor(self, matrix: Matrix, arena: Arena, results: Path) -> OpensExecutor | None:
        """Make what opens the executor; None: trials run here. Raises if no node of the cluster can run a trial."""
        if self.cluster is None:
            return None
        from youbencha.engine.ray.executor import check_resources, opens_ray_executor

        check_resources(matrix, self.cluster)
        for cell in matrix.cells:
            check_files(cell.plan)
        secrets = arena.spec.secrets.env_file
        never = [results, *([arena.directory / Path(secrets).expanduser()] if secrets else [])]
        return opens_ray_executor(self.cluster, never_sent=never)


HERE = TrialPlace(None)


class ExecutorOptions(NamedTuple):
    name: ExecutorName
    address: str | None

    def check(self) -> None:
        if self.address is not None and self.name is ExecutorName.LOCAL:
            hint = "Add --executor ray."
            raise YouBenchaError("OPTION_INVALID", "--address is the address of a Ray cluster.", hint=hint)

    @asynccontextmanager
    async def opened(self, env: Mapping[str, str]) -> AsyncIterator[TrialPlace]:
        """Connect to the cluster, if that is where trials run."""
        if self.name is ExecutorName.LOCAL:
            yield HERE
            return
        from youbencha.engine.ray.cluster import connect

        async with connect(self.address, env) as cluster:
            yield TrialPlace(cluster)


_DECIDED = "Until it is known which is better"

Decided = Annotated[
    bool,
    typer.Option(
        "--until-decided",
        help="Run pairs of trials until each orchestrator is better than, worse than or equivalent to its baseline.",
        rich_help_panel=_DECIDED,
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        metavar="M",
        help="Treat score differences within ±M as equivalent. Default: 0.05.",
        rich_help_panel=_DECIDED,
    ),
]
MaxTrials = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=2,
        help="Stop after N trials in total. Default: 20 per orchestrator and task.",
        rich_help_panel=_DECIDED,
    ),
]


class UntilOptions(NamedTuple):
    """When the run ends, if not after a fixed number of trials."""

    decided: bool = False
    margin: float | None = None
    max_trials: int | None = None

    def check(self, trials: int | None, *, resume: bool) -> None:
        """Raise if the options do not go together."""
        if self.margin is not None and not 0 < self.margin < 1:
            raise _invalid(f"--margin {self.margin:g} is not between 0 and 1.", None)
        if self.margin is not None and resume:
            hint = "Remove --margin: a verdict must not depend on results that are known."
            raise _invalid("--resume keeps the margin that the run began with.", hint)
        if self.decided and trials is not None:
            hint = "Use --max-trials, which limits the trials of the whole run."
            raise _invalid("--trials cannot be combined with --until-decided.", hint)
        if (self.margin is not None or self.max_trials is not None) and not (self.decided or resume):
            raise _invalid("--margin and --max-trials are for --until-decided.", "Add --until-decided.")

    def of_run(self, recorded: UntilDecided | None) -> UntilOptions:
        """Return what a run that is resumed began with."""
        if recorded is not None:
            return UntilOptions(True, recorded.margin, recorded.max_trials)
        if self.decided or self.max_trials is not None:
            hint = "Start a new run with --until-decided and --reuse, which takes over its results."
            raise _invalid("The run was begun without --until-decided.", hint)
        return UntilOptions()

    def plan(self, matrix: Matrix) -> Matrix:
        if not self.decided:
            return matrix

        return plan_comparisons(matrix, margin=self.margin or MARGIN, max_trials=self.max_trials)

    def raise_limit(self, matrix: Matrix, run: ArenaRun) -> Matrix:
        """Continue a run with more trials than it began with, if more are given."""
        began = matrix.until_decided
        if began is None or self.max_trials is None:
            return matrix
        if self.max_trials < began.max_trials:
            raise _invalid(f"The run began with --max-trials {began.max_trials}, which can only be raised.", None)
        more = UntilOptions(True, began.margin, self.max_trials).plan(matrix)
        with run.locked():
            changed = {"trials": more.trials, "until_decided": more.until_decided}
            run.replace_info(run.info().model_copy(update=changed))
        return more


def _invalid(message: str, hint: str | None) -> YouBenchaError:
    return YouBenchaError("OPTION_INVALID", message, hint=hint)


_WHAT, _AGAIN = "What runs", "With earlier results"
_SELECTING = ("orchestrators", "tasks", "categories")
Names = list[str] | None


Which = Annotated[str | None, typer.Argument(metavar="[RUN]", help="The run to resume. Default: the latest.")]
Orchestrator = Annotated[
    Names, typer.Option(metavar="NAME", help="Only these orchestrators; `*` matches any text.", rich_help_panel=_WHAT)
]
Task = Annotated[
    Names,
    typer.Option(
        metavar="TASK",
        help="Only these tasks: an id, a name, a repository or the end of its path.",
        rich_help_panel=_WHAT,
    ),
]
Category = Annotated[
    Names,
    typer.Option(
        metavar="NAME", help="Only tasks in these categories; `suite/*` is a whole suite.", rich_help_panel=_WHAT
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Number of trials for each orchestrator and task.", rich_help_panel=_WHAT),
]
Parallel = Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of trials to run at the same time.")]
Budget = Annotated[float | None, typer.Option(metavar="USD", min=0, help="Budget for all trials together.")]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue a stopped or killed run.", rich_help_panel=_AGAIN),
]
Reuse = Annotated[
    str | None,
    typer.Option(
        metavar="RUN|DIR",
        help="Reuse results that still apply, from a run or from all runs in a directory; rescore them if only the"
        " validation changed.",
        rich_help_panel=_AGAIN,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and its maximum cost without running anything.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Results = Annotated[Path | None, typer.Option(metavar="DIR", help="Where results are written.")]
CleanupAggressive = Annotated[bool, typer.Option("--cleanup-aggressive", hidden=True)]


def run(
    which: Which = None,
    orchestrator: Orchestrator = None,
    task: Task = None,
    category: Category = None,
    trials: Trials = None,
    until_decided: Decided = False,
    margin: Margin = None,
    max_trials: MaxTrials = None,
    parallel: Parallel = None,
    budget: Budget = None,
    executor: Executor = ExecutorName.LOCAL,
    address: Address = None,
    resume: Resume = False,
    reuse: Reuse = None,
    fail_if: FailIf = None,
    measure: Measures = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: options.Quiet = False,
    tui: options.Tui = False,
    config: options.ArenaFile = options.ARENA_FILE,
    results: Results = None,
    cleanup_aggressive: CleanupAggressive = False,
) -> int:
    """Run a matrix of orchestrators, tasks and trials.

    Ctrl-C starts no further trials and waits for those that are running; a second one aborts them. Then `--resume`
    continues.

    Exit code 0: everything ran, and every trial measured its agent; with --until-decided, it ended as planned, decided
    or not · 1: otherwise · 2: nothing could be run · 130: interrupted.

    Example: `thunderdome run --orchestrator claude-code --task bench-time-tracker --trials 3`
    """
    selection = Selection(tuple(orchestrator or ()), tuple(task or ()), tuple(category or ()))
    _check(which, selection, trials, reuse, resume=resume, dry_run=dry_run)
    until = UntilOptions(until_decided, margin, max_trials)
    until.check(trials, resume=resume)
    gate = GateOptions(fail_if, tuple(measure or ()))
    gate.check()
    where = ExecutorOptions(executor, address)
    where.check()
    host = options.host_here()
    arena = options.arena_here(config, host, resolve_env=not dry_run)
    directory = results or arena.results_dir
    limit = None if budget is None else BudgetSpec(total_usd=budget)
    choices = PlanChoices(trials=trials, budget=limit, resolve_env=not dry_run)
    request = _Request(arena, host, directory, selection, choices, parallel, until, gate)
    if dry_run:
        matrix = run_async(request.plan())
        show_plan(matrix, request.options(), as_json=as_json, reusable=request.find_reusable(matrix, reuse))
        return 0
    say = not (quiet or as_json)
    session = _Session(request, which if resume else None, where, resume=resume, reuse=reuse, say=say)
    again, title = _command(config, results, where), config.name if tui else None
    return run_and_show(session, as_json=as_json, quiet=quiet, tui=title, resume=again, succeeded=session.succeeded)


def _command(config: Path, results: Path | None, where: ExecutorOptions) -> str:
    """The command that runs this arena again, without what `--resume` knows."""
    given = {
        "--config": config if config != options.ARENA_FILE else None,
        "--results": results,
        "--executor": where.name if where.name is not ExecutorName.LOCAL else None,
        "--address": where.address,
    }
    words = ["thunderdome", "run", *(word for name, value in given.items() if value for word in (name, str(value)))]
    return shlex.join(words)


class _Request(NamedTuple):
    """What the command line asks for."""

    arena: Arena
    host: Host
    results: Path
    selection: Selection
    choices: PlanChoices
    given_parallel: int | None
    until: UntilOptions
    gate: GateOptions
    place: TrialPlace = HERE

    @property
    def parallel(self) -> int:
        """Trials at the same time. On a cluster by default as many as it has CPUs."""
        cluster = self.place.cluster
        return self.given_parallel or (cluster.cpus if cluster else self.arena.spec.parallel)

    def options(self) -> MatrixOptions:
        spec = self.arena.spec
        return MatrixOptions(
            parallel=self.parallel,
            per_provider={str(name): most for name, most in spec.parallel_per_provider.items()},
            container_starts=spec.container_starts,
            retries=spec.retries,
            keep_workspaces=spec.results.keep_workspaces,
            listen=self.place.cluster.driver_host if self.place.cluster else LOOPBACK,
        )

    async def plan(self) -> Matrix:
        matrix = await plan_arena(self.arena, self.host, self.selection, self.choices)
        self.gate.check_comparisons(matrix)
        return self.until.plan(matrix)

    def find_reusable(self, matrix: Matrix, reuse: str | None) -> Reusable | None:
        return None if reuse is None else find_reusable(matrix, find_pool(self.results, reuse))


class _Session:
    """One invocation: it plans, makes the directory of a run or finds it, and runs the matrix."""

    def __init__(
        self,
        request: _Request,
        which: str | None,
        where: ExecutorOptions,
        *,
        resume: bool,
        reuse: str | None,
        say: bool,
    ) -> None:
        self.run: ArenaRun | None = None
        self._request = request
        self._which = which
        self._where = where
        self._resume = resume
        self._reuse = reuse
        self._say = say

    async def work(self, display: MatrixDisplay, control: MatrixControl) -> MatrixSummary:
        async with self._where.opened(self._request.host.env) as place:
            self._request = self._request._replace(place=place)
            return await self._work(display, control)

    def succeeded(self, summary: MatrixSummary) -> bool:
        """Whether every trial measured its agent, and the gate passed, if there is one."""
        gate = self._request.gate
        if gate.fail_if is None:
            return measured(summary)
        assert self.run is not None
        report = make_comparison(baseline_pairs(load_runs([self.run.path])))
        gated = gate.apply(report, "thunderdome run")
        return measured(summary) and gated is not None and not gated.failed and not gated.unknown

    async def _work(self, display: MatrixDisplay, control: MatrixControl) -> MatrixSummary:
        request = self._request
        if self._resume:
            matrix = await self._plan_again()
        else:
            matrix = await request.plan()
        open_executor = request.place.open_executor(matrix, request.arena, request.results)
        if open_executor is None:
            await check_matrix(matrix, request.host.env)
        reusable = request.find_reusable(matrix, self._reuse)
        if reusable is not None:
            matrix = reusable.mark_rerun(matrix)
        if not self._resume:
            await check_matrix_models(matrix, reusable.trials if reusable else ())
            self.run = _new_run(request, matrix)
        assert self.run is not None
        if self._say:
            display.announce(_announcement(matrix, self.run, request, reusable, resumed=self._resume))
        with display:
            if reusable is not None:
                reused = await reuse_results(reusable, request.host, self.run, parallel=request.parallel)
                display.print("", "", f"{reused.unchanged} trials reused, {reused.rescored} scored again")
            chosen = request.options()
            return await run_matrix(
                matrix, request.host, self.run, chosen, display, control=control, open_executor=open_executor
            )

    async def _plan_again(self) -> Matrix:
        """Plan what the run planned when it began."""
        run = find_arena_run(self._request.results, self._which)
        info = run.info()
        selection = Selection(*(tuple(info.selection.get(name, ())) for name in _SELECTING))
        choices = self._request.choices._replace(trials=info.trials)
        given = self._request.until
        until = given.of_run(info.until_decided)
        self._request = self._request._replace(selection=selection, choices=choices, until=until)
        matrix = await self._request.plan()
        reuse = f"start a new run with `--reuse {run.name}`, which takes over all results that still apply"
        check_unchanged(info, matrix, otherwise=reuse)
        self.run = run
        rerun = {(cell.orchestrator, cell.task): frozenset(cell.rerun) for cell in info.cells}
        cells = tuple(replace(cell, rerun=rerun[cell.orchestrator, cell.task]) for cell in matrix.cells)
        return given.raise_limit(replace(matrix, cells=cells, baselines=info.baselines), run)


def _new_run(request: _Request, matrix: Matrix) -> ArenaRun:
    file = request.arena.file
    selection = {name: list(getattr(request.selection, name)) for name in _SELECTING}
    info = run_info(matrix, config_file=file, selection=selection, options=_recorded_options(request))
    return create_run(request.results, info, config=file)


def _recorded_options(request: _Request) -> dict[str, Any]:
    chosen = request.options()
    return {
        "parallel": chosen.parallel,
        "per_provider": dict(chosen.per_provider),
        "container_starts": chosen.container_starts,
        "retries": chosen.retries.model_dump(),
        "budget_usd": request.choices.budget.total_usd if request.choices.budget else None,
    }


def _announcement(matrix: Matrix, run: ArenaRun, request: _Request, reusable: Reusable | None, *, resumed: bool) -> str:
    attempts = request.options().retries.attempts
    plan = describe_plan(matrix, parallel=request.parallel, attempts=attempts, reusable=reusable)
    worst = plan.worst_case.with_retries_usd
    cap = f"at most {format_usd(float(worst))}" if worst is not None else "no cost limit"
    verb = "resuming" if resumed else "running"
    left = plan.trials if matrix.until_decided or reusable is None else plan.trials - len(reusable.trials)
    trials = f"{'at most ' if matrix.until_decided else ''}{plural(left, 'trial')}"
    return f"{verb} {trials}, {cap}; results: {run.path}"


def _check(
    which: str | None, selection: Selection, trials: int | None, reuse: str | None, *, resume: bool, dry_run: bool
) -> None:
    if dry_run and resume:
        raise YouBenchaError("OPTION_INVALID", "--dry-run shows the plan of a new run.", hint="Remove --resume.")
    if which is not None and not resume:
        raise YouBenchaError(
            "OPTION_INVALID",
            f"Only --resume takes the name of a run; {which} was given without it.",
            hint=f"Try --resume {which}.",
        )
    if resume and (any(selection) or trials is not None or reuse is not None):
        raise YouBenchaError(
            "OPTION_INVALID",
            "--resume runs what the run planned when it began; it cannot change the selection.",
            hint="Remove the other options, or start a new run with --reuse.",
        )
