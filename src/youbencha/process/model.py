"""What is run, within which limits, and what came of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict

from youbencha.process.output import LineSink, Stream
from youbencha.process.redact import Redactor

if TYPE_CHECKING:
    import asyncio


class Input:
    """What is written reaches the program at once and in order; writing never waits. Of one run only.

    A thread does the writing: a program that does not read fills its pipe, and nobody else may have to wait for that.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._closed = False

    def write(self, data: bytes) -> None:
        """After `close`, and once the program is gone or has closed its end, it goes nowhere."""
        if not self._closed:
            self._waiting.put(data)

    def close(self) -> None:
        """End of file, after all that was written."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)

    def connect(self, fd: int) -> None:
        """For whoever starts the program: `fd` is the end of a pipe, and belongs to us from now on."""
        threading.Thread(target=self._feed, args=(fd,), name="youbencha-stdin", daemon=True).start()

    def _feed(self, fd: int) -> None:
        try:
            while (data := self._waiting.get()) is not None:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
        except OSError:  # the program is gone, or has closed its end
            self._closed = True  # what is written from now on would only pile up
        finally:
            os.close(fd)


MIB = 1024 * 1024

OUTPUT_LIMIT_BYTES = 10 * MIB


class Command(NamedTuple):
    """A program and its world. Never a shell line: `argv` reaches the program as it is."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    """The whole environment; nothing is inherited."""
    stdin: bytes | Input | None = None
    """What the program reads before end-of-file. None: end-of-file at once. A silent, open stdin makes real
    CLIs wait for ever (Claude Code before 2.1.79): an `Input` is for those who have something to say."""
    terminal: bool = False
    """Give the program a terminal to write to; stdout and stderr are then one stream."""


class Limits(NamedTuple):
    timeout_s: float | None = None
    output_bytes: int = OUTPUT_LIMIT_BYTES
    """Kept of stdout and stderr together. The program is never stopped or blocked by it."""
    spool_bytes: int = 128 * MIB
    """Disk that output may take while it waits to be read. Beyond, it is dropped unread."""
    line_bytes: int = 32 * MIB
    """Longest line handed on whole; Claude Code was seen to write lines of 15 MB."""
    grace_s: float = 0.4
    """Between SIGTERM and SIGKILL. The caller has its result within a second of the deadline."""
    settle_s: float = 1.0
    """For what a program that ended by itself did not wait for: helpers about to end are nothing left running. (Copilot
    asks a login shell for its environment, and may be done before it hears the answer.)"""


class Exit(NamedTuple):
    """How the process ended, told once nothing of its tree is left."""

    code: int | None
    """None if a signal ended it, or if nobody knows."""
    signal: str | None
    lifetime_s: float
    """Of the process itself, without our own work around it."""
    signal_number: int | None = None
    by_itself: bool = False
    """It ended before anybody told it to. The caller may have done so when only what it left behind still ran."""
    leftovers: tuple[str, ...] = ()
    """The programs of descendants that ran on after it ended by itself, and were ended then; `?` if unknown."""
    breach: str | None = None
    """Which limit of its sandbox it ran into, in words: `memory (4 GiB)`."""
    guard_lost: bool = False
    """Something killed the process that watched over it (an agent can). Nothing of the tree is left all the same."""
    cpu_s: float | None = None
    peak_rss_bytes: int | None = None
    """Of the largest single process in the tree. Linux counts the moment before the program was loaded too, so that
    no program shows less than the small process that started it."""

    @property
    def shell_code(self) -> int:
        """As a shell tells it: the exit code, or 128 + N if signal N ended the process."""
        if self.code is not None:
            return self.code
        return 128 + self.signal_number if self.signal_number else -1


class ProcessResult(NamedTuple):
    exit: Exit
    output: str
    truncated: bool
    total_bytes: int
    """All that the program wrote, kept or not."""
    skipped_bytes: int
    """Never read, because the program wrote faster than it could be dropped."""
    timed_out: bool
    stopped: bool
    """The caller's `stop` ended it."""
    started_at: float
    ended_at: float
    duration_s: float
    """By a clock that nobody sets."""
    log_error: str | None = None
    """Why the log file is incomplete, if it is (a full disk, say)."""


class Started(NamedTuple):
    pid: int
    executable: str


# The interface that each operating system fills in.


class OutputSource(Protocol):
    """Where one output stream of a program is read."""

    stream: Stream
    skipped_bytes: int

    def read(self) -> bytes:
        """What has arrived, without waiting; empty if nothing has."""
        ...

    def skip_to_end(self) -> None:
        """From now on, skip what is not the end: the deadline is over, and the output long since full."""
        ...

    def close(self) -> None: ...


class Running(Protocol):
    """A program that was started, with all that it starts in turn."""

    pid: int | None
    """None if it ended before its id was known."""
    sources: tuple[OutputSource, ...]

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


# What may be said about a run besides its command: once, for all that hand it on to `process.run`.


class RunOptions(TypedDict, total=False):
    """Each as `process.run` explains it."""

    limits: Limits | None
    redactor: Redactor | None
    log_file: Path | None
    on_line: LineSink | None
    on_start: Callable[[Started], None] | None
    stop: asyncio.Event | None
    also: Sequence[OutputSource]
