"""Linux and macOS: every program runs below a guard (see `process/guard.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.process import guard
from youbencha.process.capture import Stream
from youbencha.process.errors import start_error
from youbencha.process.model import Command, Exit, Limits
from youbencha.process.spool import Spool
from youbencha.process.systems.base import Running, Source
from youbencha.process.terminal import TerminalSource, open_terminal


class SpoolSource(Spool):
    """A spool as the source of one stream."""

    readable_fd = None

    def __init__(self, stream: Stream, limits: Limits) -> None:
        super().__init__(limits.spool_bytes, keep_first=limits.output_bytes)
        self.stream = stream


class Nursery:
    """The harness's side of its nursery process: started on first use, ends with the harness."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._socket: socket.socket | None = None

    def new_guard(self) -> socket.socket:
        """A fresh guard; the returned socket is the line to it."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            for attempt in (1, 2):
                try:
                    socket.send_fds(self._connect(), [b"g"], [theirs.fileno()])
                    break
                except OSError:
                    self._socket = None  # somebody killed it: one fresh start
                    if attempt == 2:
                        ours.close()
                        raise
        return ours

    def _connect(self) -> socket.socket:
        if self._socket is None or self._owner != os.getpid():  # a forked harness needs its own
            self._socket = _start_nursery()
            self._owner = os.getpid()
        return self._socket


def _start_nursery() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-s", guard.__file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C at the terminal is for the harness, which then ends us in order
        )
    process.returncode = 0  # it ends when we do; nobody waits for it
    return ours


_NURSERY = Nursery()


class GuardLine:
    """The line to one guard: a request goes out, JSON lines come back."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._control = control
        self._received = bytearray()

    async def request(self, body: bytes, fds: list[int]) -> None:
        socket.send_fds(self._control, [guard.HEADER.pack(len(body))], fds)
        await asyncio.get_running_loop().sock_sendall(self._control, body)

    async def receive(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        while b"\n" not in self._received:
            piece = await loop.sock_recv(self._control, 4096)
            if not piece:
                raise YouBenchaError(
                    "PROCESS_GUARD_LOST",
                    "The process that watches over the agent was killed; the agent was ended with it.",
                    hint="Look for what kills processes here: an out-of-memory killer, or the agent itself.",
                )
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def end(self) -> None:
        with contextlib.suppress(OSError):  # already gone is as good
            self._control.send(guard.END_NOW)

    def close(self) -> None:
        self._control.close()


class PosixRunning:
    def __init__(self, pid: int, line: GuardLine, sources: tuple[Source, ...]) -> None:
        self.pid = pid
        self.sources = sources
        self._line = line

    async def wait(self) -> Exit:
        report = await self._line.receive()
        status = int(report["status"])
        return Exit(
            code=status if status >= 0 else None,
            signal=signal.Signals(-status).name if status < 0 else None,
            lifetime_s=report["lifetime"],
            leftovers=report["leftovers"],
            cpu_s=report["cpu"],
            peak_rss_bytes=int(report["rss"]),
        )

    def end(self) -> None:
        self._line.end()

    async def kill(self) -> None:
        """The guard does not answer (something stopped or killed it): end what we can find ourselves."""
        import psutil

        with contextlib.suppress(psutil.Error):
            main = psutil.Process(self.pid)
            for process in [*main.children(recursive=True), main]:
                with contextlib.suppress(psutil.Error):
                    process.kill()

    def close(self) -> None:
        self._line.close()
        for source in self.sources:
            source.close()


class PosixSystem:
    async def spawn(self, command: Command, limits: Limits) -> Running:
        with contextlib.ExitStack() as on_failure:
            stdin_fd = _open_stdin(command.stdin)
            on_failure.callback(os.close, stdin_fd)
            sources, out_fd, err_fd = _open_outputs(command, limits)
            for source in sources:
                on_failure.callback(source.close)
            line = GuardLine(_NURSERY.new_guard())
            on_failure.callback(line.close)
            pid = await _start(line, command, limits, [stdin_fd, out_fd, err_fd])
            on_failure.pop_all()
        os.close(stdin_fd)
        for source in sources:
            source.close_writer()
        return PosixRunning(pid, line, sources)


async def _start(line: GuardLine, command: Command, limits: Limits, fds: list[int]) -> int:
    tag = uuid.uuid4().hex
    request = {
        "argv": command.argv,
        "cwd": str(command.cwd),
        "env": {**command.env, guard.TAG: tag},
        "terminal": command.terminal,
        "grace": limits.grace_s,
        "tag": tag,
    }
    await line.request(json.dumps(request).encode(), fds)
    answer = await line.receive()
    if "failed" in answer:
        raise start_error(command, answer["failed"], answer["errno"])
    return int(answer["started"])


def _open_stdin(data: bytes | None) -> int:
    if data is None:
        return os.open(os.devnull, os.O_RDONLY)
    fd, name = tempfile.mkstemp(prefix="youbencha-stdin-")
    Path(name).unlink()
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _open_outputs(command: Command, limits: Limits) -> tuple[tuple[SpoolSource | TerminalSource, ...], int, int]:
    if command.terminal:
        terminal = open_terminal()
        return (terminal,), terminal.writer, terminal.writer
    out, err = SpoolSource(Stream.OUT, limits), SpoolSource(Stream.ERR, limits)
    return (out, err), out.writer, err.writer
