"""`yb run`: run a test case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli import options

if TYPE_CHECKING:
    from youbencha.trial.context import Host
    from youbencha.trial.plan import Plan

_MANY = "Many trials"


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
    trials: Annotated[
        int, typer.Option(metavar="N", min=1, help="Of each agent on each test case.", rich_help_panel=_MANY)
    ] = 1,
    parallel: Annotated[
        int, typer.Option(metavar="N", min=1, help="Trials at the same time.", rich_help_panel=_MANY)
    ] = 1,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Continue this run of the same trials (`latest`: the newest).",
            rich_help_panel=_MANY,
        ),
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a JUnit report, too.")] = None,
) -> int:
    """Run an agent on a repository as a test case describes, and judge the result.

    With several test cases, agents, models or trials, all combinations run, and a table compares the agents. Ctrl-C
    then starts no further trials; a second one aborts those that are running.

    Exit code 0: passed (all of them) · 1: ran, but did not pass · 2: could not run · 130: interrupted.

    Example: `yb run -c testcase.yaml`
    """
    from youbencha.process import get_ready

    if not dry_run:
        get_ready()  # in the background, while the test case is read and the repository fetched
    from youbencha.trial.plan import PlanOptions, load_plan

    host = options.host_here()
    settings = host.settings.settings
    given = PlanOptions(
        workspace_dir=workspace_dir,
        gateway=options.gateway_options(gateway, budget, record=record, replay=replay, auto=cassette),
        sandbox=options.sandbox_option(sandbox, image, network),
    )
    variables = options.variables_given(var)
    choices = [options.agent_choice(each, name) for each in agent or (None,) for name in model or (None,)]
    quiet = quiet or settings.log_level in ("warn", "error")
    delete = not settings.keep_workspace if delete_workspace is None else delete_workspace
    if len(config) > 1 or len(choices) > 1 or trials > 1 or resume is not None or config[0].is_dir():
        from youbencha.cli.run_cases import CasesRequest, run_cases

        request = CasesRequest(
            config, choices, host, variables, given, trials, parallel, keep_workspaces=not delete, resume=resume
        )
        return run_cases(request, dry_run=dry_run, as_json=as_json, quiet=quiet, tui=tui, junit=junit)
    with options.add_hint(config[0]):
        plan = load_plan(config[0], host, variables=variables, agent=choices[0], options=given)
    if dry_run:
        show_plan(plan, as_json=as_json)
        return 0
    return _run_one(plan, host, delete_workspace=delete, as_json=as_json, quiet=quiet, tui=tui, junit=junit)


def _run_one(
    plan: Plan, host: Host, *, delete_workspace: bool, as_json: bool, quiet: bool, tui: bool, junit: Path | None
) -> int:
    from youbencha.cli.console import show_partial_results, show_result
    from youbencha.cli.display import choose_display
    from youbencha.cli.interrupts import run_async
    from youbencha.trial.run import run_trial

    title = f"{plan.name} · {plan.case.agent.type}"
    with show_partial_results(choose_display(title, quiet=quiet, tui=tui)) as display:
        trial = run_trial(plan, host, on_event=display, delete_workspace=delete_workspace)
        finished = run_async(display.show(trial))
    if junit is not None:
        from youbencha.report.formats import write_text
        from youbencha.report.junit import render_junit

        write_text(junit, render_junit(finished.bundle))
    return show_result(finished.bundle, finished.directory.artifacts, as_json=as_json, quiet=quiet)


def show_plan(plan: Plan, *, as_json: bool) -> None:
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
    from youbencha.workspace import public_url

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
        "timeout_ms": plan.timeout_ms,
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
    from youbencha.trial.plan import preview_recording

    found = preview_recording(plan)
    return {} if found is None else {"cassette": found.summary, "cassette_lacks": list(found.missing)}


def _sandbox_text(plan: Plan) -> str:
    from youbencha.spec.sandbox import DEFAULT_IMAGE

    spec = plan.sandbox
    if spec.type == "local":
        return "local"
    reached = {"gateway": "reaches only the gateway", "none": "reaches nothing", "open": "reaches the network"}
    return f"{spec.type} ({spec.image or DEFAULT_IMAGE}; {reached[spec.network]})"
