"""`yb run`: run a test case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from youbencha.cli import options

if TYPE_CHECKING:
    from youbencha.trial.plan import Plan


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
    """Run an agent on a repository as a test case describes, and judge the result.

    Exit code 0: passed · 1: ran, but did not pass · 2: could not run · 130: interrupted.

    Example: `yb run -c testcase.yaml`
    """
    from youbencha.process import get_ready

    if not dry_run:
        get_ready()  # in the background, while the test case is read and the repository fetched
    from youbencha.cli.console import show_partial_results, show_result
    from youbencha.cli.display import choose_display
    from youbencha.cli.interrupts import run_async
    from youbencha.trial.plan import PlanOptions, load_plan
    from youbencha.trial.run import run_trial

    host = options.host_here()
    settings = host.settings.settings
    with options.add_hint(config):
        given = PlanOptions(
            workspace_dir=workspace_dir,
            gateway=options.gateway_options(gateway, budget, record=record, replay=replay, auto=cassette),
            sandbox=options.sandbox_option(sandbox, image, network),
        )
        variables, choice = options.variables_given(var), options.agent_choice(agent, model)
        plan = load_plan(config, host, variables=variables, agent=choice, options=given)
    if dry_run:
        show_plan(plan, as_json=as_json)
        return 0
    quiet = quiet or settings.log_level in ("warn", "error")
    delete = not settings.keep_workspace if delete_workspace is None else delete_workspace
    title = f"{plan.name} · {plan.case.agent.type}"
    with show_partial_results(choose_display(title, quiet=quiet)) as display:
        finished = run_async(run_trial(plan, host, on_event=display, delete_workspace=delete))
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
    return plan.gateway.type + (f" ({cassette.mode} {plan.gateway.cassette_dir})" if cassette else "")


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
