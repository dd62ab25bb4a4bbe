"""Linux and macOS: every program runs below a guard (see `process/guard.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import struct
import sys
import time
import uuid
from functools import cache
from typing import NamedTuple

from youbencha.process import guard, guard_client
from youbencha.process.model import Command, Exit, Limits, OutputSource, Running
from youbencha.process.output import Stream
from youbencha.process.program import start_error
from youbencha.process.streams import Spool, open_stdin

assert sys.platform != "win32"


_SWEEP_FOR_S = 2.0


class _Started(NamedTuple):
    pid: int | None
    """None if the program killed its guard before that could tell. Never a number in its stead: kill(-1) is for all."""
    guard_pid: int | None
    tag: str
    at: float


class PosixRunning:
    def __init__(self, started: _Started, line: guard_client.GuardChannel, sources: tuple[OutputSource, ...]) -> None:
        self.pid = started.pid
        self.sources = sources
        self._started = started
        self._line = line
        self._killed = False

    async def wait(self) -> Exit:
        try:
            report = await self._line.receive()
        except guard_client.GuardLostError:
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
        _fork_server().prepare_guard()


async def _spawn(command: Command, limits: Limits) -> PosixRunning:
    with contextlib.ExitStack() as on_failure, open_stdin(command.stdin) as stdin:
        sources, out_fd, err_fd = _open_outputs(command, limits)
        for source in sources:
            on_failure.callback(source.close)
        fds = [stdin.fileno(), out_fd, err_fd]
        try:
            line, started = await _start(command, limits, fds)
        except (
            guard_client.GuardLostError
        ):  # a nursery that was killed in this moment took the request along: once more
            line, started = await _start(command, limits, fds)
        on_failure.pop_all()
    _fork_server().prepare_guard()
    for source in sources:
        source.close_writer()
    return PosixRunning(started, line, sources)


@cache
def _fork_server() -> guard_client.ForkServerClient:
    return guard_client.ForkServerClient()


async def _start(command: Command, limits: Limits, fds: list[int]) -> tuple[guard_client.GuardChannel, _Started]:
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
        line = guard_client.GuardChannel(_fork_server().take_guard())
        on_failure.callback(line.close)
        try:
            answer = await line.ask(json.dumps(request).encode(), fds)
        except TimeoutError:
            _fork_server().give_up()
            raise
        if "failed" in answer:
            raise start_error(command, answer["failed"], answer["errno"])
        on_failure.pop_all()
    if "lost" in answer:
        return line, _Started(None, None, tag, time.monotonic())
    return line, _Started(int(answer["started"]), int(answer["guard"]), tag, time.monotonic())


def _open_outputs(command: Command, limits: Limits) -> tuple[tuple[Spool | TerminalSource, ...], int, int]:
    if command.terminal:
        source = open_terminal()
        return (source,), source.writer, source.writer
    out = Spool(Stream.OUT, limits)
    try:
        err = Spool(Stream.ERR, limits)
    except OSError:
        out.close()
        raise
    return (out, err), out.writer, err.writer


# A pseudo-terminal (PTY) as the place a program writes to, for programs that behave otherwise without one.

_COLUMNS, _ROWS = 200, 50

_READ_BYTES = 64 * 1024

_MOST_TAKEN = 1024 * 1024


class TerminalSource:
    """Our end of the terminal. Standard output and standard error arrive here as one stream.

    A terminal holds a few kilobytes, and a program that fills it waits: so they are taken out as soon as they come,
    not when somebody next looks.
    """

    stream = Stream.OUT
    skipped_bytes = 0

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self.writer = writer
        self._taken = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(reader, self._take)

    def read(self) -> bytes:
        self._take()
        data = bytes(self._taken)
        self._taken.clear()
        if len(data) >= _MOST_TAKEN:
            self._loop.add_reader(self._reader, self._take)
        return data

    def skip_to_end(self) -> None:
        """Little waits here: nothing to skip."""

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self._loop.remove_reader(self._reader)
        self.close_writer()
        os.close(self._reader)

    def _take(self) -> None:
        try:
            while len(self._taken) < _MOST_TAKEN and (data := os.read(self._reader, _READ_BYTES)):
                self._taken += data
        except BlockingIOError:
            return
        except OSError:  # Linux's way to say that nobody writes any more; elsewhere, it is an empty read
            pass
        # At its end, a terminal is readable all the time; when we hold enough, the program may wait.
        self._loop.remove_reader(self._reader)


def open_terminal() -> TerminalSource:
    import fcntl
    import termios

    reader, writer = os.openpty()
    os.set_blocking(reader, False)
    attributes = termios.tcgetattr(writer)
    attributes[1] &= ~termios.OPOST  # the bytes as they were written: no CR before each LF
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(writer, termios.TCSANOW, attributes)
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    return TerminalSource(reader, writer)
