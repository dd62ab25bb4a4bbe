"""Linux and macOS: every program runs below a guard (see `process/guard.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import uuid
from functools import cache
from typing import NamedTuple

from youbencha.process import guard, terminal
from youbencha.process.errors import start_error
from youbencha.process.lines import Stream
from youbencha.process.model import Command, Exit, Limits
from youbencha.process.spool import Spool
from youbencha.process.systems import guard_line, nursery
from youbencha.process.systems.base import Running, Source
from youbencha.process.systems.stdin import open_stdin

assert sys.platform != "win32"

_SWEEP_FOR_S = 2.0


class _Started(NamedTuple):
    pid: int | None
    """None if the program killed its guard before that could tell. Never a number in its stead: kill(-1) is for all."""
    guard_pid: int | None
    tag: str
    at: float


class PosixRunning:
    def __init__(self, started: _Started, line: guard_line.GuardLine, sources: tuple[Source, ...]) -> None:
        self.pid = started.pid
        self.sources = sources
        self._started = started
        self._line = line
        self._killed = False

    async def wait(self) -> Exit:
        try:
            report = await self._line.receive()
        except guard_line.GuardLostError:
            await asyncio.to_thread(self._kill_strays)
            return Exit(
                code=None,
                signal="SIGKILL",
                signal_number=signal.SIGKILL,
                lifetime_s=time.monotonic() - self._started.at,
                guard_lost=not self._killed,
            )
        status = int(report["status"])
        return Exit(
            code=status if status >= 0 else None,
            signal=signal_name(-status) if status < 0 else None,
            signal_number=-status if status < 0 else None,
            lifetime_s=report["lifetime"],
            by_itself=report["by_itself"],
            leftovers=tuple(report["leftovers"]),
            cpu_s=report["cpu"],
            peak_rss_bytes=int(report["rss"]),
        )

    def end(self) -> None:
        self._line.end()

    async def kill(self) -> None:
        """The guard does not answer: something stopped it. When it is killed, the nursery ends what it guarded."""
        self._killed = True
        if self._started.guard_pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self._started.guard_pid, signal.SIGKILL)

    def close(self) -> None:
        self._line.close()
        for source in self.sources:
            source.close()

    def _kill_strays(self) -> None:
        """Where the nursery cannot help (it was killed too, or this is macOS)."""
        give_up = time.monotonic() + _SWEEP_FOR_S
        while (strays := guard.find_strays(self._started.tag, self.pid)) and time.monotonic() < give_up:
            guard.signal_all(strays, signal.SIGKILL)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names here
        return f"SIG{number}"


class PosixSystem:
    async def spawn(self, command: Command, limits: Limits) -> Running:
        try:
            return await _spawn(command, limits)
        except OSError as error:  # no descriptors, no disk, no processes left
            raise start_error(command, str(error), error.errno) from error

    def get_ready(self) -> None:
        _the_nursery().prepare_guard()


async def _spawn(command: Command, limits: Limits) -> PosixRunning:
    with contextlib.ExitStack() as on_failure, open_stdin(command.stdin) as stdin:
        sources, out_fd, err_fd = _open_outputs(command, limits)
        for source in sources:
            on_failure.callback(source.close)
        fds = [stdin.fileno(), out_fd, err_fd]
        try:
            line, started = await _start(command, limits, fds)
        except guard_line.GuardLostError:  # a nursery that was killed in this moment took the request along: once more
            line, started = await _start(command, limits, fds)
        on_failure.pop_all()
    _the_nursery().prepare_guard()
    for source in sources:
        source.close_writer()
    return PosixRunning(started, line, sources)


@cache
def _the_nursery() -> nursery.Nursery:
    return nursery.Nursery()


async def _start(command: Command, limits: Limits, fds: list[int]) -> tuple[guard_line.GuardLine, _Started]:
    tag = uuid.uuid4().hex
    request = {
        "argv": command.argv,
        "cwd": str(command.cwd.absolute()),  # the guard is elsewhere
        "env": {**command.env, guard.TAG: tag},
        "terminal": command.terminal,
        "grace": limits.grace_s,
        "settle": limits.settle_s,
        "tag": tag,
    }
    with contextlib.ExitStack() as on_failure:
        line = guard_line.GuardLine(_the_nursery().take_guard())
        on_failure.callback(line.close)
        try:
            answer = await line.ask(json.dumps(request).encode(), fds)
        except TimeoutError:
            _the_nursery().give_up()
            raise
        if "failed" in answer:
            raise start_error(command, answer["failed"], answer["errno"])
        on_failure.pop_all()
    if "lost" in answer:
        return line, _Started(None, None, tag, time.monotonic())
    return line, _Started(int(answer["started"]), int(answer["guard"]), tag, time.monotonic())


def _open_outputs(command: Command, limits: Limits) -> tuple[tuple[Spool | terminal.TerminalSource, ...], int, int]:
    if command.terminal:
        source = terminal.open_terminal()
        return (source,), source.writer, source.writer
    out = Spool(Stream.OUT, limits)
    try:
        err = Spool(Stream.ERR, limits)
    except OSError:
        out.close()
        raise
    return (out, err), out.writer, err.writer
