"""`ralph run`: run a loop, or continue one."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from youbencha.cli import options
from youbencha.cli.interrupts import run_async
from youbencha.cli.loop_display import choose_loop_display, use_screen
from youbencha.cli.startup import users_environment
from youbencha.errors import YouBenchaError
from youbencha.events import Event, EventSink, LoopEnded
from youbencha.loop.backends import Backend, interactive_command, planning_prompt, run_in_terminal
from youbencha.loop.control import LoopControl
from youbencha.loop.directory import LoopDirectory, new_loop_id
from youbencha.loop.plan import LoopOverrides, LoopPlan, find_loop_file, has_prompt, plan_loop
from youbencha.loop.run import load_history, new_history, resume, run_loop
from youbencha.process import Redactor, warm_up
from youbencha.spec.loop import LoopSpec
from youbencha.store.loop_lock import loop_lock
from youbencha.store.loops import EXIT_CODES, LoopHistory
from youbencha.text import format_duration, format_usd, plural, visible
from youbencha.transcript.lines import loop_totals
from youbencha.transcript.recording import Recorder
from youbencha.trial.context import Host
from youbencha.trial.plan import resolved_environment
from youbencha.workspace.working_tree import add_worktree, require_repository

_PROMPT, _AGENT, _LIMITS, _OUTPUT = "What to do", "The agent", "Limits", "Output"
_TO_RAISE = {
    "max_iterations": " --max-iterations N",
    "max_runtime": " --max-runtime SECONDS",
    "max_cost": " --max-cost USD",
}
"""The option that lets a loop continue after it has reached a limit."""


Prompt = Annotated[
    str | None, typer.Option("--prompt", "-p", metavar="TEXT", help="The prompt.", rich_help_panel=_PROMPT)
]
PromptFile = Annotated[
    Path | None,
    typer.Option(
        "--prompt-file",
        "-P",
        metavar="FILE",
        help="Read the prompt from this file. Default: PROMPT.md.",
        rich_help_panel=_PROMPT,
    ),
]
Promise = Annotated[
    str | None,
    typer.Option(
        "--completion-promise",
        metavar="TEXT",
        help="The text that the agent prints as its last line when the work is done.",
        rich_help_panel=_PROMPT,
    ),
]
BackendOption = Annotated[
    str | None,
    typer.Option(
        "--backend", "-b", metavar="NAME", help="The agent to run: claude, codex, … or auto.", rich_help_panel=_AGENT
    ),
]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="The agent's model.", rich_help_panel=_AGENT)]
Sandbox = Annotated[
    str | None, typer.Option(metavar="local|docker", help="Where the agent runs.", rich_help_panel=_AGENT)
]
Args = Annotated[list[str] | None, typer.Argument(metavar="-- ARGS", help="Further arguments for the agent's CLI.")]
MaxIterations = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Maximum number of iterations, including failed ones.", rich_help_panel=_LIMITS
    ),
]
MaxRuntime = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", min=0, help="Loop time limit, excluding usage-limit waits.", rich_help_panel=_LIMITS
    ),
]
MaxCost = Annotated[
    float | None, typer.Option(metavar="USD", min=0, help="Budget for the whole loop.", rich_help_panel=_LIMITS)
]
IdleTimeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="Stop an iteration after this long without output, unless a tool is running. 0 disables it.",
        rich_help_panel=_LIMITS,
    ),
]
Resume = Annotated[bool, typer.Option("--continue", help="Continue the newest loop in this directory.")]
Worktree = Annotated[bool, typer.Option("--worktree", help="Work in a new git worktree instead of this directory.")]
NoTui = Annotated[bool, typer.Option("--no-tui", help="Print lines instead of the screen.", rich_help_panel=_OUTPUT)]
Autonomous = Annotated[bool, typer.Option("--autonomous", "-a", help="Same as --no-tui.", rich_help_panel=_OUTPUT)]
AsJson = Annotated[bool, typer.Option("--json", help="Print every event as a line of JSON.", rich_help_panel=_OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the outcome.", rich_help_panel=_OUTPUT)]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print the plan before the loop starts.", rich_help_panel=_OUTPUT)
]
RecordSession = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the recording to this file.", rich_help_panel=_OUTPUT),
]


def run(
    config: Config = None,
    hats: Hats = None,
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    promise: Promise = None,
    backend: BackendOption = None,
    model: Model = None,
    sandbox: Sandbox = None,
    args: Args = None,
    max_iterations: MaxIterations = None,
    max_runtime: MaxRuntime = None,
    max_cost: MaxCost = None,
    idle_timeout: IdleTimeout = None,
    resume: Resume = False,
    worktree: Worktree = False,
    dry_run: options.DryRun = False,
    no_tui: NoTui = False,
    autonomous: Autonomous = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    record_session: RecordSession = None,
) -> int:
    """Run an agent again and again until its work is done and verified.

    Each iteration begins with a fresh context, in this directory. Ctrl-C stops it; `ralph run --continue` resumes it.

    Exit code 0: done (or cancelled by the agent) · 1: repeated failure, stale, or stopped · 2: a limit, or could not
    run · 3: a restart was asked for · 130: interrupted.

    Example: `ralph run -p "Make all tests pass" --max-iterations 20`
    """
    _check_options(args, worktree=worktree, resume=resume)
    if not dry_run:
        warm_up()  # in the background, while the configuration is read
    file, hats, settings = loop_sources(config, hats, use_variable=not resume)
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
        _show(_plan_only(file, host, overrides, resume=resume), as_json=as_json)
        return 0
    output = _Output(as_json, quiet, verbose, not (no_tui or autonomous or as_json or quiet), record_session)
    if worktree:
        return _start_in_worktree(file, host, overrides, output)
    return _continue(file, host, overrides, output) if resume else _start(Path.cwd(), file, host, overrides, output)


def _check_options(args: list[str] | None, *, worktree: bool, resume: bool) -> None:
    if worktree and resume:
        hint = "Change to the worktree and continue there."
        raise YouBenchaError("OPTION_INVALID", "--worktree and --continue exclude each other", hint=hint)
    if args and "--" not in sys.argv:
        hint = "Give the prompt with -p; arguments for the agent's CLI follow `--`."
        raise YouBenchaError("OPTION_INVALID", f"{args[0]!r} is not an option", hint=hint)


class _Output(NamedTuple):
    as_json: bool
    quiet: bool
    verbose: bool
    with_screen: bool
    file: Path | None
    """For a second recording."""


def _plan_only(config: Path | None, host: Host, overrides: LoopOverrides, *, resume: bool) -> LoopPlan:
    here = Path.cwd()
    return _plan(config, host, here, overrides, load_history(LoopDirectory.newest(here)) if resume else None)


def _start_in_worktree(config: Path | None, host: Host, overrides: LoopOverrides, output: _Output) -> int:
    """Start a loop in a new working tree, with the configuration and the prompt of this directory."""
    plan, loop_id = _plan(config, host, Path.cwd(), overrides, None), new_loop_id()
    directory = run_async(add_worktree(Path.cwd(), loop_id))
    typer.echo(f"This loop works in {directory}, on the branch ralph/{loop_id}.", err=True)
    overrides = overrides._replace(prompt=plan.objective, prompt_file=None)
    return _start(directory, plan.config_file, host, overrides, output, loop_id)


def _start(
    tree: Path, config: Path | None, host: Host, overrides: LoopOverrides, output: _Output, loop_id: str | None = None
) -> int:
    directory = LoopDirectory(tree, loop_id or new_loop_id())
    with loop_lock(tree, directory.loop_id, host.cache_dir):
        plan = _checked(_plan(config, host, tree, overrides, None), output)
        directory.create()
        return _run(plan, host, directory, new_history(plan, directory.loop_id), output)


def _continue(config: Path | None, host: Host, overrides: LoopOverrides, output: _Output) -> int:
    tree = Path.cwd()
    directory = LoopDirectory.newest(tree)
    with loop_lock(tree, directory.loop_id, host.cache_dir):
        history = load_history(directory)
        plan = _checked(_plan(config, host, tree, overrides, history), output)
        directory.create()
        return _run(plan, host, directory, resume(directory, history, plan), output)


def _checked(plan: LoopPlan, output: _Output) -> LoopPlan:
    """Refuse a directory that is not in a repository, if checkpoints are wanted; show the plan, if that is wanted."""
    if plan.spec.event_loop.checkpoint_interval:
        require_repository(plan.directory)
    if output.verbose and not output.as_json:
        _show(plan, as_json=False)
    return plan


def _plan(
    config: Path | None, host: Host, directory: Path, overrides: LoopOverrides, history: LoopHistory | None
) -> LoopPlan:
    """Plan the loop. A continued one keeps the file, the prompt and the options of its start, unless given now."""
    if history is not None:
        overrides = overrides.over(history.state.options)
    if history is not None and config is None and history.state.config_file:
        config = Path(history.state.config_file)
    file = find_loop_file(directory, config, hats=overrides.hats, settings=overrides.settings)
    if history is not None and not has_prompt(file, directory, overrides):
        overrides = overrides._replace(prompt=history.state.objective)
    return plan_loop(file, host, directory, overrides)


def _run(plan: LoopPlan, host: Host, directory: LoopDirectory, history: LoopHistory, output: _Output) -> int:
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
                typer.echo(f"Continue with: ralph run --continue{_TO_RAISE.get(state.outcome, '')}")
    return EXIT_CODES[state.outcome]


def _show(plan: LoopPlan, *, as_json: bool) -> None:
    rows = describe(plan)
    if as_json:
        typer.echo(json.dumps(dict(rows), indent=2))
        return
    for label, text in rows:
        typer.echo(f"{label:<16} {text}")


_NOT_YET = "Ralph has it; it is not supported yet."

INSTEAD = {
    "preflight": "`ralph doctor` checks what a loop needs.",
    "resume": "Use `ralph run --continue`.",
    "hats": "`ralph run --dry-run` lists them.",
    "loops": "`ralph run --worktree` starts another loop, `ralph replay` shows one, `ralph clean` removes old ones.",
    "tui": "`ralph run` shows the screen, `ralph replay` a recorded loop.",
    "completions": "`ralph --install-completion` installs them.",
    "task": "Agents' tasks are in `ralph tools task`; code tasks are not supported yet.",
    **dict.fromkeys(("code-task", "hooks", "wave", "web", "mcp", "bot", "tutorial"), _NOT_YET),
    "--rpc": "`--json` prints every event.",
    "--loop-id": "`--continue` continues the newest loop.",
    "--exclusive": "Leave it out: a second loop is refused, unless you give --worktree.",
    "--skip-preflight": "Leave it out: only `ralph doctor` makes these checks.",
    "--no-auto-merge": "Leave it out: nothing is merged for you.",
    **dict.fromkeys(("-c", "-H", "-p", "-b"), "Options follow the command: `ralph run -c FILE`."),
}


def describe(plan: LoopPlan) -> Iterator[tuple[str, str]]:
    """A label and a text for each decision."""
    spec, loop = plan.spec, plan.spec.event_loop
    yield "Directory", str(plan.directory)
    options = plan.options
    parts = [*([f"hats of {options.hats}"] if options.hats else []), *options.settings]
    yield "Configuration", ", ".join([str(plan.config_file or "none: the defaults"), *parts])
    yield "Prompt", f"{plan.prompt_file or 'given'} ({plural(len(plan.objective), 'character')})"
    yield "Backend", f"{_backend(plan.backend)}{', the first that is installed' if plan.detected else ''}"
    yield "Model calls", _gateway(plan.backend)
    yield "Sandbox", plan.sandbox.type
    yield "Limits", ", ".join(_limits(plan))
    yield "Done when", ", ".join(_completion(plan))
    for name, hat in spec.hats.items():
        own = f", {_backend(plan.hat_backends[name])}" if name in plan.hat_backends else ""
        yield f"Hat {name}", f"{', '.join(hat.triggers) or 'never'} → {', '.join(hat.publishes) or 'nothing'}{own}"
    if loop.escalation:
        steps = [_backend(step) if step else "a person" for step in plan.escalation]
        yield "Escalation", f"after {plural(loop.retry.attempts, 'failure')}: {', then '.join(steps)}"
    if plan.warnings:
        yield "Warnings", "; ".join(map(str, plan.warnings))


def _backend(backend: Backend) -> str:
    return f"{backend.title} ({backend.name}{f', {backend.model}' if backend.model else ''})"


def _gateway(backend: Backend) -> str:
    return "directly, with the agent's own login or key" if backend.gateway is None else "through the gateway"


def _limits(plan: LoopPlan) -> Iterator[str]:
    loop = plan.spec.event_loop
    yield plural(loop.max_iterations, "iteration")
    yield format_duration(loop.max_runtime_seconds * 1000)
    if loop.max_cost_usd is not None:
        yield format_usd(loop.max_cost_usd)
    yield plural(loop.max_consecutive_failures, "failure") + " in a row"


def _completion(plan: LoopPlan) -> Iterator[str]:
    loop = plan.spec.event_loop
    if not loop.complete_by_gates:
        yield f"the agent says {loop.completion_promise}"
    if loop.required_events:
        yield f"these events were published: {', '.join(loop.required_events)}"
    if plan.spec.gates:
        yield f"these gates pass: {', '.join(gate.name for gate in plan.spec.gates)}"


def plan(
    idea: Annotated[str | None, typer.Argument(metavar="IDEA", help="A rough description of what you want.")] = None,
    args: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGS", help="Further arguments for the agent's CLI.")
    ] = None,
    config: Config = None,
    hats: Hats = None,
    backend: Annotated[
        str | None, typer.Option("--backend", "-b", metavar="NAME", help="The agent to run: claude, codex, … or auto.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the agent's instructions without starting it.")
    ] = False,
) -> int:
    """Plan with the agent, in its own interactive session.

    The agent asks questions, and writes requirements, design, plan and a PROMPT.md for `ralph run`. It uses your own
    login and settings, and asks for your permission as usual. The exit code is the agent's.

    Example: `ralph plan "Let users export their data"`
    """
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
        hint = "Run it in a terminal, or write PROMPT.md yourself and start `ralph run`."
        raise YouBenchaError("NO_TERMINAL", "`ralph plan` is interactive, and needs a terminal.", hint=hint)
    own = resolved_environment(spec.cli.env, env, file.document, ("cli", "env")) if file else {}
    return run_in_terminal(command, {**env, **own})


CONFIG_VARIABLE = "RALPH_CONFIG"
_SETTING = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*=")

Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE|KEY=VALUE",
        help="The loop's configuration, or one of its keys, such as core.specs_dir=specs. "
        f"Default: ${CONFIG_VARIABLE}, or ralph.yml if there is one.",
    ),
]
Hats = Annotated[
    str | None,
    typer.Option(
        "--hats",
        "-H",
        metavar="builtin:NAME|FILE",
        help="Use these hats instead of the loop's; `ralph init --list-presets` lists the names.",
    ),
]


class LoopSources(NamedTuple):
    """Where a loop's configuration comes from."""

    file: Path | None
    """None: ralph.yml in the directory of the loop, if there is one."""
    hats: str | None
    settings: tuple[str, ...]


def loop_sources(config: Sequence[str] | None, hats: str | None, *, use_variable: bool = True) -> LoopSources:
    """Separate files from settings. As in Ralph, only the first file counts."""
    files: list[str] = []
    settings: list[str] = []
    for text in config or ():
        is_setting = _SETTING.match(text) and not Path(text).exists()
        (settings if is_setting else files).append(text)
    if use_variable and not files and (named := os.environ.get(CONFIG_VARIABLE, "").strip()):
        files = [named]
    for ignored in files[1:]:
        typer.echo(f"warning  -c {ignored} is ignored: only the first file, {files[0]}, is used", err=True)
    for source in (*files[:1], *([hats] if hats else [])):
        _check(source, is_hats=source == hats)
    if hats is not None and ":" not in hats:
        hats = str(Path(hats).absolute()) if Path(hats).exists() else hats
    return LoopSources(Path(files[0]) if files else None, hats, tuple(settings))


def _check(source: str, *, is_hats: bool) -> None:
    if source.startswith(("http://", "https://")):
        hint = "Download the file, check what it tells the agent, and give its path."
        raise YouBenchaError("CONFIG_NOT_A_FILE", f"{source} is a URL, not a file.", hint=hint)
    if source.startswith("builtin:") and not is_hats:
        hint = (
            f"Use the hats of a built-in preset with `-H {source}`, or write it as a file with `ralph init --preset`."
        )
        raise YouBenchaError("CONFIG_NOT_A_FILE", f"{source} is not a file.", hint=hint)
