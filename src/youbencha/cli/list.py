"""`yb list`: list the evaluators and agents that a test case can use."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from youbencha.cli.screen import width_of
from youbencha.errors import YouBenchaError

_USAGE = """In a test case:

  agent:
    type: {agent}
    config:
      prompt: The task.
  evaluators:
    - name: git-diff
      config:
        assertions:
          max_files_changed: 3

Several judges: agentic-judge-NAME (or :NAME), each with its own assertions.
`yb doctor` shows which agents can run here."""


def list_all(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """List the evaluators and agents that a test case can use, including those of installed plugins.

    Example: `yb list --json`
    """
    from youbencha.adapters import adapter_descriptions
    from youbencha.evaluators import evaluator_names, get_evaluator

    evaluators: dict[str, str] = {}
    for name in evaluator_names():
        try:
            evaluators[name] = get_evaluator(name).description
        except YouBenchaError as error:  # a plugin that is broken
            evaluators[name] = f"{error.code}: {error.message}"
    agents = adapter_descriptions()
    if as_json:
        import json

        listed = [{"name": name, "description": text} for name, text in evaluators.items()]
        typer.echo(json.dumps({"evaluators": listed, "agents": list(agents)}, indent=2))
        return
    from youbencha.cli.console import wrap

    width, screen = max(len(name) for name in (*evaluators, *agents)), width_of(sys.stdout)
    for title, described in (("Evaluators", evaluators), ("Agents", agents)):
        typer.echo(title)
        for name, text in described.items():
            typer.echo(f"  {name:<{width}}  {wrap(text, screen, indent=width + 4)}".rstrip())
        typer.echo()
    typer.echo(_USAGE.format(agent="claude-code" if "claude-code" in agents else next(iter(agents))))
