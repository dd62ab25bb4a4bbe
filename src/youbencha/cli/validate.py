"""`yb validate`: check a file without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from youbencha.cli import options

if TYPE_CHECKING:
    from youbencha.errors import Problem
    from youbencha.spec.loader import Loaded
    from youbencha.spec.testcase import EvalConfig, TestCase


def validate(
    config: Annotated[
        Path, typer.Option("--config", "-c", help="A test case, an eval configuration, an arena or a loop.")
    ],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show what is unusual but allowed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    var: options.Var = None,
) -> int:
    """Check a test case (or an eval configuration, an arena, a loop), and everything it refers to. Runs nothing.

    Exit code 0: valid, perhaps with warnings · 2: invalid.

    Example: `yb validate -c testcase.yaml -v`
    """
    import json

    from youbencha.errors import ConfigError

    try:
        with options.add_hint(config):
            checked = _check(config, var, thorough=verbose)
    except ConfigError as error:
        if as_json:
            problems = [_as_data(problem) for problem in error.problems]
            typer.echo(json.dumps({"valid": False, "problems": problems, "warnings": []}, indent=2))
            return 2
        raise
    if as_json:
        result = {"valid": True, "problems": [], "warnings": [_as_data(warning) for warning in checked.warnings]}
        typer.echo(json.dumps(result, indent=2))
        return 0
    for warning in checked.warnings:
        typer.echo(f"warning  {warning}", err=True)
    typer.echo(f"valid: {checked.summary}")
    return 0


class _Checked(NamedTuple):
    summary: str
    warnings: Sequence[Problem] = ()


def _check_arena(config: Path) -> _Checked:
    from youbencha.engine.arena import load_arena, missing_prerequisites
    from youbencha.text import plural

    arena = load_arena(config, options.host_here(), resolve_env=False)
    parts = [plural(len(arena.spec.orchestrators), "orchestrator")]
    if variants := len(arena.entries) - len(arena.spec.orchestrators):
        parts.append(plural(variants, "variant"))
    summary = ", ".join([*parts, plural(len(arena.spec.tasks), "task")])
    return _Checked(summary, [*arena.notices, *missing_prerequisites(arena)])


def _check(config: Path, var: list[str] | None, *, thorough: bool) -> _Checked:
    from youbencha.spec.arena_loader import is_arena
    from youbencha.spec.loop_loader import is_loop_file

    if is_arena(config):
        return _check_arena(config)
    return _check_loop(config) if is_loop_file(config) else _check_case(config, var, thorough=thorough)


def _check_loop(config: Path) -> _Checked:
    from youbencha.loop.plan import check_loop
    from youbencha.spec.loop_loader import load_loop_file
    from youbencha.text import plural

    file = load_loop_file(config)
    check_loop(file, options.host_here())
    parts = [
        f"the backend {file.spec.cli.backend}",
        plural(len(file.spec.hats), "hat"),
        plural(len(file.spec.gates), "gate"),
    ]
    return _Checked(", ".join(parts), file.warnings)


def _check_case(config: Path, var: list[str] | None, *, thorough: bool) -> _Checked:
    from youbencha.cli.interrupts import run_async
    from youbencha.spec.loader import is_eval_config
    from youbencha.trial.evaluation import load_eval_plan
    from youbencha.trial.plan import PlanOptions, load_case, missing_prerequisites, plan_loaded

    host, variables = options.host_here(), options.variables_given(var)
    if is_eval_config(config):
        return _summarize(load_eval_plan(config, host, variables=variables).loaded, thorough=thorough)
    loaded = load_case(config, host, variables=variables)
    plan = plan_loaded(loaded, host, PlanOptions(resolve_env=False))
    return _summarize(loaded, run_async(missing_prerequisites(loaded, plan, host)), thorough=thorough)


def _summarize(
    loaded: Loaded[TestCase] | Loaded[EvalConfig], missing: Sequence[Problem] = (), *, thorough: bool
) -> _Checked:
    from youbencha.trial.checks import advice_on

    evaluators = ", ".join(evaluator.name for evaluator in loaded.evaluators)
    return _Checked(f"{loaded.name} ({evaluators})", [*missing, *advice_on(loaded, thorough=thorough)])


def _as_data(problem: Problem) -> dict[str, object]:
    others = {key: value for key, value in vars(problem).items() if key not in ("keys", "file")}
    return {"path": problem.path, **others, "file": None if problem.file is None else str(problem.file)}
