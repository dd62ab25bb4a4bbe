"""`ralph run`: run a loop, or continue one."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from youbencha.cli import options
from youbencha.cli.loop.config import Config, Hats, loop_sources
from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.events import Event, EventSink
    from youbencha.loop.directory import LoopDirectory
    from youbencha.loop.plan import LoopOverrides, LoopPlan
    from youbencha.store.loops import LoopHistory
    from youbencha.trial.context import Host

_PROMPT, _AGENT, _LIMITS, _OUTPUT = "What to do", "The agent", "Limits", "Output"
_TO_RAISE = {
    "max_iterations": " --max-iterations N",
    "max_runtime": " --max-runtime SECONDS",
    "max_cost": " --max-cost USD",
}
"""The option that a loop needs to go on, after it has reached a limit."""


def run(
    config: Config = None,
    hats: Hats = None,
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
        list[str] | None, typer.Argument(metavar="-- ARGS", help="Further arguments for the agent's CLI.")
    ] = None,
    max_iterations: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Of the whole loop, failed ones too.", rich_help_panel=_LIMITS),
    ] = None,
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
    goes_on: Annotated[bool, typer.Option("--continue", help="Continue the newest loop in this directory.")] = False,
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
    if worktree and goes_on:
        hint = "Change to the working tree, and continue there."
        raise YouBenchaError("OPTION_INVALID", "--worktree and --continue exclude each other", hint=hint)
    if args and "--" not in sys.argv:
        hint = "Give the prompt with -p; arguments for the agent's CLI follow `--`."
        raise YouBenchaError("OPTION_INVALID", f"{args[0]!r} is not an option", hint=hint)
    if not dry_run:
        from youbencha.process import get_ready

        get_ready()  # in the background, while the configuration is read
    from youbencha.loop.plan import LoopOverrides

    file, hats, settings = loop_sources(config, hats, use_variable=not goes_on)
    overrides = LoopOverrides(
        hats=hats,
        settings=settings,
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
    if dry_run:
        _show(_plan_only(file, host, overrides, goes_on=goes_on), as_json=as_json)
        return 0
    with_screen = not (no_tui or autonomous or as_json or quiet)
    output = _Output(as_json, quiet, verbose, with_screen, record_session)
    if worktree:
        return _start_in_worktree(file, host, overrides, output)
    return _continue(file, host, overrides, output) if goes_on else _start(Path.cwd(), file, host, overrides, output)


class _Output(NamedTuple):
    as_json: bool
    quiet: bool
    verbose: bool
    with_screen: bool
    file: Path | None
    """For a second recording."""


def _plan_only(config: Path | None, host: Host, overrides: LoopOverrides, *, goes_on: bool) -> LoopPlan:
    from youbencha.loop.directory import LoopDirectory
    from youbencha.loop.start import load_history

    here = Path.cwd()
    return _plan(config, host, here, overrides, load_history(LoopDirectory.newest(here)) if goes_on else None)


def _start_in_worktree(config: Path | None, host: Host, overrides: LoopOverrides, output: _Output) -> int:
    """Start a loop in a new working tree, with the configuration and the prompt of this directory."""
    from youbencha.cli.interrupts import run_async
    from youbencha.loop.directory import new_loop_id
    from youbencha.workspace.worktrees import add_worktree

    plan, loop_id = _plan(config, host, Path.cwd(), overrides, None), new_loop_id()
    directory = run_async(add_worktree(Path.cwd(), loop_id))
    typer.echo(f"This loop works in {directory}, on the branch ralph/{loop_id}.", err=True)
    overrides = overrides._replace(prompt=plan.objective, prompt_file=None)
    return _start(directory, plan.config_file, host, overrides, output, loop_id)


def _start(
    tree: Path, config: Path | None, host: Host, overrides: LoopOverrides, output: _Output, loop_id: str | None = None
) -> int:
    from youbencha.loop.directory import LoopDirectory, new_loop_id
    from youbencha.loop.start import new_history
    from youbencha.store.loop_lock import loop_lock

    directory = LoopDirectory(tree, loop_id or new_loop_id())
    with loop_lock(tree, directory.loop_id, host.cache_dir):
        plan = _checked(_plan(config, host, tree, overrides, None), output)
        directory.create()
        return _run(plan, host, directory, new_history(plan, directory.loop_id), output)


def _continue(config: Path | None, host: Host, overrides: LoopOverrides, output: _Output) -> int:
    from youbencha.loop.directory import LoopDirectory
    from youbencha.loop.start import go_on, load_history
    from youbencha.store.loop_lock import loop_lock

    tree = Path.cwd()
    directory = LoopDirectory.newest(tree)
    with loop_lock(tree, directory.loop_id, host.cache_dir):
        history = load_history(directory)
        plan = _checked(_plan(config, host, tree, overrides, history), output)
        directory.create()
        return _run(plan, host, directory, go_on(directory, history, plan), output)


def _checked(plan: LoopPlan, output: _Output) -> LoopPlan:
    """Refuse a directory that is not in a repository, if checkpoints are wanted; show the plan, if that is wanted."""
    from youbencha.workspace.working_tree import require_repository

    if plan.spec.event_loop.checkpoint_interval:
        require_repository(plan.directory)
    if output.verbose and not output.as_json:
        _show(plan, as_json=False)
    return plan


def _plan(
    config: Path | None, host: Host, directory: Path, overrides: LoopOverrides, history: LoopHistory | None
) -> LoopPlan:
    """Plan the loop. One that goes on has the file, the prompt and the options of its start, unless given now."""
    from youbencha.loop.plan import find_loop_file, has_prompt, plan_loop

    if history is not None:
        overrides = overrides.over(history.state.options)
    if history is not None and config is None and history.state.config_file:
        config = Path(history.state.config_file)
    file = find_loop_file(directory, config, hats=overrides.hats, settings=overrides.settings)
    if history is not None and not has_prompt(file, directory, overrides):
        overrides = overrides._replace(prompt=history.state.objective)
    return plan_loop(file, host, directory, overrides)


def _run(plan: LoopPlan, host: Host, directory: LoopDirectory, history: LoopHistory, output: _Output) -> int:
    from youbencha.cli.interrupts import run_async
    from youbencha.cli.loop.display import choose_loop_display, use_screen
    from youbencha.events import LoopEnded
    from youbencha.loop.control import LoopControl
    from youbencha.loop.run import run_loop
    from youbencha.process import Redactor
    from youbencha.progress import loop_totals
    from youbencha.store.loops import EXIT_CODES
    from youbencha.text import visible
    from youbencha.transcript.recording import Recorder

    redactor = Redactor.for_env(host.env, *(backend.secrets for backend in plan.backends))
    control = LoopControl()
    with ExitStack() as opened:
        sinks: list[EventSink] = []

        ended: LoopEnded | None = None

        def on_event(event: Event) -> None:
            nonlocal ended
            ended = event if isinstance(event, LoopEnded) else ended
            for sink in sinks:
                sink(event)

        lines = opened.enter_context(choose_loop_display(as_json=output.as_json, quiet=output.quiet))
        screen = None
        if output.with_screen and use_screen():
            from youbencha.tui.screen import Screen

            title = f"ralph · {plan.directory.name}"
            screen = Screen(title, control, export_to=directory.path, mask=redactor.text, fallback=lines)
        sinks.append(screen.sink if screen else lines)
        for file in filter(None, (directory.recording_file, output.file)):
            recorder = Recorder(file, redactor, on_problem=on_event)
            opened.callback(recorder.close)
            sinks.append(recorder)
        work = run_loop(plan, host, control, on_event, directory=directory, history=history)
        if screen is not None:
            from youbencha.tui.screen import run_with_screen

            work = run_with_screen(screen, work)
        state = run_async(work, drain=control.stop)
    assert state.outcome is not None
    with suppress(OSError):  # a closed pipe or a full disk does not change the outcome; typer.echo flushes
        if output.quiet or screen is not None:
            totals = loop_totals(ended) if ended else ()
            reason = " · ".join(filter(None, (visible(state.reason or ""), *totals)))
            typer.echo(f"{state.outcome.replace('_', ' ')}: {reason}")
        if not output.as_json and not output.quiet:
            typer.echo(f"summary: {directory.path / 'summary.md'}")
            if EXIT_CODES[state.outcome]:
                typer.echo(f"go on with: ralph run --continue{_TO_RAISE.get(state.outcome, '')}")
    return EXIT_CODES[state.outcome]


def _show(plan: LoopPlan, *, as_json: bool) -> None:
    from youbencha.cli.loop.dry_run import describe

    rows = describe(plan)
    if as_json:
        typer.echo(json.dumps(dict(rows), indent=2))
        return
    for label, text in rows:
        typer.echo(f"{label:<16} {text}")
