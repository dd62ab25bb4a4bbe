"""Linux and macOS: programs under a guard (`process/guard.py`), with files or a pseudo-terminal for output."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
import weakref
from functools import cache
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.process import guard
from youbencha.process.model import Command, Exit, Limits, OutputSource, Running, signal_name
from youbencha.process.output import Stream
from youbencha.process.program import start_error
from youbencha.process.streams import Spool, open_spools, open_stdin

assert sys.platform != "win32"


_GUARD_PROGRAM = guard.__file__
_INHERITED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")
"""The only variables that the fork server inherits: an agent may read the environment of any process of its user."""
_START_TIMEOUT_S = 30.0
_SWEEP_FOR_S = 2.0
_COLUMNS, _ROWS = 65_535, 50
"""As wide as possible: a program that fits its lines to the width must not wrap a line of JSON."""
_READ_BYTES = 64 * 1024
_MAX_BUFFERED = 1024 * 1024


class _Started(NamedTuple):
    pid: int | None
    """None if the program killed its guard before it could report. Not -1: kill(-1) would signal every process."""
    guard_pid: int | None
    tag: str
    at: float


class PosixRunning:
    """A program under its guard."""

    def __init__(self, started: _Started, channel: GuardChannel, sources: tuple[OutputSource, ...]) -> None:
        self.pid = started.pid
        self.sources = sources
        self._started = started
        self._channel = channel
        self._killed = False

    async def wait(self) -> Exit:
        try:
            report = await self._channel.receive()
        except GuardLostError:
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
        """Kill what the fork server could not (it was killed as well, or this is macOS)."""
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
        except GuardLostError:  # the fork server was killed before it read the request: retry once
            channel, started = await _start(command, limits, fds)
        on_failure.pop_all()
    _fork_server().prepare_guard()
    for source in sources:
        source.close_writer()
    return PosixRunning(started, channel, sources)


@cache
def _fork_server() -> ForkServerClient:
    return ForkServerClient()


async def _start(command: Command, limits: Limits, fds: list[int]) -> tuple[GuardChannel, _Started]:
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
        channel = GuardChannel(_fork_server().take_guard())
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
        """Return what has arrived since the last call, a piece at a time: a screen gets its turn after each."""
        self._fill_buffer()
        was_full = len(self._buffer) >= _MAX_BUFFERED
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
            while len(self._buffer) < _MAX_BUFFERED and (data := os.read(self._reader, _READ_BYTES)):
                self._buffer += data
        except BlockingIOError:
            return
        except OSError:  # end of file on Linux; elsewhere, it is an empty read
            pass
        # A terminal at its end stays readable; and if the buffer is full, the program may block.
        self._loop.remove_reader(self._reader)


def open_terminal() -> TerminalSource:
    reader, writer = os.openpty()
    os.set_blocking(reader, False)
    attributes = termios.tcgetattr(writer)
    attributes[1] &= ~termios.OPOST  # unchanged bytes: no CR before each LF
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(writer, termios.TCSANOW, attributes)
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    return TerminalSource(reader, writer)


class ForkServerClient:
    """Starts the fork server, and gets guards from it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid = 0
        self._channels: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._spare: socket.socket | None = None
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def take_guard(self) -> socket.socket:
        """Return a socket to an idle guard."""
        with self._lock:
            if self._is_gone():
                self._forget()
            spare, self._spare = self._spare, None
            return spare or self._new_guard()

    def prepare_guard(self) -> None:
        """Fork a guard for the next program in advance."""
        with self._lock, contextlib.suppress(OSError):
            self._spare = self._spare or self._new_guard()

    def give_up(self) -> None:
        """Kill a fork server that does not answer: the next guard comes from a new one."""
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                self._forget()

    def _new_guard(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                try:
                    self._ask(theirs)
                except OSError:  # the fork server was killed: start another, once
                    self._forget()
                    self._ask(theirs)
            except OSError:
                ours.close()
                raise
            self._channels.add(ours)
        return ours

    def _ask(self, theirs: socket.socket) -> None:
        if self._socket is None:
            self._socket, self._pid = _start_fork_server()
        socket.send_fds(self._socket, [b"g"], [theirs.fileno()])

    def _is_gone(self) -> bool:
        """Return whether the fork server has ended. It never sends anything, so an empty read means that."""
        if self._socket is None:
            return False
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except ConnectionError:  # killed before it had read a request
            return True

    def _forget(self) -> None:
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        if self._spare is not None:  # without a fork server, the agent would escape if it killed this guard
            self._spare.close()
            self._spare = None
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)  # it closes its socket only by ending, so this returns at once

    def _reset_after_fork(self) -> None:
        """Let a forked harness start its own. With its parent's sockets open, guards would miss the parent's end."""
        for channel in [*self._channels, *([self._socket] if self._socket else [])]:
            channel.close()
        self._channels.clear()
        self._socket = self._spare = None
        self._lock = threading.Lock()  # another thread may have held it at the fork


def _start_fork_server() -> tuple[socket.socket, int]:
    ours, theirs = socket.socketpair()
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-S", _GUARD_PROGRAM, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C in the terminal must reach only the harness, which then ends it
        )
    process.returncode = 0  # it ends with this process; this keeps Popen from warning
    return ours, process.pid


class GuardLostError(YouBenchaError):
    """The guard no longer answers."""


def _guard_lost() -> GuardLostError:
    return GuardLostError(
        "PROCESS_GUARD_LOST",
        "The process that supervises the agent was killed, and the agent with it.",
        hint="Find out what kills processes on this host: the out-of-memory killer, or the agent itself.",
    )


class GuardChannel:
    """The connection to one guard: a request goes out, JSON lines come back."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._control = control
        self._received = bytearray()

    async def ask(self, request: bytes, fds: list[int]) -> dict[str, Any]:
        """Send the request; return whether the program started, or that the guard was lost meanwhile."""
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                socket.send_fds(self._control, [guard.HEADER.pack(len(request))], fds)
                await asyncio.get_running_loop().sock_sendall(self._control, request)
                await self.receive()  # `starting`
                return await self._receive_start()
        except ConnectionError:
            raise _guard_lost() from None
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, "the process that starts programs does not answer") from None

    async def _receive_start(self) -> dict[str, Any]:
        try:
            return await self.receive()
        except GuardLostError:  # the program killed the guard before it could report the start
            return {"lost": True}

    async def receive(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        while b"\n" not in self._received:
            piece = b""
            with contextlib.suppress(ConnectionError):  # a guard killed with unread data resets the connection
                piece = await loop.sock_recv(self._control, 4096)
            if not piece:
                raise _guard_lost()
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def end(self) -> None:
        with contextlib.suppress(OSError):  # it has ended already
            self._control.send(guard.END_NOW)

    def close(self) -> None:
        self._control.close()
