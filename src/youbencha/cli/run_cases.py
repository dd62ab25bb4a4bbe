"""`yb run` with several test cases, agents, models or trials: they are one matrix, run by the engine."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.cli.interrupts import run_async
from youbencha.cli.matrix import check_engine, check_matrix_models, check_matrix_versions, run_and_show, show_plan
from youbencha.engine.cases import find_cases, plan_cases
from youbencha.errors import YouBenchaError
from youbencha.store.layout import BENCH_DIR
from youbencha.text import plural

if TYPE_CHECKING:
    from youbencha.cli.matrix_display import MatrixDisplay
    from youbencha.engine.matrix import Matrix
    from youbencha.engine.run import MatrixControl, MatrixOptions
    from youbencha.engine.updates import MatrixSummary
    from youbencha.spec.testcase import AgentOverride
    from youbencha.store.arena_run import ArenaRun
    from youbencha.trial.context import Host
    from youbencha.trial.plan import PlanOptions

_CONTAINER_STARTS = 4


class CasesRequest(NamedTuple):
    """What the command line asks for."""

    given: Sequence[Path]
    """Test cases, and directories of them."""
    agents: Sequence[AgentOverride]
    host: Host
    variables: Mapping[str, Any]
    plan_options: PlanOptions
    trials: int
    parallel: int
    keep_workspaces: bool
    resume: str | None

    @property
    def results(self) -> Path:
        return Path(self.plan_options.workspace_dir or self.host.settings.workspace_dir) / BENCH_DIR

    async def plan(self, *, resolve_commits: bool = True) -> Matrix:
        found = find_cases(self.given)
        for file in found.skipped:
            print(f"note     {file} is not a test case, and is skipped", file=sys.stderr)
        return await plan_cases(
            found.files,
            list(dict.fromkeys(self.agents)),
            self.host,
            trials=self.trials,
            variables=self.variables,
            options=self.plan_options,
            resolve_commits=resolve_commits,
        )

    def options(self) -> MatrixOptions:
        from youbencha.engine.run import MatrixOptions

        return MatrixOptions(
            parallel=self.parallel, container_starts=_CONTAINER_STARTS, keep_workspaces=self.keep_workspaces
        )


def run_cases(
    request: CasesRequest, *, dry_run: bool, as_json: bool, quiet: bool, tui: bool, junit: Path | None
) -> int:
    """Run all combinations, show the table, and return the exit code: 0 only if every trial passed."""
    if request.plan_options.gateway.cassette is not None:
        raise YouBenchaError(
            "OPTION_INVALID",
            "--record, --replay and --cassette are for a single trial: a recording holds one.",
            hint="Run the test cases one by one, or set `gateway.cassette` in each.",
        )
    if dry_run:
        show_plan(run_async(request.plan(resolve_commits=False)), request.options(), as_json=as_json)
        return 0
    session = _Session(request, say=not (quiet or as_json))
    title = ", ".join(path.name for path in request.given)
    try:
        return run_and_show(
            session.work,
            lambda: session.run,
            as_json=as_json,
            quiet=quiet,
            tui=title if tui else None,
            by_task=True,
            resume="the same options and",
            succeeded=lambda summary: all(row.outcome == "solved" for row in summary.rows),
        )
    finally:
        if junit is not None and session.run is not None:
            _write_junit(session.run, junit)


class _Session:
    """One invocation: it plans, makes the directory of a run or finds it, and runs the matrix."""

    def __init__(self, request: CasesRequest, *, say: bool) -> None:
        self.run: ArenaRun | None = None
        self._request = request
        self._say = say

    async def work(self, display: MatrixDisplay, control: MatrixControl) -> MatrixSummary:
        from youbencha.engine.run import run_matrix

        request = self._request
        matrix = await request.plan()
        await check_engine(matrix)
        await check_matrix_versions(matrix, request.host.env)
        if not request.resume:
            await check_matrix_models(matrix)
        run = _found_run(request, matrix) if request.resume else _new_run(request, matrix)
        self.run = run
        if self._say:
            trials = plural(matrix.total, "trial")
            display.announce(f"{'resuming' if request.resume else 'running'} {trials}; results: {run.path}")
            gateways = filter(None, (cell.plan.gateway for cell in matrix.cells))
            for address in sorted({address for gateway in gateways for address in gateway.custom_addresses}):
                display.announce(f"the gateway sends requests to {address}")
        with display:
            return await run_matrix(matrix, request.host, run, request.options(), display, control=control)


def _new_run(request: CasesRequest, matrix: Matrix) -> ArenaRun:
    from youbencha.engine.resume import run_info
    from youbencha.store.arena_run import create_run

    selection = {"config": [str(path) for path in request.given]}
    options = {"parallel": request.parallel, "container_starts": _CONTAINER_STARTS}
    return create_run(request.results, run_info(matrix, selection=selection, options=options))


def _found_run(request: CasesRequest, matrix: Matrix) -> ArenaRun:
    from youbencha.engine.resume import check_unchanged
    from youbencha.store.arena_run import find_arena_run

    run = find_arena_run(request.results, request.resume)
    check_unchanged(run.info(), matrix)
    return run


def _write_junit(run: ArenaRun, file: Path) -> None:
    from youbencha.report.formats import write_text
    from youbencha.report.leaderboard import make_leaderboard
    from youbencha.report.leaderboard_formats import render_leaderboard_junit
    from youbencha.store.read import load_runs

    write_text(file, render_leaderboard_junit(make_leaderboard(load_runs([run.path]))))
