"""`yb run`: run a test case."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from youbencha.cli import NOT_PASSED, options
from youbencha.cli.display import Display, choose_display
from youbencha.cli.interrupts import run_async
from youbencha.cli.matrix import (
    MatrixDisplay,
    check_matrix,
    check_matrix_models,
    run_and_show,
    show_plan,
)
from youbencha.cli.terminal import console_on, terminal_width, wrap
from youbencha.engine.cases import find_cases, plan_cases
from youbencha.engine.matrix import Matrix
from youbencha.engine.resume import check_unchanged, run_info
from youbencha.engine.run import MatrixControl, MatrixOptions, run_matrix
from youbencha.engine.updates import MatrixSummary
from youbencha.errors import YouBenchaError
from youbencha.process import warm_up
from youbencha.report.formats import render_json, write_text
from youbencha.report.junit import render_junit
from youbencha.report.leaderboard import make_leaderboard
from youbencha.report.leaderboard_formats import render_leaderboard_junit
from youbencha.report.sharing import make_shareable
from youbencha.report.summary import (
    github_annotations,
    label_width,
    render_step_summary,
    render_terminal,
    terminal_text,
    write_step_summary,
)
from youbencha.spec.sandbox import DEFAULT_IMAGE
from youbencha.spec.testcase import AgentOverride
from youbencha.store.arena_run import ArenaRun, create_run, find_arena_run
from youbencha.store.bundle import ResultsBundle
from youbencha.store.layout import BENCH_DIR
from youbencha.store.read import load_runs
from youbencha.text import plural
from youbencha.trial.context import Host
from youbencha.trial.evaluation import evaluate_directory, load_eval_plan
from youbencha.trial.plan import Plan, PlanOptions, load_plan, preview_recording
from youbencha.trial.run import run_trial
from youbencha.workspace import public_url

_MANY = "Many trials"


Trials = Annotated[
    int, typer.Option(metavar="N", min=1, help="Number of trials for each agent and test case.", rich_help_panel=_MANY)
]
Parallel = Annotated[
    int, typer.Option(metavar="N", min=1, help="Number of trials to run at the same time.", rich_help_panel=_MANY)
]
Resume = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Continue this run of the same trials; `latest` is the newest.",
        rich_help_panel=_MANY,
    ),
]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a JUnit report.")]


def run(
    config: options.Configs,
    delete_workspace: options.DeleteWorkspace = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    tui: options.Tui = False,
    dry_run: options.DryRun = False,
    var: options.Var = None,
    agent: options.Agents = None,
    model: options.Models = None,
    sandbox: options.Sandbox = None,
    image: options.Image = None,
    network: options.Network = None,
    gateway: options.Gateway = None,
    budget: options.Budget = None,
    record: options.Record = None,
    replay: options.Replay = None,
    cassette: options.Cassette = None,
    workspace_dir: options.WorkspaceDir = None,
    trials: Trials = 1,
    parallel: Parallel = 1,
    resume: Resume = None,
    junit: Junit = None,
) -> int:
    """Run an agent on a repository as a test case describes, and judge the result.

    With several test cases, agents, models or trials, all combinations run, and a table compares the agents. Ctrl-C
    then starts no further trials; a second one aborts those that are running.

    Exit code 0: passed (all of them) · 1: ran, but did not pass · 2: could not run · 130: interrupted.

    Example: `yb run -c testcase.yaml`
    """
    if not dry_run:
        warm_up()  # in the background, while the test case is read and the repository fetched

    host = options.host_here()
    settings = host.settings.settings
    given = PlanOptions(
        workspace_dir=workspace_dir,
        gateway=options.gateway_options(gateway, budget, record=record, replay=replay, auto=cassette),
        sandbox=options.sandbox_option(sandbox, image, network),
    )
    variables = options.variables_given(var)
    choices = [options.agent_choice(kind, name) for kind in agent or (None,) for name in model or (None,)]
    quiet = quiet or settings.log_level in ("warn", "error")
    delete = not settings.keep_workspace if delete_workspace is None else delete_workspace
    if len(config) > 1 or len(choices) > 1 or trials > 1 or resume is not None or config[0].is_dir():
        request = CasesRequest(
            config, choices, host, variables, given, trials, parallel, keep_workspaces=not delete, resume=resume
        )
        return run_cases(request, dry_run=dry_run, as_json=as_json, quiet=quiet, tui=tui, junit=junit)
    with options.add_hint(config[0]):
        plan = load_plan(config[0], host, variables=variables, agent=choices[0], options=given)
    if dry_run:
        show_case_plan(plan, as_json=as_json)
        return 0
    return _run_one(plan, host, delete_workspace=delete, as_json=as_json, quiet=quiet, tui=tui, junit=junit)


def _run_one(
    plan: Plan, host: Host, *, delete_workspace: bool, as_json: bool, quiet: bool, tui: bool, junit: Path | None
) -> int:
    title = f"{plan.name} · {plan.case.agent.type}"
    with show_partial_results(choose_display(title, quiet=quiet, tui=tui)) as display:
        trial = run_trial(plan, host, on_event=display, delete_workspace=delete_workspace)
        finished = run_async(display.show(trial))
    if junit is not None:
        write_text(junit, render_junit(finished.bundle))
    return show_result(finished.bundle, finished.directory.artifacts, as_json=as_json, quiet=quiet)


def show_case_plan(plan: Plan, *, as_json: bool) -> None:
    """Print what `yb run` would do, as text or JSON."""
    rows = _plan_rows(plan)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    typer.echo("Would run:")
    for name, value in rows.items():
        if value not in (None, []):
            typer.echo(f"  {name:<16} {', '.join(value) if isinstance(value, list) else value}")


def _plan_rows(plan: Plan) -> dict[str, object]:
    case = plan.case
    return {
        "test_case": plan.name,
        "config_hash": plan.config_hash,
        "repo": public_url(case.repo),
        "branch": case.branch,
        "commit": case.commit,
        "expected": case.expected,
        "agent": case.agent.type,
        "agent_version": case.agent.version,
        "model": plan.model,
        "gateway": _gateway_text(plan),
        **_cassette_rows(plan),
        "sandbox": _sandbox_text(plan),
        "timeout_ms": round(plan.timeout_s * 1000),
        "pre_execution": [hook.name for hook in case.pre_execution],
        "evaluators": [evaluator.name for evaluator in plan.evaluators],
        "post_evaluation": [hook.name for hook in case.post_evaluation],
        "workspace_dir": str(plan.workspace_dir),
    }


def _gateway_text(plan: Plan) -> str:
    if plan.gateway is None:
        return "none"
    cassette = plan.gateway.spec.cassette
    details = [f"{cassette.mode} {plan.gateway.cassette_dir}"] if cassette else []
    details += plan.gateway.custom_addresses
    return plan.gateway.type + (f" ({'; '.join(details)})" if details else "")


def _cassette_rows(plan: Plan) -> dict[str, str | list[str]]:
    preview = preview_recording(plan)
    return {} if preview is None else {"cassette": preview.summary, "cassette_lacks": list(preview.missing)}


def _sandbox_text(plan: Plan) -> str:
    spec = plan.sandbox
    if spec.type == "local":
        return "local"
    reached = {"gateway": "reaches only the gateway", "none": "reaches nothing", "open": "reaches the network"}
    return f"{spec.type} ({spec.image or DEFAULT_IMAGE}; {reached[spec.network]})"


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
        cases = find_cases(self.given)
        for file in cases.skipped:
            print(f"note     {file} is not a test case, and is skipped", file=sys.stderr)
        return await plan_cases(
            cases.files,
            list(dict.fromkeys(self.agents)),
            self.host,
            trials=self.trials,
            variables=self.variables,
            options=self.plan_options,
            resolve_commits=resolve_commits,
        )

    def options(self) -> MatrixOptions:
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
            "--record, --replay and --cassette need a single test case: a recording contains one trial.",
            hint="Run the test cases one by one, or set `gateway.cassette` in each.",
        )
    if dry_run:
        show_plan(run_async(request.plan(resolve_commits=False)), request.options(), as_json=as_json)
        return 0
    session = _Session(request, say=not (quiet or as_json))
    title = ", ".join(path.name for path in request.given)
    try:
        return run_and_show(
            session,
            as_json=as_json,
            quiet=quiet,
            tui=title if tui else None,
            by_task=True,
            resume="the same options and",
            succeeded=lambda summary: all(meta.outcome == "solved" for meta in summary.finished),
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
        request = self._request
        matrix = await request.plan()
        await check_matrix(matrix, request.host.env)
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
    selection = {"config": [str(path) for path in request.given]}
    options = {"parallel": request.parallel, "container_starts": _CONTAINER_STARTS}
    return create_run(request.results, run_info(matrix, selection=selection, options=options))


def _found_run(request: CasesRequest, matrix: Matrix) -> ArenaRun:
    run = find_arena_run(request.results, request.resume)
    check_unchanged(run.info(), matrix)
    return run


def _write_junit(run: ArenaRun, file: Path) -> None:
    write_text(file, render_leaderboard_junit(make_leaderboard(load_runs([run.path]))))


def evaluate(
    config: Annotated[Path, typer.Option("--config", "-c", help="The eval configuration (YAML or JSON).")],
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    var: options.Var = None,
) -> int:
    """Judge a directory: no agent runs, and the directory does not change.

    Exit codes as for `yb run`.

    Example: `yb eval -c eval.yaml`
    """
    host = options.host_here()
    quiet = quiet or host.settings.settings.log_level in ("warn", "error")
    with options.add_hint(config):
        plan = load_eval_plan(config, host, variables=options.variables_given(var))
    with show_partial_results(choose_display(plan.loaded.name, quiet=quiet)) as display:
        finished = run_async(evaluate_directory(plan, host, on_event=display))
    return show_result(finished.bundle, finished.directory.artifacts, as_json=as_json, quiet=quiet)


_STYLES = {"passed": "bold green", "failed": "bold red", "partial": "bold yellow", "skipped": "yellow"}


@contextmanager
def show_partial_results(display: Display) -> Iterator[Display]:
    """Print where the results so far are if the run is interrupted."""
    try:
        with display:
            yield display
    except KeyboardInterrupt:
        if display.progress.directory is not None:
            typer.echo(f"interrupted; results so far: {display.progress.directory}", err=True)
        raise


def show_result(bundle: ResultsBundle, artifacts: Path, *, as_json: bool, quiet: bool) -> int:
    """Show the result on the terminal, as JSON or on GitHub, and return the exit code."""
    _show_on_github(bundle, artifacts)
    try:
        _print_result(bundle, artifacts, as_json=as_json, quiet=quiet)
    except (OSError, ValueError) as error:  # a closed pipe or a full disk does not change the verdict
        if not isinstance(error, BrokenPipeError):
            with suppress(OSError, ValueError):
                typer.echo(f"warning: the result could not be printed ({error}); it is in {artifacts}", err=True)
    return 0 if bundle.summary.overall_status == "passed" else NOT_PASSED


def _print_result(bundle: ResultsBundle, artifacts: Path, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(render_json(bundle), nl=False)
    elif quiet:
        typer.echo(f"{bundle.summary.overall_status}  {artifacts}")
    else:
        _show(bundle, artifacts)


def _show_on_github(bundle: ResultsBundle, artifacts: Path) -> None:
    if not {"GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"} & os.environ.keys():
        return

    write_step_summary(render_step_summary(make_shareable(bundle, artifacts)))
    for line in github_annotations(bundle):
        typer.echo(line, err=True)


def _show(bundle: ResultsBundle, artifacts: Path) -> None:
    lines = render_terminal(bundle, artifacts)
    if sys.stdout is None or not sys.stdout.isatty():
        typer.echo(terminal_text(lines))
        return

    console, screen, width = console_on(sys.stdout), terminal_width(sys.stdout), label_width(lines)
    for label, value in lines:
        # No markup, because a model may be called "opus[1m]". No table, which would cut long paths.
        style = _STYLES.get(value.partition(":")[0].partition(",")[0], "")
        text = value if label == "Results" else wrap(value, screen, indent=width)
        console.print(Text.assemble((f"{label:<{width}}", "dim" if value else ""), (text, style)))
