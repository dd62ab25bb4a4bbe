"""Play a recording again: find it, and give its events to a sink with the pauses of the recording."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BufferedReader
from pathlib import Path

from youbencha.adapters.claude_code.stream import ClaudeStreamReader
from youbencha.errors import YouBenchaError
from youbencha.events import Event, EventSink, IterationStarted
from youbencha.files import open_file, open_nofollow
from youbencha.json_lines import Record
from youbencha.loop.directory import LoopDirectory
from youbencha.store.layout import RECORDING_FILE
from youbencha.transcript.recording import TYPE_NAMES, RecordingReader

MAX_PAUSE_S = 5.0
"""Longer pauses of the recording are shortened: a loop may wait for hours."""

_STEP_S = 0.05
"""Between the messages of an agent that have no time."""

_SLICE_S = 0.01
"""Without pauses, the screen gets its turn after this time."""


def open_recording(which: str | None, directory: Path) -> BufferedReader:
    """Open a file, the recording of a loop by its id, or the newest in `directory`. Raises YouBenchaError."""
    try:
        if which is not None and ((path := directory / which).exists() or path.parent != directory):
            return open_file(path / RECORDING_FILE if path.is_dir() else path)
        loop = LoopDirectory.newest(directory) if which is None else LoopDirectory(directory, which)
        return open_nofollow(directory, str(loop.recording_file.relative_to(directory)))
    except OSError as error:
        message = f"{error.filename or which} {error.strerror}"
        hint = "Name a recording, an agent's output in stream-json, or a loop in this directory."
        raise YouBenchaError("RECORDING_NOT_FOUND", message, hint=hint) from error


def read_any(file: BufferedReader) -> RecordingReader:
    """Read a recording, or what Claude Code prints with `--output-format stream-json`."""
    return RecordingReader(file, _Messages().read)


class _Messages:
    """Reads messages of Claude Code, which have no time, as events one after the other."""

    def __init__(self) -> None:
        self._handlers = ClaudeStreamReader().handlers()
        self._at = 0.0

    def read(self, record: Record) -> Iterator[Event]:
        handler = self._handlers.get(str(record.get("type")))
        for event in handler(record) if handler else ():
            if type(event) in TYPE_NAMES:
                self._at += _STEP_S
                yield replace(event, at=self._at)


class Player:
    """Plays events. A screen controls it as it does a loop: pause, resume, stop, and no further pause here."""

    def __init__(self, recording: Iterable[Event], *, speed: float | None = 1.0, first_iteration: int = 1) -> None:
        """`speed` None: without pauses. What is before `first_iteration` is played without pauses."""
        self.paused = False
        self._recording = recording
        self._speed = speed
        self._first_iteration = first_iteration
        self._seeking = first_iteration > 1
        self._stopped = False
        self._skipped = False
        self._changed = asyncio.Event()
        self._at = 0.0
        self._next_at = 0.0
        self._reached = time.monotonic()

    def now(self) -> float:
        """The time of the recording, for the clocks on a screen."""
        passed = 0.0 if self.paused or self._speed is None else (time.monotonic() - self._reached) * self._speed
        return min(self._at + passed, self._next_at)

    async def play(self, sink: EventSink) -> None:
        slice_began = time.monotonic()
        for event in self._recording:
            await self._wait_for(event)
            if self._stopped:
                return
            sink(event)
            if time.monotonic() - slice_began > _SLICE_S:
                await asyncio.sleep(0)
                slice_began = time.monotonic()

    async def _wait_for(self, event: Event) -> None:
        self._next_at = event.at
        pause_s = 0.0
        if self._speed is not None and not self._seeking and self._at:
            pause_s = min(max(event.at - self._at, 0.0), MAX_PAUSE_S) / self._speed
        await self._wait(pause_s)
        self._at, self._reached = event.at, time.monotonic()
        if isinstance(event, IterationStarted) and event.iteration >= self._first_iteration:
            self._seeking = False

    async def _wait(self, pause_s: float) -> None:
        """Wait, and while it is paused, without end."""
        until = time.monotonic() + pause_s
        while not self._stopped:
            left_s = until - time.monotonic()
            if not self.paused and (left_s <= 0 or self._skipped):
                self._skipped = False
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(None if self.paused else left_s):
                    await self._changed.wait()
            except TimeoutError:
                return

    def pause(self) -> None:
        self.paused = True
        self._changed.set()

    def resume(self) -> None:
        self.paused = False
        self._changed.set()

    def stop(self) -> None:
        self._stopped = True
        self._changed.set()

    def try_now(self) -> None:
        """End the present pause."""
        self._skipped = True
        self._changed.set()

    def guide(self, text: str) -> None:
        """A recording takes no guidance."""

    async def diff(self) -> str:
        return "A recording has no files to compare."
