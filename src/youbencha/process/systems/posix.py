"""Linux and macOS: every program runs below a guard (see `process/guard.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import sys
import time
import uuid
from dataclasses import dataclass
from functools import cache
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.process import guard, terminal
from youbencha.process.capture import Stream
from youbencha.process.errors import start_error
from youbencha.process.model import Command, Exit, Limits
from youbencha.process.spool import Spool
from youbencha.process.systems import nursery
from youbencha.process.systems.base import Running, Source
from youbencha.process.systems.stdin import open_stdin

assert sys.platform != "win32"

_START_WITHIN_S = 30.0
_SWEEP_FOR_S = 2.0


class GuardLostError(YouBenchaError):
    """The guard does not answer any more."""


def _guard_lost() -> GuardLostError:
    return GuardLostError(
        "PROCESS_GUARD_LOST",
        "The process that watches over the agent was killed; the agent was ended with it.",
        hint="Look for what kills processes here: an out-of-memory killer, or the agent itself.",
    )


class GuardLine:
    """The line to one guard: a request goes out, JSON lines come back."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._control = control
        self._received = bytearray()

    async def ask(self, request: bytes, fds: list[int]) -> dict[str, Any]:
        """Send the request; the answer says whether the program started."""
        try:
            async with asyncio.timeout(_START_WITHIN_S):
                socket.send_fds(self._control, [guard.HEADER.pack(len(request))], fds)
                await asyncio.get_running_loop().sock_sendall(self._control, request)
                return await self.receive()
        except ConnectionError:
            raise _guard_lost() from None
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, "the process that starts programs does not answer") from None

    async def receive(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        while b"\n" not in self._received:
            piece = b""
            with contextlib.suppress(ConnectionError):  # a guard that was killed with unread data resets the line
                piece = await loop.sock_recv(self._control, 4096)
            if not piece:
                raise _guard_lost()
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def end(self) -> None:
        with contextlib.suppress(OSError):  # already gone is as good
            self._control.send(guard.END_NOW)

    def close(self) -> None:
        self._control.close()


@dataclass(frozen=True, slots=True)
class _Started:
    pid: int
    guard_pid: int
    tag: str
    at: float


class PosixRunning:
    def __init__(self, started: _Started, line: GuardLine, sources: tuple[Source, ...]) -> None:
        self.pid = started.pid
        self.sources = sources
        self._started = started
        self._line = line
        self._killed = False

    async def wait(self) -> Exit:
        try:
            report = await self._line.receive()
        except GuardLostError:
            await asyncio.to_thread(self._kill_strays)
            if not self._killed:
                raise
            return Exit(code=None, signal="SIGKILL", lifetime_s=time.monotonic() - self._started.at)
        status = int(report["status"])
        return Exit(
            code=status if status >= 0 else None,
            signal=signal_name(-status) if status < 0 else None,
            lifetime_s=report["lifetime"],
            leftovers=report["leftovers"],
            cpu_s=report["cpu"],
            peak_rss_bytes=int(report["rss"]),
        )

    def end(self) -> None:
        self._line.end()

    async def kill(self) -> None:
        """The guard does not answer: something stopped it. When it is killed, the nursery ends what it guarded."""
        self._killed = True
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


async def _spawn(command: Command, limits: Limits) -> PosixRunning:
    with contextlib.ExitStack() as on_failure, open_stdin(command.stdin) as stdin:
        sources, out_fd, err_fd = _open_outputs(command, limits)
        for source in sources:
            on_failure.callback(source.close)
        fds = [stdin.fileno(), out_fd, err_fd]
        try:
            line, started = await _start(command, limits, fds)
        except GuardLostError:  # a nursery that was killed in this moment took the request along: once more
            line, started = await _start(command, limits, fds)
        on_failure.pop_all()
    for source in sources:
        source.close_writer()
    return PosixRunning(started, line, sources)


@cache
def _the_nursery() -> nursery.Nursery:
    return nursery.Nursery()


async def _start(command: Command, limits: Limits, fds: list[int]) -> tuple[GuardLine, _Started]:
    tag = uuid.uuid4().hex
    request = {
        "argv": command.argv,
        "cwd": str(command.cwd.absolute()),  # the guard is elsewhere
        "env": {**command.env, guard.TAG: tag},
        "terminal": command.terminal,
        "grace": limits.grace_s,
        "tag": tag,
    }
    with contextlib.ExitStack() as on_failure:
        line = GuardLine(_the_nursery().new_guard())
        on_failure.callback(line.close)
        answer = await line.ask(json.dumps(request).encode(), fds)
        if "failed" in answer:
            raise start_error(command, answer["failed"], answer["errno"])
        on_failure.pop_all()
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
