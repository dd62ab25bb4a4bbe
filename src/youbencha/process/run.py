"""Run one program to its end: feed it, read it, keep its limits, leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from youbencha.errors import YouBenchaError
from youbencha.process.capture import Capture, LineSink
from youbencha.process.model import Command, Exit, Limits, ProcessResult, Started
from youbencha.process.redact import Redactor
from youbencha.process.systems import Running, Source, System, this_system

_LOOK_EVERY_S = (0.002, 0.025)
"""How often a growing file is looked at: at first, and at the most when nothing comes."""
_KILL_MARGIN_S = 0.3
"""Beyond the grace time, before we stop waiting for the guard."""


async def run(
    command: Command,
    *,
    limits: Limits | None = None,
    redactor: Redactor | None = None,
    log_file: Path | None = None,
    on_line: LineSink | None = None,
    on_start: Callable[[Started], None] | None = None,
    stop: asyncio.Event | None = None,
    system: System | None = None,
) -> ProcessResult:
    """Run a program; return when it and all its descendants are gone.

    `on_line` gets each line of standard output as it arrives, secrets removed; `stop` ends the program early.
    If this call is cancelled, the program is ended first.
    """
    limits = limits or Limits()
    with _open_log(log_file) as log:
        capture = Capture(
            redactor=redactor or Redactor(),
            limit=limits.output_bytes,
            longest_line=limits.line_bytes,
            log=log,
            on_line=on_line,
        )
        started_at = time.time()
        running = await (system or this_system()).spawn(command, limits)
        with contextlib.closing(running):
            if on_start:
                on_start(Started(running.pid, command.argv[0]))
            ending = await _Supervision(running, capture, limits, stop).finish()
            skipped = sum(source.skipped_bytes for source in running.sources)
        return ProcessResult(
            exit=ending.exit,
            output=capture.text(),
            truncated=capture.truncated,
            total_bytes=capture.total_bytes + skipped,
            skipped_bytes=skipped,
            timed_out=ending.timed_out,
            stopped=ending.stopped,
            started_at=started_at,
            ended_at=time.time(),
            log_error=capture.log_error,
        )


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
            hint="Check that the artifacts directory exists, belongs to you and has room.",
        ) from error
    with log:
        yield log


class _Supervision:
    """Reads the output while waiting for the first of: the end, the deadline, the caller's stop."""

    def __init__(self, running: Running, capture: Capture, limits: Limits, stop: asyncio.Event | None) -> None:
        self._running = running
        self._capture = capture
        self._limits = limits
        self._stop = stop
        self.timed_out = False
        self.stopped = False
        self.exit = Exit(code=None, signal=None, lifetime_s=0.0)

    async def finish(self) -> _Supervision:
        reading = asyncio.create_task(self._read_until_cancelled())
        try:
            self.exit = await self._await_exit()
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            self._read_rest()
        return self

    async def _await_exit(self) -> Exit:
        waiting = asyncio.ensure_future(self._running.wait())
        stopping = asyncio.ensure_future(self._stop.wait()) if self._stop else None
        try:
            await asyncio.wait(
                {waiting, stopping} if stopping else {waiting},
                timeout=self._limits.timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not waiting.done():
                self.stopped = stopping is not None and stopping.done()
                self.timed_out = not self.stopped
                return await self._end(waiting)
            return waiting.result()
        except asyncio.CancelledError:
            await self._end(waiting)
            raise
        finally:
            if stopping:
                stopping.cancel()

    async def _end(self, waiting: asyncio.Future[Exit]) -> Exit:
        self._running.end()
        await asyncio.wait({waiting}, timeout=self._limits.grace_s + _KILL_MARGIN_S)
        if not waiting.done():
            await self._running.kill()
            await asyncio.wait({waiting}, timeout=_KILL_MARGIN_S)
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return Exit(code=None, signal="SIGKILL", lifetime_s=0.0)

    async def _read_until_cancelled(self) -> None:
        delay = _LOOK_EVERY_S[0]
        with _readiness(self._running.sources) as ready:
            while True:
                if self._read_once():
                    delay = _LOOK_EVERY_S[0]
                    await asyncio.sleep(0)  # a flood must not keep the loop from anything else
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await ready.wait()
                ready.clear()
                delay = min(delay * 2, _LOOK_EVERY_S[1])

    def _read_once(self) -> bool:
        got_something = False
        for source in self._running.sources:
            if data := source.read():
                self._capture.feed(source.stream, data)
                got_something = True
        return got_something

    def _read_rest(self) -> None:
        if self._capture.truncated:
            for source in self._running.sources:
                source.hurry()
        while self._read_once():
            pass
        self._capture.finish()


@contextlib.contextmanager
def _readiness(sources: tuple[Source, ...]) -> Iterator[asyncio.Event]:
    """Set when a source that can tell has something to read; the others are looked at by the clock."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    fds = [source.readable_fd for source in sources if source.readable_fd is not None]
    for fd in fds:
        loop.add_reader(fd, ready.set)
    try:
        yield ready
    finally:
        for fd in fds:
            loop.remove_reader(fd)
