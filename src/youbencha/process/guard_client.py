"""The harness's side of the fork server and its guards (`process/guard.py`), which is started on first use."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.process import guard

assert sys.platform != "win32"


_GUARD_PROGRAM = guard.__file__
_INHERITED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")
"""The only variables that the fork server inherits: an agent may read the environment of any process of its user."""
_START_TIMEOUT_S = 30.0


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
        """Whether the fork server has ended. It never sends anything, so an empty read means that."""
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
        "The process that supervises the agent was killed; the agent was ended with it.",
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
