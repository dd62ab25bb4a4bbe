"""`ralph diff` and `ralph restore`: what a loop has changed, and how the files were before."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from youbencha.cli import options
from youbencha.cli.config import show_diagnosis
from youbencha.cli.interrupts import run_async
from youbencha.cli.loop_display import choose_loop_display, use_screen
from youbencha.cli.loop_run import Config, Hats, loop_sources
from youbencha.cli.loop_tools import call
from youbencha.cli.options import confirm, settings_here
from youbencha.cli.setup import write_files
from youbencha.cli.terminal import terminal_width
from youbencha.doctor import examine_loop
from youbencha.errors import YouBenchaError
from youbencha.events import Event
from youbencha.loop.backends import AUTO, CUSTOM, known_backend
from youbencha.loop.clean import Cleaning, Leftover
from youbencha.loop.directory import LoopDirectory
from youbencha.loop.hats import matches
from youbencha.loop.presets import PRESETS
from youbencha.loop.replay import Player, open_recording, read_any
from youbencha.loop.topics import MAX_PAYLOAD, TopicEvent, TopicLog, events_of_project, find_project
from youbencha.scaffold import begin_loop
from youbencha.store.loop_lock import loop_lock, running_loop
from youbencha.store.loops import loop_ids
from youbencha.text import format_path, iso_time, list_paths, one_line, plural, table, visible
from youbencha.transcript.recording import RecordingReader
from youbencha.workspace.checkpoints import Checkpoint, Checkpoints, PatchStyle, loops_with_checkpoints

Result = TypeVar("Result")
_MAX_LISTED = 50

Loop = Annotated[
    str | None, typer.Option("--loop", metavar="ID", help="The loop. Default: the latest in this directory.")
]


def diff(
    since: Annotated[
        str, typer.Argument(metavar="[N]", help="Start from this checkpoint; 0 is the state before the loop.")
    ] = "0",
    until: Annotated[
        str | None, typer.Argument(metavar="[M]", help="Compare with this checkpoint. Default: the current files.")
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Show only the files and their changed line counts.")] = False,
    loop: Loop = None,
) -> int:
    """Show what the loop has changed since an iteration.

    If the output is not a terminal, it is a complete patch for `git apply`.

    Example: `ralph diff 3`
    """
    to_terminal = sys.stdout.isatty()
    style: PatchStyle = "stat" if stat else "shown" if to_terminal else "exact"
    cache_dir = settings_here().cache_dir
    patch = _ask(_chosen(loop), cache_dir, lambda checkpoints: checkpoints.patch(since, until, style=style))
    if to_terminal:
        typer.echo(visible(patch.decode("utf-8", "replace")))
    else:
        sys.stdout.buffer.write(patch)
    return 0


def restore(
    name: Annotated[
        str | None, typer.Argument(metavar="[N]", help="The checkpoint. Default: list all checkpoints.")
    ] = None,
    loop: Loop = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> int:
    """Make the files as they were after an iteration (0: before the loop).

    Files that did not exist then are removed, except ignored ones. How the files are now is kept as a checkpoint first,
    so that you can go back. Your branch, index and stash do not change.

    Example: `ralph restore 3`
    """
    chosen, cache_dir = _chosen(loop), settings_here().cache_dir
    if name is None:
        return _list(chosen, cache_dir)
    with loop_lock(Path.cwd(), f"ralph restore {name}", cache_dir):
        paths, missing = _ask(chosen, cache_dir, lambda checkpoints: _preview(checkpoints, name))
        if missing:
            typer.echo(
                f"warning  not in the checkpoint, too large or not readable then: {list_paths(missing)}", err=True
            )
        if not paths:
            typer.echo(f"The files are as they were at checkpoint {name}.")
            return 0
        for path in paths[:_MAX_LISTED]:
            typer.echo(f"  {format_path(path)}")
        if len(paths) > _MAX_LISTED:
            typer.echo(f"  and {len(paths) - _MAX_LISTED} more")
        confirm(f"Restore {plural(len(paths), 'file')} to checkpoint {name} of the loop {chosen}?", yes=yes)
        restored = _ask(chosen, cache_dir, lambda checkpoints: checkpoints.restore(name))
    typer.echo(f"restored {plural(len(restored.paths), 'file')}; `ralph restore {restored.kept_as}` undoes this")
    return 0


async def _preview(checkpoints: Checkpoints, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that would be restored, and those that cannot be."""
    return await checkpoints.changes(name), await checkpoints.missing(name)


def _list(loop: str, cache_dir: Path | None) -> int:
    async def listed(checkpoints: Checkpoints) -> tuple[list[Checkpoint], list[str]]:
        return await checkpoints.list(), [name for name in checkpoints.names if not name.isdecimal()]

    numbered, others = _ask(loop, cache_dir, listed)
    typer.echo(f"Checkpoints of the loop {loop}:")
    for checkpoint in numbered:
        change = plural(checkpoint.files_changed, "file") + " changed" if checkpoint.number else "before the loop"
        typer.echo(f"{checkpoint.number:>5}  {checkpoint.commit[:12]}  {change}")
    for name in others:
        typer.echo(f"       {name}")
    return 0


def _chosen(loop: str | None) -> str:
    """The loop that was named, or the latest in this directory."""
    known = loops_with_checkpoints(Path.cwd())
    if loop is not None and loop in known:
        return loop
    here = sorted(set(loop_ids(Path.cwd())) & set(known))
    if loop is None and here:
        return here[-1]
    what = f"The loop {loop} has no checkpoints." if loop else f"No loop in {Path.cwd()} has checkpoints."
    hint = "`ralph run` takes them, if the directory is in a git repository."
    if known:
        hint = f"Loops with checkpoints in this repository: {', '.join(known[-5:])}. Name one with --loop."
    raise YouBenchaError("NO_CHECKPOINTS", what, hint=hint)


def _ask(loop: str, cache_dir: Path | None, call: Callable[[Checkpoints], Awaitable[Result]]) -> Result:
    """Open the checkpoints of a loop for one call."""

    async def work() -> Result:
        with closing(await Checkpoints.open(Path.cwd(), loop, cache_dir=cache_dir)) as checkpoints:
            return await call(checkpoints)

    return run_async(work())


def clean(
    older_than: Annotated[
        float, typer.Option(metavar="DAYS", min=0, help="Remove only items older than this many days.")
    ] = 7.0,
    everything: Annotated[
        bool, typer.Option("--all", help="Remove all loops, the scratchpad, tasks, memories and events.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove working trees even if they have uncommitted or unmerged changes.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed without removing it.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation (only --all and --force ask).")
    ] = False,
) -> int:
    """Remove what earlier loops left: their directories in .ralph, their checkpoints, and their working trees.

    A running loop is never touched, nor are the scratchpad, tasks and memories (except with --all). A working tree is
    removed only if its changes are committed and merged (except with --force).

    Example: `ralph clean --older-than 30`
    """
    cleaning = Cleaning(Path.cwd(), 0 if everything else older_than, settings_here().cache_dir, force)
    leftovers = run_async(cleaning.leftovers()) + (cleaning.agents_files() if everything else [])
    if not leftovers:
        typer.echo("nothing to remove")
        return 0
    for leftover in leftovers:
        typer.echo(f"{leftover.size_bytes / 1_000_000:9,.1f} MB  {leftover.what}")
    total = (
        f"{plural(len(leftovers), 'item')}, {sum(leftover.size_bytes for leftover in leftovers) / 1_000_000:,.1f} MB"
    )
    if dry_run:
        typer.echo(f"would remove {total}")
        return 0
    confirm(f"Remove {total}?", yes=yes or not (everything or force))
    kept = run_async(_remove(leftovers))
    typer.echo(f"removed {total}" if not kept else f"removed {plural(len(leftovers) - kept, 'item')}; {kept} kept")
    return 0 if not kept else 1


async def _remove(leftovers: list[Leftover]) -> int:
    """Remove leftover, and return how many could not be removed."""
    kept = 0
    for leftover in leftovers:
        try:
            await leftover.remove()
        except (YouBenchaError, OSError) as error:
            kept += 1
            typer.echo(f"kept {leftover.what}: {error}", err=True)
    return kept


class EventsFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


def events(
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Show only the last N events.")] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Show only these topics; `*` works as in triggers.")
    ] = None,
    form: Annotated[
        EventsFormat, typer.Option("--format", help="Output format; JSON has complete payloads.")
    ] = EventsFormat.TABLE,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The events file. Default: the current loop's.")
    ] = None,
) -> None:
    """Show the events of a loop.

    Example: `ralph events --last 20`
    """
    project = find_project(os.environ, Path.cwd())
    log = TopicLog(Path.cwd() / file) if file else events_of_project(os.environ, project)
    try:
        events, malformed = log.read_all()
    except OSError as error:
        raise YouBenchaError("EVENTS_NOT_READABLE", f"{log.file} {error.strerror}.", hint="Check the file.") from error
    chosen = [event for event in events if topic is None or matches(topic, event.topic)][-(last or 0) :]
    if form is EventsFormat.JSON:
        records = [{"topic": event.topic, "payload": event.payload, "ts": event.at} for event in chosen]
        typer.echo(json.dumps(records, indent=2, ensure_ascii=False))
    elif chosen:
        room = max(20, terminal_width(sys.stdout) - 26 - max(len(event.topic) for event in chosen))
        rows = [(one_line(event.at[:19], 19), one_line(event.topic), one_line(event.payload, room)) for event in chosen]
        typer.echo(table(("TIME", "TOPIC", "PAYLOAD"), rows, width=10_000))
    else:
        typer.echo(f"no events in {log.file}")
    if malformed:
        typer.echo(f"{plural(len(malformed), 'line')} of {log.file} could not be read", err=True)


def guide(
    words: Annotated[list[str], typer.Argument(metavar="TEXT", help="What the agent should know or do.")],
) -> int:
    """Give guidance to the loop that is running in this directory.

    It becomes part of the next prompt; the present iteration does not see it.

    Example: `ralph guide "Leave the public API alone"`
    """
    text = " ".join(words).strip()
    if not text or len(text) > MAX_PAYLOAD:
        raise YouBenchaError("GUIDANCE_INVALID", f"Guidance must have between 1 and {MAX_PAYLOAD:,} characters.")
    tree = find_project(os.environ, Path.cwd())
    running = running_loop(tree, options.host_here().cache_dir)
    if running is None or running.loop_id is None:
        hint = "Change to the loop's directory, or start one with `ralph run`."
        raise YouBenchaError("LOOP_NOT_RUNNING", f"No loop is running in {tree}.", hint=hint)
    LoopDirectory(tree, running.loop_id).guidance.append(TopicEvent("guidance", text, iso_time(time.time())))
    typer.echo(f"The next prompt of loop {running.loop_id} will include it.")
    return 0


_WITHOUT_PAUSES = "max"


def replay(
    which: Annotated[
        str | None,
        typer.Argument(metavar="[FILE|LOOP]", help="A recording, or a loop's id. Default: the newest loop here."),
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="X", help="Playback speed multiplier; `max` plays without pauses.")
    ] = "1",
    first_iteration: Annotated[int, typer.Option("--from", metavar="N", min=1, help="Skip to this iteration.")] = 1,
    no_tui: Annotated[bool, typer.Option("--no-tui", help="Print lines instead of the screen.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the events as JSON lines.")] = False,
) -> int:
    """Play a recorded session on the screen.

    Every loop is recorded in `.ralph/loops/LOOP/recording.jsonl`. What Claude Code prints with `--output-format
    stream-json` can be played, too. Pauses of more than 5 s are shortened.

    Example: `ralph replay --speed 4`
    """
    factor, name = _factor(speed), which or "the newest loop"
    with open_recording(which, Path.cwd()) as file:
        recording = read_any(file)
        player = Player(_not_empty(recording, name), speed=factor, first_iteration=first_iteration)
        if use_screen(no_tui=no_tui, as_json=as_json):
            _play_on_screen(player, f"replay of {name}")
        else:
            with choose_loop_display(as_json=as_json) as display:
                run_async(player.play(display))
        if recording.skipped:
            typer.echo(f"{plural(recording.skipped, 'line')} skipped: not an event of this version", err=True)
    return 0


def _play_on_screen(player: Player, title: str) -> None:
    from youbencha.tui.screen import Screen, run_with_screen

    screen = Screen(title, player, clock=player.now, stay=True, recorded=True)
    run_async(run_with_screen(screen, player.play(screen.sink)))


def _factor(speed: str) -> float | None:
    if speed == _WITHOUT_PAUSES:
        return None
    try:
        factor = float(speed)
    except ValueError:
        factor = 0.0
    if not 0.01 <= factor <= 1_000_000:
        raise YouBenchaError("OPTION_INVALID", f"--speed {speed} is not a speed.", hint="Try 0.5, 4 or max.")
    return factor


def _not_empty(recording: RecordingReader, name: str) -> Iterator[Event]:
    """The events, of which the first has been read."""
    events = iter(recording)
    first = next(events, None)
    if first is None:
        raise YouBenchaError(
            "RECORDING_EMPTY",
            f"{name} contains no playable events.",
            hint="It should have been written by `ralph run`, or be the stream-json output of Claude Code.",
        )
    return chain([first], events)


_NEXT = """
Next:
  write the task into PROMPT.md
  ralph doctor           check that this machine has what the loop needs
  ralph run --dry-run    see what would happen
  ralph run              start it"""


def init(
    backend: Annotated[
        str, typer.Option("--backend", "-b", metavar="NAME", help="The agent: claude, codex, … or custom.")
    ] = "auto",
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="The preset to start from; see --list-presets.")
    ] = "plain",
    list_presets: Annotated[
        bool, typer.Option("--list-presets", help="List the presets without writing anything.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing ralph.yml.")] = False,
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="The directory to write to.")] = Path(),
) -> int:
    """Write a ralph.yml and a PROMPT.md.

    Exit code 1 if a ralph.yml exists; then nothing is written, unless you give --force. A PROMPT.md is never
    overwritten.
    """
    if list_presets:
        for name, description in PRESETS.items():
            typer.echo(f"{name:<18} {description}")
        return 0
    if backend not in (AUTO, CUSTOM):
        known_backend(backend)
    return write_files(lambda: begin_loop(directory, preset, backend, force=force), "LOOP_EXISTS", _NEXT)


def doctor(
    config: Config = None,
    hats: Hats = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Time limit for each check.")] = 30.0,
) -> int:
    """Check what a loop needs, and suggest fixes.

    The configuration, the prompt, the repository, and each backend with its version and login.

    Exit code 0 if a loop can be started here; 2 if not.
    """
    sources = loop_sources(config, hats)
    diagnosis = run_async(examine_loop(Path.cwd(), Path.home(), os.environ, **sources._asdict(), deadline_s=timeout))
    return show_diagnosis(diagnosis, "`ralph run` starts the loop", as_json=as_json)


def emit(context: typer.Context) -> int:
    """Publish an event. Agents call this.

    Example: `ralph emit build.done "tests: pass"`
    """
    return call(["emit", *context.args])


def tools(context: typer.Context) -> int:
    """Manage tasks and memories. Agents call this.

    Example: `ralph tools task add "Write the parser" -p 2`
    """
    return call(["tools", *context.args])
