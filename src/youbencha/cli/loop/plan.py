"""`ralph plan`: plan with the agent, in its own interactive session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from youbencha.cli.loop.config import Config, Hats, loop_sources
from youbencha.cli.startup import users_environment
from youbencha.errors import YouBenchaError


def plan(
    idea: Annotated[str | None, typer.Argument(metavar="IDEA", help="What you have in mind, roughly.")] = None,
    args: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGS", help="Further arguments for the agent's CLI.")
    ] = None,
    config: Config = None,
    hats: Hats = None,
    backend: Annotated[
        str | None, typer.Option("--backend", "-b", metavar="NAME", help="claude, codex, … or auto.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the agent's instructions, and start nothing.")
    ] = False,
) -> int:
    """Plan with the agent, in its own interactive session.

    The agent asks questions, and writes requirements, design, plan and a PROMPT.md for `ralph run`. It uses your own
    login and settings, and asks for your permission as usual. The exit code is the agent's.

    Example: `ralph plan "Let users export their data"`
    """
    from youbencha.loop.plan import find_loop_file
    from youbencha.loop.planning import interactive_command, planning_prompt, run_in_terminal
    from youbencha.spec.loop import LoopSpec
    from youbencha.trial.plan import resolved_environment

    extra = list(args or ())
    after = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    if idea is not None and after == [idea, *extra]:  # no idea was given, and typer took the first argument for it
        idea, extra = None, after
    sources = loop_sources(config, hats)
    file = find_loop_file(Path.cwd(), sources.file, hats=sources.hats, settings=sources.settings)
    spec = file.spec if file else LoopSpec()
    prompt = planning_prompt(spec, idea)
    if dry_run:
        typer.echo(prompt, nl=False)
        return 0
    env = users_environment()
    command = interactive_command(spec, env, prompt, backend=backend, args=extra)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "Run it in a terminal; or write PROMPT.md yourself, and start `ralph run`."
        raise YouBenchaError("NO_TERMINAL", "`ralph plan` is interactive, and needs a terminal.", hint=hint)
    own = resolved_environment(spec.cli.env, env, file.document, ("cli", "env")) if file else {}
    return run_in_terminal(command, {**env, **own})
