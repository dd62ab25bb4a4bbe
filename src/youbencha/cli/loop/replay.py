"""`ralph replay`: play a recorded session on the screen, as lines, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.cli.interrupts import run_async
from youbencha.errors import YouBenchaError
from youbencha.text import plural

if TYPE_CHECKING:
    from youbencha.events import Event
    from youbencha.loop.replay import Player
    from youbencha.transcript.recording import RecordingReader

_WITHOUT_PAUSES = "max"


def replay(
    which: Annotated[
        str | None,
        typer.Argument(metavar="[FILE|LOOP]", help="A recording, or a loop's id. Default: the newest loop here."),
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="X", help="So many times as fast as it was; `max`: without pauses.")
    ] = "1",
    first_iteration: Annotated[
        int, typer.Option("--from", metavar="N", min=1, help="Play everything before this iteration at once.")
    ] = 1,
    no_tui: Annotated[bool, typer.Option("--no-tui", help="Print lines instead of the screen.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the events as JSON lines.")] = False,
) -> int:
    """Play a recorded session on the screen.

    Every loop is recorded in `.ralph/loops/LOOP/recording.jsonl`. What Claude Code prints with `--output-format
    stream-json` can be played, too. Pauses of more than 5 s are shortened.

    Example: `ralph replay --speed 4`
    """
    from youbencha.cli.loop.display import choose_loop_display, use_screen
    from youbencha.loop.replay import Player, open_recording, read_any

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
            f"{name} has no event that can be played.",
            hint="It should have been written by `ralph run`, or be the stream-json output of Claude Code.",
        )
    return chain([first], events)
