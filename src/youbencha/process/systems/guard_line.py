"""The line between the harness and one guard (see `process/guard.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import socket
import sys
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.process import guard

assert sys.platform != "win32"

_START_WITHIN_S = 30.0


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
