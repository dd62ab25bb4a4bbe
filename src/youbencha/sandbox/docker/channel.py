"""The sockets between the harness and a container, and the channel to its init program (`init/init.c`).

The harness sends the command, its environment and its open descriptors, and gets reports. The other end is process 1 of
the container, whose descriptors no other program can see: so its reports can be trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import struct
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import replace_atomically
from youbencha.sandbox.base import ForwardedPort
from youbencha.sandbox.docker.mounts import PORTS
from youbencha.sandbox.docker.ownership import (
    SOCKET_DIR_OWNER,
    SOCKET_DIR_PREFIX,
    remove_socket_dir,
    socket_dir_parents,
    this_owner,
)

_INIT = Path(__file__).parent / "init"
_ARCHITECTURES = ("x86_64", "aarch64")
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}
_EXECUTABLE = 0o755
"""For every user, because the user in the container may be a different one."""
MAX_SOCKET_PATH_BYTES = 107
"""Bytes that Linux allows for the path of a Unix socket."""
_MAX_SOCKET_NAME_BYTES = len("/ports/65535.sock")
_END = b"t"
MAX_REPORT_BYTES = 1024 * 1024
_KIB = 1024
_US = 1e-6


def init_program(architecture: str, *, cache_dir: Path) -> Path:
    """Return the path of the init program for an engine's architecture (as named by uname).

    It is a copy in the user's cache, because a wheel or a checkout may have lost the execute permission.
    """
    name = _ALIASES.get(architecture, architecture)
    if name not in _ARCHITECTURES:
        raise YouBenchaError(
            "SANDBOX_ARCHITECTURE_UNSUPPORTED",
            f"Containers are not supported on this engine's architecture ({architecture or 'unknown'}).",
            hint=f"Supported: {' and '.join(_ARCHITECTURES)}. `sandbox: local` works on any architecture.",
        )
    program = (_INIT / f"init-{name}").read_bytes()
    directory = cache_dir.absolute() / "init"
    copy = directory / f"init-{name}-{hashlib.sha256(program).hexdigest()[:16]}"
    if not _is_executable_copy(copy, program):
        directory.mkdir(parents=True, exist_ok=True)
        replace_atomically(copy, program, mode=_EXECUTABLE)  # other runs may be writing or executing it
    return copy


def _is_executable_copy(path: Path, program: bytes) -> bool:
    try:
        return path.stat().st_mode & 0o777 == _EXECUTABLE and path.read_bytes() == program
    except FileNotFoundError:
        return False


class SocketDir:
    """A directory on the host for the sockets of one sandbox.

    Its path is short, because the path of a socket must be, and only the user may enter it.
    """

    def __init__(self) -> None:
        self.path = _make_socket_dir()
        self.ports_dir = self.path / "ports"
        try:
            (self.path / SOCKET_DIR_OWNER).write_text(str(this_owner()), encoding="ascii")
            self.ports_dir.mkdir(mode=0o700)
        except BaseException:  # for example because the disk is full
            self.close()
            raise
        self.ports: list[int] = []
        self._channels = 0

    def forward_port(self, port: int) -> ForwardedPort:
        """Create a socket for a port of the container's loopback."""
        if port not in self.ports:
            self.ports.append(port)
        return ForwardedPort(self.ports_dir / f"{port}.sock", f"127.0.0.1:{port}")

    def relays(self) -> list[tuple[int, str]]:
        """Each forwarded port, and the path of its socket in the container."""
        return [(port, str(PORTS / f"{port}.sock")) for port in self.ports]

    def new_channel(self) -> Path:
        """A path for a channel, not in the directory of the forwarded ports, which an agent can reach."""
        self._channels += 1
        return self.path / f"life-{self._channels}.sock"

    def close(self) -> None:
        remove_socket_dir(self.path)


def _make_socket_dir() -> Path:
    for parent in socket_dir_parents():
        try:
            path = tempfile.mkdtemp(prefix=SOCKET_DIR_PREFIX, dir=parent)
        except OSError:
            continue
        if len(os.fsencode(path)) + _MAX_SOCKET_NAME_BYTES <= MAX_SOCKET_PATH_BYTES:
            return Path(path)
        Path(path).rmdir()
    raise YouBenchaError(
        "SANDBOX_NO_SOCKET_DIR",
        "No directory with a short path was found for the sockets of a container.",
        hint="Set TMPDIR to a directory with a short path that you may write to, such as /tmp.",
    )


class StartOrder(NamedTuple):
    """The command for the init program, and its options."""

    argv: Sequence[str]
    env: Iterable[tuple[str, str]]
    cwd: str
    relays: Sequence[tuple[int, str]]
    probe: int | None
    """The port whose server must answer before the command is started."""
    alone: bool
    """Refuse to start if there is a route out of the container."""
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


class StartFailure(NamedTuple):
    """Why the program was not started."""

    step: str
    number: int
    """The errno."""
    text: str


class ExitReport(NamedTuple):
    """How the program ended, sent after every process in the container is gone."""

    status: int
    """As waitpid returns it."""
    exited_on_its_own: bool
    """It ended before it was asked to."""
    lifetime_s: float
    cpu_s: float
    peak_rss_bytes: int
    oom_kills: int
    pids_refused: int
    """How often the kernel enforced that limit; -1 if unknown."""
    leftovers: tuple[str, ...]


class InitChannel:
    """Listens at `path` for one connection, that of the init program, which runs before any other."""

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
        self._connection: socket.socket | None = None
        self._received = bytearray()
        self._leftovers: list[str] = []
        self.pid: int | None = None
        """The host's process id of the container's first process."""

    async def send(self, order: StartOrder, fds: Sequence[int]) -> None:
        """Wait for the connection, and send the order. The descriptors are copied, and stay open here."""
        loop = asyncio.get_running_loop()
        self._connection, _ = await loop.sock_accept(self._listener)
        self._stop_listening()
        self._connection.setblocking(False)
        self.pid = _peer_pid(self._connection)
        text = order.encode()
        socket.send_fds(self._connection, [b"%08x" % len(text)], list(fds))
        await loop.sock_sendall(self._connection, text)

    async def started(self) -> StartFailure | None:
        """Wait until the program runs; None if it does. Raises EOFError if the container ends before."""
        word, _, rest = (await self._receive_line()).partition(" ")
        if word != "failed":
            return None
        step, number, text = rest.split(" ", 2)
        return StartFailure(step, int(number), text)

    async def ended(self) -> ExitReport:
        """Wait until the program and all its descendants are gone. Raises EOFError if there is no report."""
        while True:
            word, _, rest = (await self._receive_line()).partition(" ")
            if word == "left":
                self._leftovers.append(rest)
            elif word == "ended":
                status, exited_on_its_own, lifetime, cpu, rss, oom_kills, pids = (
                    int(number) for number in rest.split()
                )
                usage = (lifetime * _US, cpu * _US, rss * _KIB)
                return ExitReport(status, bool(exited_on_its_own), *usage, oom_kills, pids, tuple(self._leftovers))

    def end(self) -> None:
        """Send SIGTERM to every process in the container, and SIGKILL after the grace time."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.send(_END)

    def hang_up(self) -> None:
        """Close the connection, which kills all processes in the container. `ended` then raises EOFError."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Release all resources, when nothing waits for a report."""
        self._stop_listening()
        if self._connection is not None:
            # A task that is being cancelled may still be registered under a descriptor that is soon reused.
            asyncio.get_running_loop().remove_reader(self._connection)
            self._connection.close()
            self._connection = None

    def _stop_listening(self) -> None:
        if self._listener.fileno() >= 0:
            self._listener.close()
            self._path.unlink(missing_ok=True)

    async def _receive_line(self) -> str:
        loop = asyncio.get_running_loop()
        while b"\n" not in self._received:
            if self._connection is None or len(self._received) > MAX_REPORT_BYTES:
                raise EOFError
            try:
                data = await loop.sock_recv(self._connection, 1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                raise EOFError
            self._received += data
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received[:] = rest
        return os.fsdecode(line)


def _peer_pid(connection: socket.socket) -> int | None:
    """The process id of the other end; None if this system does not provide it."""
    option = getattr(socket, "SO_PEERCRED", None)  # Linux
    if option is None:
        return None
    pid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))[0]
    return pid or None
