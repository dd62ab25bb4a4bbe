"""Linux and macOS: programs under a guard (`process/guard.py`), with files or a pseudo-terminal for output."""

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
from youbencha.process.model import Command, Exit, Limits, OutputSource, Running, signal_name
from youbencha.process.output import Stream
from youbencha.process.program import start_error
from youbencha.process.streams import Spool, open_spools, open_stdin

assert sys.platform != "win32"


_SWEEP_FOR_S = 2.0
_COLUMNS, _ROWS = 65_535, 50
"""As wide as possible: a program that fits its lines to the width must not wrap a line of JSON."""
_READ_BYTES = 64 * 1024
_MOST_BUFFERED = 1024 * 1024


class _Started(NamedTuple):
    pid: int | None
    """None if the program killed its guard before it could report. Not -1: kill(-1) would signal every process."""
    guard_pid: int | None
    tag: str
    at: float


class PosixRunning:
    """A program under its guard."""

    def __init__(
        self, started: _Started, channel: guard_client.GuardChannel, sources: tuple[OutputSource, ...]
    ) -> None:
        self.pid = started.pid
        self.sources = sources
        self._started = started
        self._channel = channel
        self._killed = False

    async def wait(self) -> Exit:
        try:
            report = await self._channel.receive()
        except guard_client.GuardLostError:
            await asyncio.to_thread(self._kill_strays)
            return Exit(
                code=None,
                signal="SIGKILL",
                lifetime_s=time.monotonic() - self._started.at,
                guard_lost=not self._killed,
            )
        status = int(report["status"])
        return Exit(
            code=status if status >= 0 else None,
            signal=signal_name(-status) if status < 0 else None,
            lifetime_s=report["lifetime"],
            exited_on_its_own=report["exited_on_its_own"],
            leftovers=tuple(report["leftovers"]),
            cpu_s=report["cpu"],
            peak_rss_bytes=int(report["rss"]),
        )

    def end(self) -> None:
        self._channel.end()

    async def kill(self) -> None:
        """Kill a guard that does not answer (it may have been stopped): the fork server then ends its tree."""
        self._killed = True
        if self._started.guard_pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self._started.guard_pid, signal.SIGKILL)

    def close(self) -> None:
        self._channel.close()
        for source in self.sources:
            source.close()

    def _kill_strays(self) -> None:
        """For when the fork server cannot (it was killed too, or this is macOS)."""
        give_up = time.monotonic() + _SWEEP_FOR_S
        while (strays := guard.find_strays(self._started.tag, self.pid)) and time.monotonic() < give_up:
            guard.signal_all(strays, signal.SIGKILL)


class PosixSystem:
    async def spawn(self, command: Command, limits: Limits) -> Running:
        try:
            return await _spawn(command, limits)
        except OSError as error:  # no descriptors, no disk, no processes left
            raise start_error(command, str(error), error.errno) from error

    def warm_up(self) -> None:
        _fork_server().prepare_guard()


async def _spawn(command: Command, limits: Limits) -> PosixRunning:
    with contextlib.ExitStack() as on_failure, open_stdin(command.stdin) as stdin:
        sources, out_fd, err_fd = _open_outputs(command, limits)
        for source in sources:
            on_failure.callback(source.close)
        fds = [stdin.fileno(), out_fd, err_fd]
        try:
            channel, started = await _start(command, limits, fds)
        except guard_client.GuardLostError:  # the fork server was killed before it read the request: retry once
            channel, started = await _start(command, limits, fds)
        on_failure.pop_all()
    _fork_server().prepare_guard()
    for source in sources:
        source.close_writer()
    return PosixRunning(started, channel, sources)


@cache
def _fork_server() -> guard_client.ForkServerClient:
    return guard_client.ForkServerClient()


async def _start(command: Command, limits: Limits, fds: list[int]) -> tuple[guard_client.GuardChannel, _Started]:
    tag = uuid.uuid4().hex
    request = {
        "argv": command.argv,
        "cwd": str(command.cwd.absolute()),  # the guard has another working directory
        "env": {**command.env, guard.TAG: tag},
        "terminal": command.terminal,
        "grace": limits.grace_s,
        "settle": limits.settle_s,
        "tag": tag,
    }
    with contextlib.ExitStack() as on_failure:
        channel = guard_client.GuardChannel(_fork_server().take_guard())
        on_failure.callback(channel.close)
        try:
            answer = await channel.ask(json.dumps(request).encode(), fds)
        except TimeoutError:
            _fork_server().give_up()
            raise
        if "failed" in answer:
            raise start_error(command, answer["failed"], answer["errno"])
        on_failure.pop_all()
    if "lost" in answer:
        return channel, _Started(None, None, tag, time.monotonic())
    return channel, _Started(int(answer["started"]), int(answer["guard"]), tag, time.monotonic())


def _open_outputs(command: Command, limits: Limits) -> tuple[tuple[Spool | TerminalSource, ...], int, int]:
    if command.terminal:
        source = open_terminal()
        return (source,), source.writer, source.writer
    out, err = open_spools(limits)
    return (out, err), out.writer, err.writer


class TerminalSource:
    """The harness's end of the terminal. Standard output and standard error arrive here as one stream.

    A terminal's buffer has a few kilobytes, and a program that fills it blocks: so output is read as soon as it
    arrives, not at the next `read`.
    """

    stream = Stream.OUT
    skipped_bytes = 0

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self.writer = writer
        self._buffer = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(reader, self._fill_buffer)

    def read(self) -> bytes:
        """What has arrived since the last call, a piece at a time: a screen gets its turn after each."""
        self._fill_buffer()
        was_full = len(self._buffer) >= _MOST_BUFFERED
        data = bytes(self._buffer[:_READ_BYTES])
        del self._buffer[:_READ_BYTES]
        if was_full:
            self._loop.add_reader(self._reader, self._fill_buffer)
        return data

    def skip_to_end(self) -> None:
        """Do nothing: a terminal's buffer is small."""

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self._loop.remove_reader(self._reader)
        self.close_writer()
        os.close(self._reader)

    def _fill_buffer(self) -> None:
        try:
            while len(self._buffer) < _MOST_BUFFERED and (data := os.read(self._reader, _READ_BYTES)):
                self._buffer += data
        except BlockingIOError:
            return
        except OSError:  # end of file on Linux; elsewhere, it is an empty read
            pass
        # A terminal at its end stays readable; and if the buffer is full, the program may block.
        self._loop.remove_reader(self._reader)


def open_terminal() -> TerminalSource:
    import fcntl
    import termios

    reader, writer = os.openpty()
    os.set_blocking(reader, False)
    attributes = termios.tcgetattr(writer)
    attributes[1] &= ~termios.OPOST  # unchanged bytes: no CR before each LF
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(writer, termios.TCSANOW, attributes)
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    return TerminalSource(reader, writer)
