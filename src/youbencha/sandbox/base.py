"""The interface of a sandbox, in which the programs of a trial run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, Unpack

from youbencha.process import Command, ProcessResult, RunOptions
from youbencha.store.bundle import SandboxReport

GATEWAY_PORT = 4000
"""The gateway's port in a container, as in Thunderdome. The gateway must answer there before a program starts."""

FORWARD_PROXY_PORT = 4001
"""The port in a container of the proxy to hosts of an allowlist."""


class ForwardedPort(NamedTuple):
    """A server of the harness that programs in the sandbox can reach."""

    socket: Path
    """The Unix socket on which the harness listens, only for this sandbox."""
    address: str
    """The server's address in the sandbox: `127.0.0.1:4000`."""


class Sandbox(Protocol):
    """An open sandbox. A newly shared path takes effect with the next `run`."""

    @property
    def kind(self) -> str:
        """`local`, `docker` …"""
        ...

    @property
    def is_boundary(self) -> bool:
        """Whether programs in the sandbox cannot harm the host: then the agent may use every tool."""
        ...

    @property
    def brings_agent(self) -> bool:
        """Whether the sandbox already contains the agent's CLI, which is found there by name."""
        ...

    def report(self) -> SandboxReport:
        """The description in `results.json`."""
        ...

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that programs have in any case: those of a container's image."""
        ...

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        """The environment of programs in the sandbox, with HOME and the like set.

        An adapter passes variables to its agent only from this environment.
        """
        ...

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Make a file or directory of the host visible in the sandbox. The workspace is always shared."""
        ...

    def protect(self, path: Path) -> None:
        """Make a file or directory of the workspace read-only for programs in the sandbox, if it is a boundary."""
        ...

    def inside(self, path: Path) -> str:
        """The path in the sandbox of a path on the host. Raises ValueError if it is not shared."""
        ...

    def outside(self, path: str) -> Path | None:
        """The path on the host of a path in the sandbox; None if it exists only in the sandbox."""
        ...

    def forward_port(self, port: int) -> ForwardedPort | None:
        """Let programs in the sandbox reach a server of the harness. None if they share the harness's loopback."""
        ...

    async def run(self, command: Command, **options: Unpack[RunOptions]) -> ProcessResult:
        """Like `process.run`: return when the program and all its descendants are gone.

        Paths in `command` are those in the sandbox, except for `cwd`.
        """
        ...

    async def freeze(self) -> None:
        """End every program in the sandbox, and start no others, so that the workspace no longer changes."""
        ...
