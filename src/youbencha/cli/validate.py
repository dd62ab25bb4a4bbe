"""`yb validate`: check a file without running anything."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli import options

if TYPE_CHECKING:
    from youbencha.errors import Problem
    from youbencha.spec.loader import Loaded
    from youbencha.spec.testcase import EvalConfig, TestCase


def validate(
    config: Annotated[Path, typer.Option("--config", "-c", help="A test case or an eval configuration.")],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show what is unusual but allowed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    var: options.Var = None,
) -> int:
    """Check a test case (or an eval configuration), and everything it refers to. Runs nothing.

    Exit code 0: valid, perhaps with warnings · 2: invalid.

    Example: `yb validate -c testcase.yaml -v`
    """
    import json

    from youbencha.errors import ConfigError
    from youbencha.trial.checks import advice_on, missing_here

    try:
        with options.add_hint(config):
            loaded = _load(config, var)
    except ConfigError as error:
        if as_json:
            problems = [_as_data(problem) for problem in error.problems]
            typer.echo(json.dumps({"valid": False, "problems": problems, "warnings": []}, indent=2))
            return 2
        raise
    warnings = [*missing_here(loaded), *advice_on(loaded, thorough=verbose)]
    if as_json:
        result = {"valid": True, "problems": [], "warnings": [_as_data(warning) for warning in warnings]}
        typer.echo(json.dumps(result, indent=2))
        return 0
    for warning in warnings:
        typer.echo(f"warning  {warning}", err=True)
    evaluators = ", ".join(evaluator.name for evaluator in loaded.evaluators)
    typer.echo(f"valid: {loaded.name} ({evaluators})")
    return 0


def _load(config: Path, var: list[str] | None) -> Loaded[TestCase] | Loaded[EvalConfig]:
    from youbencha.spec.loader import is_eval_config
    from youbencha.trial.evaluation import load_eval_plan
    from youbencha.trial.plan import PlanOptions, load_case, plan_loaded

    host, variables = options.host_here(), options.variables_given(var)
    if is_eval_config(config):
        return load_eval_plan(config, host, variables=variables).loaded
    loaded = load_case(config, host, variables=variables)
    plan_loaded(loaded, host, PlanOptions(resolve_env=False))
    return loaded


def _as_data(problem: Problem) -> dict[str, object]:
    return {**asdict(problem), "file": None if problem.file is None else str(problem.file)}
