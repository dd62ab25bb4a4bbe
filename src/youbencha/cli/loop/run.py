"""`ralph run`: run a loop, or continue one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli import INTERRUPTED, options

if TYPE_CHECKING:
    from youbencha.events import EventSink
    from youbencha.loop.plan import LoopOverrides, LoopPlan
    from youbencha.loop.start import LoopStart
    from youbencha.trial.context import Host

_PROMPT, _AGENT, _LIMITS, _OUTPUT = "What to do", "The agent", "Limits", "Output"


def run(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Default: ralph.yml, if there is one.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", metavar="TEXT", help="What to do.", rich_help_panel=_PROMPT)
    ] = None,
    prompt_file: Annotated[
        Path | None,
        typer.Option(
            "--prompt-file",
            "-P",
            metavar="FILE",
            help="The same, in a file. Default: PROMPT.md.",
            rich_help_panel=_PROMPT,
        ),
    ] = None,
    promise: Annotated[
        str | None,
        typer.Option(
            "--completion-promise",
            metavar="TEXT",
            help="The last line of an answer that says that the work is done.",
            rich_help_panel=_PROMPT,
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option("--backend", "-b", metavar="NAME", help="claude, codex, … or auto.", rich_help_panel=_AGENT),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The agent's model.", rich_help_panel=_AGENT)
    ] = None,
    sandbox: Annotated[
        str | None, typer.Option(metavar="local|docker", help="Where the agent runs.", rich_help_panel=_AGENT)
    ] = None,
    args: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]...", help="Further arguments for the agent's CLI.")
    ] = None,
    max_iterations: Annotated[int | None, typer.Option(metavar="N", min=1, rich_help_panel=_LIMITS)] = None,
    max_runtime: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Of the whole loop.", rich_help_panel=_LIMITS)
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", min=0, help="Of the whole loop.", rich_help_panel=_LIMITS)
    ] = None,
    idle_timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="End an iteration that prints nothing for so long while no tool runs. 0: never.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    goes_on: Annotated[
        bool, typer.Option("--continue", help="Continue the newest loop in this directory.")
    ] = False,
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Work in a new git worktree, not in this directory.")
    ] = False,
    dry_run: options.DryRun = False,
    no_tui: Annotated[
        bool, typer.Option("--no-tui", help="Print lines instead of the screen.", rich_help_panel=_OUTPUT)
    ] = False,
    autonomous: Annotated[
        bool, typer.Option("--autonomous", "-a", help="The same as --no-tui.", rich_help_panel=_OUTPUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every event as a line of JSON.", rich_help_panel=_OUTPUT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the outcome.", rich_help_panel=_OUTPUT)
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the loop's decisions first.", rich_help_panel=_OUTPUT)
    ] = False,
    record_session: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the recording there, too.", rich_help_panel=_OUTPUT),
    ] = None,
) -> int:
    """Run an agent again and again until its work is done and verified.

    Each iteration begins with a fresh context, in this directory. Ctrl-C ends it; `ralph run --continue` goes on.

    Exit code 0: done (or cancelled by the agent) · 1: repeated failure, stale, or stopped · 2: a limit, or could not
    run · 3: a restart was asked for · 130: interrupted.

    Example: `ralph run -p "Make all tests pass" --max-iterations 20`
    """
    from youbencha.process import get_ready

    if not dry_run:
        get_ready()  # in the background, while the configuration is read
    from youbencha.loop.plan import LoopOverrides

    overrides = LoopOverrides(
        prompt=prompt,
        prompt_file=prompt_file,
        backend=backend,
        model=options.agent_choice(None, model).model,
        args=tuple(args or ()),
        completion_promise=promise,
        max_iterations=max_iterations,
        max_runtime_seconds=max_runtime,
        max_cost_usd=max_cost,
        idle_timeout_secs=idle_timeout,
        sandbox=options.sandbox_option(sandbox, None, None),
    )
    host = options.host_here()
    from youbencha.loop.start import begin, go_on, load_newest

    directory = Path.cwd()
    loaded = load_newest(directory) if goes_on else None
    plan = _plan(config, host, directory, overrides, loaded)
    if dry_run or verbose:
        _show(plan, as_json=as_json)
    if dry_run:
        return 0
    start = go_on(loaded, plan) if loaded else begin(plan)
    return _run(plan, host, start, as_json=as_json, quiet=quiet, screen=not (no_tui or autonomous or as_json or quiet))
