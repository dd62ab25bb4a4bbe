"""The interface that each operating system fills in."""

from __future__ import annotations

from typing import Protocol

from youbencha.process.lines import Stream
from youbencha.process.model import Command, Exit, Limits


class Source(Protocol):
    """Where one output stream of a program is read."""

    stream: Stream
    skipped_bytes: int

    def read(self) -> bytes:
        """What has arrived, without waiting; empty if nothing has."""
        ...

    def hurry(self) -> None:
        """From now on, skip what is not the end: the deadline is over, and the output long since full."""
        ...

    def close(self) -> None: ...


class Running(Protocol):
    """A program that was started, with all that it starts in turn."""

    pid: int | None
    """None if it ended before its id was known."""
    sources: tuple[Source, ...]

    async def wait(self) -> Exit:
        """Returns when the program *and every descendant* are gone."""
        ...

    def end(self) -> None:
        """Ask the whole tree to end, and kill what is left after the grace time. Returns at once."""
        ...

    async def kill(self) -> None:
        """The last resort, when `wait` did not come back after `end`."""
        ...

    def close(self) -> None: ...


class System(Protocol):
    async def spawn(self, command: Command, limits: Limits) -> Running:
        """Start a program. Raises ProcessStartError if that fails."""
        ...

    def get_ready(self) -> None:
        """Begin what takes time before the first program can be started, and do not wait for it."""
        ...
