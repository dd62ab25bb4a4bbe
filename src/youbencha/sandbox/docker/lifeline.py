"""The harness's end of the line to the first program of a container (see `inside/lifeline.c`).

Over it go the command with its environment and its open descriptors, and what became of it comes back. Who holds the
other end is process 1 of the container, and nobody in there can see what passes: so reports can be believed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

_END = b"t"
_LONGEST_REPORT = 1024 * 1024
_KIB = 1024
_US = 1e-6


class Order(NamedTuple):
    """What the first program is to do."""

    argv: Sequence[str]
    env: Iterable[tuple[str, str]]
    cwd: str
    relays: Sequence[tuple[int, str]]
    probe: int | None
    """The port whose server must answer before anything is started."""
    alone: bool
    """Refuse to start where there is a way to anywhere."""
    terminal: bool
    grace_s: float
    settle_s: float

    def encode(self) -> bytes:
        parts = [f"r{port}={path}" for port, path in self.relays]
        parts += [f"a{argument}" for argument in self.argv]
        parts += [f"e{name}={value}" for name, value in self.env]
        parts += [f"c{self.cwd}", f"g{round(self.grace_s * 1000)}", f"s{round(self.settle_s * 1000)}"]
        parts += [f"p{self.probe}"] if self.probe else []
        parts += ["n"] if self.alone else []
        parts += ["t"] if self.terminal else []
        return b"".join(os.fsencode(part) + b"\0" for part in parts)


class Failure(NamedTuple):
    """Why the program was not started."""

    step: str
    number: int
    text: str


class Ended(NamedTuple):
    status: int
    """As waitpid tells it."""
    by_itself: bool
    """Before anybody told it to."""
    lifetime_s: float
    cpu_s: float
    peak_rss_bytes: int
    oom_kills: int
    pids_refused: int
    """How often the kernel enforced that limit; -1 if it does not say."""
    leftovers: tuple[str, ...]


class Lifeline:
    """Listens at `path` for one caller, who is the first program: it is there before anything else runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(str(path))
            self._listener.listen(1)
            self._listener.setblocking(False)
        except OSError:
            self._listener.close()
            raise
        self._line: socket.socket | None = None
        self._received = bytearray()
        self._leftovers: list[str] = []
        self.pid: int | None = None
        """Of the container's first process, as this system numbers it."""

    async def send(self, order: Order, fds: Sequence[int]) -> None:
        """Wait for the call, and give the order. The descriptors are copied: they stay ours, too."""
        loop = asyncio.get_running_loop()
        self._line, _ = await loop.sock_accept(self._listener)
        self._stop_listening()
        self._line.setblocking(False)
        self.pid = _peer(self._line)
        text = order.encode()
        socket.send_fds(self._line, [b"%08x" % len(text)], list(fds))
        await loop.sock_sendall(self._line, text)

    async def started(self) -> Failure | None:
        """Wait until the program runs. None: it does. Raises EOFError if the container is gone before."""
        word, _, rest = (await self._receive()).partition(" ")
        if word != "failed":
            return None
        step, number, text = rest.split(" ", 2)
        return Failure(step, int(number), text)

    async def ended(self) -> Ended:
        """Wait until the program and all that it started are gone. Raises EOFError if nobody could say so."""
        while True:
            word, _, rest = (await self._receive()).partition(" ")
            if word == "left":
                self._leftovers.append(rest)
            elif word == "ended":
                status, by_itself, lifetime, cpu, rss, oom_kills, pids = (int(number) for number in rest.split())
                usage = (lifetime * _US, cpu * _US, rss * _KIB)
                return Ended(status, bool(by_itself), *usage, oom_kills, pids, tuple(self._leftovers))

    def end(self) -> None:
        """SIGTERM to all that runs in there, SIGKILL after the grace time."""
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.send(_END)

    def hang_up(self) -> None:
        """Whatever still runs in there is killed by this, and who waits for the end is told that there is none."""
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, and nobody waits any more."""
        self._stop_listening()
        if self._line is not None:
            # Somebody who is just being cancelled may still be registered under a number that will soon be another's.
            asyncio.get_running_loop().remove_reader(self._line)
            self._line.close()
            self._line = None

    def _stop_listening(self) -> None:
        if self._listener.fileno() >= 0:
            self._listener.close()
            self._path.unlink(missing_ok=True)

    async def _receive(self) -> str:
        """One line."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._received:
            if self._line is None or len(self._received) > _LONGEST_REPORT:
                raise EOFError
            try:
                data = await loop.sock_recv(self._line, 1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                raise EOFError
            self._received += data
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received[:] = rest
        return os.fsdecode(line)


def _peer(line: socket.socket) -> int | None:
    """The process at the other end. 0 where this system cannot number it."""
    number = getattr(socket, "SO_PEERCRED", None)  # Linux
    if number is None:
        return None
    pid: int = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, number, struct.calcsize("3i")))[0]
    return pid or None
