"""The harness's side of its nursery process (see `process/guard.py`): started on first use, ends with the harness."""

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


_NEEDED_TO_START = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")
"""All that the nursery inherits: an agent may read the environment of any process of its user."""


class ForkServerClient:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid = 0
        self._lines: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._spare: socket.socket | None = None
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def take_guard(self) -> socket.socket:
        """A guard that has nothing to do yet; the returned socket is the line to it."""
        with self._lock:
            if self._was_killed():
                self._bury()
            spare, self._spare = self._spare, None
            return spare or self._new_guard()

    def prepare_guard(self) -> None:
        """Have one ready for the next program: a fork takes time, and now there is some."""
        with self._lock, contextlib.suppress(OSError):
            self._spare = self._spare or self._new_guard()

    def give_up(self) -> None:
        """It does not answer (somebody stopped it): the next guard is of a new one."""
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                self._bury()

    def _new_guard(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                try:
                    self._ask(theirs)
                except OSError:  # somebody killed the nursery: one fresh start
                    self._bury()
                    self._ask(theirs)
            except OSError:
                ours.close()
                raise
            self._lines.add(ours)
        return ours

    def _ask(self, theirs: socket.socket) -> None:
        if self._socket is None:
            self._socket, self._pid = _start_nursery()
        socket.send_fds(self._socket, [b"g"], [theirs.fileno()])

    def _was_killed(self) -> bool:
        """It never sends anything: there is nothing to read until its end of the line is gone."""
        if self._socket is None:
            return False
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except ConnectionError:  # killed before it had read a request
            return True

    def _bury(self) -> None:
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        if self._spare is not None:  # without its nursery, nobody would help it against the agent
            self._spare.close()
            self._spare = None
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)  # it closes its socket only by ending, so this returns at once

    def _leave_to_parent(self) -> None:
        """A forked harness starts its own. It must not hold the lines of the one it came from: guards would not see
        that one end."""
        for line in [*self._lines, *([self._socket] if self._socket else [])]:
            line.close()
        self._lines.clear()
        self._socket = self._spare = None
        self._lock = threading.Lock()  # another thread may have held it in the moment of the fork


def _start_nursery() -> tuple[socket.socket, int]:
    ours, theirs = socket.socketpair()
    inherited = {name: os.environ[name] for name in _NEEDED_TO_START if name in os.environ}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-S", _GUARD_PROGRAM, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C at the terminal is for the harness, which then ends us in order
        )
    process.returncode = 0  # it ends when we do; nobody waits for it
    return ours, process.pid


# The line between the harness and one guard (see `process/guard.py`).

_START_WITHIN_S = 30.0


class GuardLostError(YouBenchaError):
    """The guard does not answer any more."""


def _guard_lost() -> GuardLostError:
    return GuardLostError(
        "PROCESS_GUARD_LOST",
        "The process that watches over the agent was killed; the agent was ended with it.",
        hint="Look for what kills processes here: an out-of-memory killer, or the agent itself.",
    )


class GuardChannel:
    """The line to one guard: a request goes out, JSON lines come back."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._control = control
        self._received = bytearray()

    async def ask(self, request: bytes, fds: list[int]) -> dict[str, Any]:
        """Send the request; the answer says whether the program started, or that the guard was lost in that moment."""
        try:
            async with asyncio.timeout(_START_WITHIN_S):
                socket.send_fds(self._control, [guard.HEADER.pack(len(request))], fds)
                await asyncio.get_running_loop().sock_sendall(self._control, request)
                await self.receive()  # the guard is at it
                return await self._receive_start()
        except ConnectionError:
            raise _guard_lost() from None
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, "the process that starts programs does not answer") from None

    async def _receive_start(self) -> dict[str, Any]:
        try:
            return await self.receive()
        except GuardLostError:  # the program was faster than the guard's report of it
            return {"lost": True}

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
