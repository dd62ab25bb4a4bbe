"""`yb eval`: judge a directory without running an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from youbencha.cli import options


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
    from youbencha.cli.console import show_partial_results, show_result
    from youbencha.cli.display import choose_display
    from youbencha.cli.interrupts import run_async
    from youbencha.trial.evaluation import evaluate_directory, load_eval_plan

    host = options.host_here()
    quiet = quiet or host.settings.settings.log_level in ("warn", "error")
    with options.add_hint(config):
        plan = load_eval_plan(config, host, variables=options.variables_given(var))
    with show_partial_results(choose_display(plan.loaded.name, quiet=quiet)) as display:
        finished = run_async(evaluate_directory(plan, host, on_event=display))
    return show_result(finished.bundle, finished.directory.artifacts, as_json=as_json, quiet=quiet)
