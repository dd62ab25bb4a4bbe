"""`yb run`: one test case, from its repository to a verdict."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from youbencha.cli import run_options as options

if TYPE_CHECKING:
    from youbencha.cli.display import Display
    from youbencha.log import ResultsBundle
    from youbencha.trial import Plan

NOT_PASSED = 1


def run(
    config: options.Config,
    delete_workspace: options.DeleteWorkspace = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    var: options.Var = None,
    agent: options.Agent = None,
    model: options.Model = None,
    sandbox: options.Sandbox = None,
    image: options.Image = None,
    network: options.Network = None,
    gateway: options.Gateway = None,
    budget: options.Budget = None,
    record: options.Record = None,
    replay: options.Replay = None,
    cassette: options.Cassette = None,
    workspace_dir: options.WorkspaceDir = None,
) -> int:
    """Run an agent on a repository as a test case says, and judge what it leaves behind.

    Exit code 0: passed · 1: ran, but not passed · 2: could not run · 130: interrupted.

    Example: `yb run -c testcase.yaml`
    """
    from youbencha.process import get_ready

    if not dry_run:
        get_ready()  # while we read the test case and fetch the repository
    from youbencha.cli.agent_options import agent_choice
    from youbencha.cli.asynchronous import run_async
    from youbencha.cli.display import choose_display
    from youbencha.cli.mistakes import advising
    from youbencha.cli.model_options import gateway_options
    from youbencha.cli.sandbox_options import sandbox_option
    from youbencha.cli.settings import settings_here, variables_given
    from youbencha.trial import make_plan, run_test_case

    settings = settings_here()
    with advising(config):
        plan = make_plan(
            config,
            settings,
            variables=variables_given(var),
            workspace_dir=workspace_dir,
            gateway=gateway_options(gateway, budget, record=record, replay=replay, auto=cassette),
            sandbox=sandbox_option(sandbox, image, network),
            agent=agent_choice(agent, model),
        )
    if dry_run:
        _show_plan(plan, as_json=as_json)
        return 0
    quiet = quiet or settings.settings.log_level in ("warn", "error")
    delete = not settings.settings.keep_workspace if delete_workspace is None else delete_workspace
    title = f"{plan.loaded.name} · {plan.case.agent.type}"
    with telling_where(choose_display(title, quiet=quiet)) as display:
        finished = run_async(run_test_case(plan, on_event=display, delete_workspace=delete))
    return conclude(finished.bundle, finished.directory.artifacts, as_json=as_json, quiet=quiet)


@contextmanager
def telling_where(display: Display) -> Iterator[Display]:
    """Whoever interrupts a run learns where that is which was finished."""
    try:
        with display:
            yield display
    except KeyboardInterrupt:
        if display.progress.directory is not None:
            typer.echo(f"interrupted; what was finished is in {display.progress.directory}", err=True)
        raise


def conclude(bundle: ResultsBundle, artifacts: Path, *, as_json: bool, quiet: bool) -> int:
    """Show what came of it: to a person, to a program, to GitHub. The exit code."""
    _tell_github(bundle)
    try:
        _tell(bundle, artifacts, as_json=as_json, quiet=quiet)
    except (OSError, ValueError) as error:  # a reader that is gone, or a full disk, changes no verdict
        if not isinstance(error, BrokenPipeError):
            with suppress(OSError, ValueError):
                typer.echo(f"warning: the result could not be printed ({error}); it is in {artifacts}", err=True)
    return 0 if bundle.summary.overall_status == "passed" else NOT_PASSED


def _tell(bundle: ResultsBundle, artifacts: Path, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        from youbencha.report import render_json

        typer.echo(render_json(bundle), nl=False)
    elif quiet:
        typer.echo(f"{bundle.summary.overall_status}  {artifacts}")
    else:
        _show(bundle, artifacts)


def _tell_github(bundle: ResultsBundle) -> None:
    if not {"GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"} & os.environ.keys():
        return
    from youbencha.report import github_annotations, write_step_summary

    write_step_summary(bundle)
    for line in github_annotations(bundle):
        typer.echo(line, err=True)


def _show(bundle: ResultsBundle, artifacts: Path) -> None:
    from youbencha.report import render_terminal, terminal_text

    lines = render_terminal(bundle, artifacts)
    if sys.stdout is None or not sys.stdout.isatty():
        typer.echo(terminal_text(lines))
        return
    from rich.console import Console
    from rich.text import Text

    from youbencha.cli.layout import hanging

    console = Console(highlight=False, soft_wrap=True)
    width = max(len(label) for label, _ in lines) + 2
    for label, value in lines:
        # Never markup: a model may be called "opus[1m]". And never a table, which cuts a path that is too long.
        style = _STYLES.get(value.partition(":")[0].partition(",")[0], "")
        told = value if label == "Results" else hanging(value, console.width, indent=width)
        console.print(Text.assemble((f"{label:<{width}}", "dim"), (told, style)))


_STYLES = {"passed": "bold green", "failed": "bold red", "partial": "bold yellow", "skipped": "yellow"}


def _told_gateway(plan: Plan) -> str:
    if plan.gateway is None:
        return "none"
    cassette = plan.gateway.spec.cassette
    return plan.gateway.type + (f" ({cassette.mode} {plan.gateway.cassette_dir})" if cassette else "")


def _told_cassette(plan: Plan) -> dict[str, str | list[str]]:
    from youbencha.trial.gateway.foreseeing import foreseen

    found = foreseen(plan)
    return {} if found is None else {"cassette": found.holds, "cassette_lacks": list(found.lacks)}


def _told_sandbox(plan: Plan) -> str:
    from youbencha.spec.sandbox import DEFAULT_IMAGE

    spec = plan.sandbox
    if spec.type == "local":
        return "local"
    reached = {"gateway": "reaches only the gateway", "none": "reaches nothing", "open": "reaches the network"}
    return f"{spec.type} ({spec.image or DEFAULT_IMAGE}; {reached[spec.network]})"


def _show_plan(plan: Plan, *, as_json: bool) -> None:
    from youbencha.workspace import public_url

    case = plan.case
    told = {
        "test_case": plan.loaded.name,
        "config_hash": plan.loaded.config_hash,
        "repo": public_url(case.repo),
        "branch": case.branch,
        "commit": case.commit,
        "expected": case.expected,
        "agent": case.agent.type,
        "agent_version": case.agent.version,
        "model": plan.model,
        "gateway": _told_gateway(plan),
        **_told_cassette(plan),
        "sandbox": _told_sandbox(plan),
        "timeout_ms": plan.timeout_ms,
        "pre_execution": [hook.name for hook in case.pre_execution],
        "evaluators": [evaluator.name for evaluator in plan.loaded.evaluators],
        "post_evaluation": [hook.name for hook in case.post_evaluation],
        "workspace_dir": str(plan.workspace_dir),
    }
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    typer.echo("Would run:")
    for name, value in told.items():
        if value not in (None, []):
            typer.echo(f"  {name:<16} {', '.join(value) if isinstance(value, list) else value}")
