"""The contract of a sandbox: where the programs of a trial run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Unpack

if TYPE_CHECKING:
    from youbencha.log.results import SandboxReport
    from youbencha.process import Command, ProcessResult, RunOptions


GATEWAY_PORT = 4000
"""The gateway's port in a container, as in Thunderdome. It has to answer there before a program starts."""


class ForwardedPort(NamedTuple):
    """How programs inside reach a server of the harness."""

    socket: Path
    """The Unix socket where the harness listens; of this sandbox alone."""
    address: str
    """The server's address inside: `127.0.0.1:4000`."""


class Sandbox(Protocol):
    """An open sandbox. What is shared takes effect with the next `run`."""

    @property
    def kind(self) -> str:
        """`local`, `docker` …"""
        ...

    @property
    def is_boundary(self) -> bool:
        """Whether programs inside cannot harm the host: then an agent may be allowed everything."""
        ...

    @property
    def brings_agent(self) -> bool:
        """Whether the agent's CLI is already inside and is found there by name."""
        ...

    def report(self) -> SandboxReport:
        """What `results.json` says about it."""
        ...

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        """The environment that programs inside start from, with HOME and the like set.

        An adapter takes what it passes on to its agent from this alone.
        """
        ...

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Show a file or directory of the host inside. The workspace is shared already."""
        ...

    def inside(self, path: Path) -> str:
        """The path inside of a path of the host. Raises ValueError for what is not shared."""
        ...

    def outside(self, path: str) -> Path | None:
        """The path on the host of a path inside; None for what exists only inside."""
        ...

    def forward_port(self, port: int) -> ForwardedPort | None:
        """Let programs inside reach a server of the harness. None: they share the harness's loopback."""
        ...

    async def run(self, command: Command, **options: Unpack[RunOptions]) -> ProcessResult:
        """Like `process.run`: return when the program and all that it started are gone.

        Paths in `command` are those inside; `cwd` alone is the host's.
        """
        ...

    async def freeze(self) -> None:
        """End every program inside, and start none any more: what the agent left no longer changes."""
        ...
