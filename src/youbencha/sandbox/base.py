"""The contract between a trial and the place where its agent runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Unpack

if TYPE_CHECKING:
    from youbencha.log import SandboxReport
    from youbencha.process import Command, ProcessResult, RunOptions


GATEWAY_PORT = 4000
"""Where an agent in a container finds its gateway: Thunderdome's. It has to answer there before a program starts."""


class ForwardedPort(NamedTuple):
    """How programs inside reach one server of the harness."""

    socket: Path
    """Where the harness listens: a Unix socket, of this sandbox alone."""
    address: str
    """Where programs inside find it: `127.0.0.1:4000`."""


class Sandbox(Protocol):
    """Open from the moment one has it. What is shared counts for the next `run`."""

    @property
    def kind(self) -> str:
        """`local`, `docker` …"""
        ...

    @property
    def is_boundary(self) -> bool:
        """Whether what runs inside cannot harm what is outside: then an agent may be allowed everything."""
        ...

    @property
    def brings_agent(self) -> bool:
        """Whether the agent's CLI is already inside, and is found there by its name."""
        ...

    def report(self) -> SandboxReport:
        """What `results.json` says of it."""
        ...

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        """What of the harness's environment a program in here starts from, with its HOME and the like in their place.

        An adapter picks from this, and from nothing else, what it passes on to its agent.
        """
        ...

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Let a file or directory of the host be seen inside. Not the workspace: that is."""
        ...

    def inside(self, path: Path) -> str:
        """How a program inside names something of the host. Raises ValueError for what is not shared."""
        ...

    def outside(self, path: str) -> Path | None:
        """Where the host has what a program inside names so; None for what is only there."""
        ...

    def forward_port(self, port: int) -> ForwardedPort | None:
        """A way for programs inside to a server of the harness. None: they reach the harness's loopback themselves."""
        ...

    async def run(self, command: Command, **options: Unpack[RunOptions]) -> ProcessResult:
        """As `process.run`: returns when the program and all that it started are gone.

        `command` speaks of things as they are seen inside; `cwd` alone is the host's path.
        """
        ...

    async def freeze(self) -> None:
        """Nothing runs inside any more, and nothing will: what the agent left can be read in peace."""
        ...
