"""Run one program to its end: read its output, enforce its limits, leave no process behind."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

from youbencha.errors import YouBenchaError
from youbencha.process.disks import FullDiskWatch
from youbencha.process.model import Command, Exit, Input, Limits, OutputSource, ProcessResult, Running, Started, System
from youbencha.process.output import Capture, LineSink
from youbencha.process.redact import Redactor

_POLL_S = (0.002, 0.025)
"""The time to wait for more output: right after some came, and at most while none comes."""
_KILL_MARGINS_S = (2.0, 1.5)
"""The time to wait beyond the grace time for the system to end the tree, and then for the last resort.

It usually takes milliseconds; 16 trees of 64 processes each, ended at the same time on two cores, took half a second.
The rest is headroom: a guard that is killed too early cannot say how the program ended, and what still runs changes
files."""


def warm_up() -> None:
    """Begin in the background what the first `run` would have to wait for."""
    this_system().warm_up()


async def run(
    command: Command,
    *,
    limits: Limits | None = None,
    redactor: Redactor | None = None,
    log_file: Path | None = None,
    on_line: LineSink | None = None,
    on_start: Callable[[Started], None] | None = None,
    on_output: Callable[[], None] | None = None,
    stop: asyncio.Event | None = None,
    extra_sources: Sequence[OutputSource] = (),
    system: System | None = None,
    writes_to: Sequence[Path] | None = None,
) -> ProcessResult:
    """Run a program; return when it and all its descendants are gone.

    `on_line` gets each line of standard output as it arrives, to be parsed: its secrets are not masked. `on_output` is
    called whenever anything arrives. `stop` ends the program early. `extra_sources` are read as if the program had
    written them. If this call is cancelled, the program is ended first. `writes_to` are directories whose disks are
    watched: by default, the program's working directory, home and temporary directory.
    """
    limits = limits or Limits()
    if writes_to is None:
        writes_to = [command.cwd, *(Path(command.env[name]) for name in ("HOME", "TMPDIR") if command.env.get(name))]
    with _open_log(log_file) as log:
        capture = Capture(redactor or Redactor(), limits.output_bytes, limits.line_bytes, log, on_line)
        started_at, started = time.time(), time.monotonic()
        with _closing(command.stdin):  # also if nothing starts, because a thread waits for data to write
            running = await _spawn(system or this_system(), command, limits)
            spawning_s = time.monotonic() - started
            with contextlib.closing(running):
                if on_start and running.pid is not None:
                    on_start(Started(running.pid, command.argv[0]))
                ending = await _Supervision(
                    running, capture, limits, stop, extra_sources, writes_to, on_output
                ).finish()
                skipped = sum(source.skipped_bytes for source in running.sources)
        duration_s = time.monotonic() - started
        if ending.exit.exited_on_its_own:  # without the time spent waiting for processes that it left running
            duration_s = min(duration_s, spawning_s + ending.exit.lifetime_s)
        captured = capture.take()
        return ProcessResult(
            exit=ending.exit,
            output=captured.output,
            printed=captured.printed,
            started_at=started_at,
            duration_s=duration_s,
            total_bytes=capture.total_bytes + skipped,
            skipped_bytes=skipped,
            timed_out=ending.timed_out,
            stopped=ending.stopped,
            log_error=capture.log_error,
            unfinished_line=capture.unfinished_line,
            end=captured.end,
        )


@contextlib.contextmanager
def _closing(stdin: bytes | Input | None) -> Iterator[None]:
    """Close an `Input` at the end of its run."""
    try:
        yield
    finally:
        if isinstance(stdin, Input):
            stdin.close()


async def _spawn(system: System, command: Command, limits: Limits) -> Running:
    """Start the program. A cancellation meanwhile does not leave it running."""
    spawning = asyncio.ensure_future(system.spawn(command, limits))
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        with contextlib.suppress(YouBenchaError), contextlib.closing(await spawning) as running:
            running.end()
            await running.wait()
        raise


@contextlib.contextmanager
def _open_log(path: Path | None) -> Iterator[BinaryIO | None]:
    if path is None:
        yield None
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        log = path.open("xb", buffering=0)  # unbuffered: what was written survives a kill -9 of the harness
    except OSError as error:
        raise YouBenchaError(
            "ARTIFACTS_NOT_WRITABLE",
            f"Cannot write the log file {path}: {error.strerror or error}",
            hint="Check that the artifacts directory exists and is writable, and free disk space.",
        ) from error
    with log:
        yield log


class _Supervision:
    """Reads the output while waiting for the first of: the end, the deadline, the caller's stop."""

    def __init__(
        self,
        running: Running,
        capture: Capture,
        limits: Limits,
        stop: asyncio.Event | None,
        extra_sources: Sequence[OutputSource],
        writes_to: Sequence[Path],
        on_output: Callable[[], None] | None,
    ) -> None:
        self._running = running
        self._sources = (*running.sources, *extra_sources)
        self._capture = capture
        self._limits = limits
        self._stop = stop
        self._on_output = on_output
        self._disks = (Path(tempfile.gettempdir()), *writes_to)
        self._started = time.monotonic()
        self.timed_out = False
        self.stopped = False
        self.exit = Exit(code=None, signal=None, lifetime_s=0.0)

    async def finish(self) -> _Supervision:
        reading = asyncio.create_task(self._read_until_cancelled())
        disks = FullDiskWatch(self._disks)
        try:
            self.exit = await self._await_exit(reading)
        finally:
            disks.stop()
            reading.cancel()
            await asyncio.wait({reading})
            if reading.cancelled():
                self._read_rest()
        if (full := await disks.result()) and not self.exit.limit_hit:
            self.exit = self.exit._replace(host_failure=f"the disk with {full} was full")
        return self

    async def _await_exit(self, reading: asyncio.Task[None]) -> Exit:
        waiting = asyncio.ensure_future(self._running.wait())
        stopping = asyncio.ensure_future(self._stop.wait()) if self._stop else None
        watched = [task for task in (waiting, reading, stopping) if task]
        try:
            await asyncio.wait(watched, timeout=self._limits.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():  # only if the caller's `on_line` failed
                await self._end(waiting)
                reading.result()
            if waiting.done():
                return waiting.result()
            stopped = stopping is not None and stopping.done()
            ended = await self._end(waiting)
            # If only helpers were still running, the program itself was neither stopped nor timed out.
            self.stopped = stopped and not ended.exited_on_its_own
            self.timed_out = not stopped and not ended.exited_on_its_own
            return ended
        except asyncio.CancelledError:
            with contextlib.suppress(YouBenchaError):
                await self._end(waiting)
            raise
        finally:
            waiting.cancel()
            if stopping:
                stopping.cancel()

    async def _end(self, waiting: asyncio.Future[Exit]) -> Exit:
        self._running.end()
        await asyncio.wait({waiting}, timeout=self._limits.grace_s + _KILL_MARGINS_S[0])
        if not waiting.done():
            await self._running.kill()
            await asyncio.wait({waiting}, timeout=_KILL_MARGINS_S[1])
        if waiting.done():
            return waiting.result()
        return Exit(code=None, signal="SIGKILL", lifetime_s=time.monotonic() - self._started)

    async def _read_until_cancelled(self) -> None:
        delay = _POLL_S[0]
        while True:
            if self._read_once():
                delay = _POLL_S[0]
                await asyncio.sleep(0)  # continuous output must not block the event loop
            else:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _POLL_S[1])

    def _read_once(self) -> bool:
        got_something = False
        for source in self._sources:
            if data := source.read():
                self._capture.feed(source.stream, data)
                got_something = True
        if got_something and self._on_output:
            self._on_output()
        return got_something

    def _read_rest(self) -> None:
        if self._capture.truncated and (self.timed_out or self.stopped):
            for source in self._sources:
                source.skip_to_end()
        while self._read_once():
            pass
        self._capture.finish()


@cache
def this_system() -> System:
    """Return the operating system that this process runs on."""
    system: System
    if sys.platform == "win32":
        from youbencha.process.windows import WindowsSystem

        system = WindowsSystem()
    else:
        from youbencha.process.posix import PosixSystem

        system = PosixSystem()
    return system
