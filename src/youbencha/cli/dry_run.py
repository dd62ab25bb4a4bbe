"""`yb run --dry-run`: what would be done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from youbencha.trial import Plan


def show_plan(plan: Plan, *, as_json: bool) -> None:
    """For a person, or as JSON."""
    told = _told(plan)
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    typer.echo("Would run:")
    for name, value in told.items():
        if value not in (None, []):
            typer.echo(f"  {name:<16} {', '.join(value) if isinstance(value, list) else value}")


def _told(plan: Plan) -> dict[str, object]:
    from youbencha.workspace import public_url

    case = plan.case
    return {
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
