"""A command, its limits and its result; the interface that each operating system implements."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, NamedTuple, Protocol, TypedDict

from youbencha.process.output import LineSink, OutputEnd, Stream
from youbencha.process.redact import Redactor

MIB = 1024 * 1024
OUTPUT_LIMIT_BYTES = 10 * MIB


class Input:
    """Standard input of one run that stays open. Data arrives in the order in which it was written.

    Writing never blocks: a thread does it, because a program that does not read fills its pipe.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._closed = False

    def write(self, data: bytes) -> None:
        """Write, unless it was closed here or the program has closed its end."""
        if not self._closed:
            self._waiting.put(data)

    def close(self) -> None:
        """Send end of file after everything that was written."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)

    def connect(self, fd: int) -> None:
        """Begin to write to `fd`, the end of a pipe. The writing thread closes it."""
        threading.Thread(target=self._feed, args=(fd,), name="youbencha-stdin", daemon=True).start()

    def _feed(self, fd: int) -> None:
        try:
            while (data := self._waiting.get()) is not None:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
        except OSError:  # the program is gone, or has closed its end
            self._closed = True  # later writes would only use up memory
        finally:
            os.close(fd)


class Command(NamedTuple):
    """A program, its directory and its environment. There is no shell: `argv` reaches the program unchanged."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    """The whole environment; nothing is inherited."""
    stdin: bytes | Input | None = None
    """Input before end-of-file; None for end-of-file at once. An open stdin without data makes real CLIs
    wait forever (Claude Code before 2.1.79): use an `Input` only if something will be written to it."""
    terminal: bool = False
    """Give the program a terminal to write to; stdout and stderr are then one stream."""


class Limits(NamedTuple):
    timeout_s: float | None = None
    output_bytes: int = OUTPUT_LIMIT_BYTES
    """The size of stdout and stderr together that is kept. It never stops or blocks the program."""
    spool_bytes: int = 128 * MIB
    """Disk space for output that waits to be read. Beyond it, output is dropped unread."""
    line_bytes: int = 32 * MIB
    """The longest line passed on whole; Claude Code was seen to write lines of 15 MB."""
    grace_s: float = 0.4
    """Between SIGTERM and SIGKILL. The caller usually has its result within a second of the deadline."""
    settle_s: float = 1.0
    """The time that helpers may run after the program exited, before they count as left running: Copilot asks a login
    shell for its environment, and may exit before it has the answer."""


class LimitHit(NamedTuple):
    """A limit of a sandbox that a process exceeded. As text: `memory (4 GiB)`."""

    kind: Literal["disk", "memory", "processes"]
    limit: str

    def __str__(self) -> str:
        return f"{self.kind} ({self.limit})"


class Exit(NamedTuple):
    """How a process ended; known once nothing of its tree is left."""

    code: int | None
    """None if a signal ended it, or if it is unknown."""
    signal: str | None
    """The name of the signal that ended it: `SIGKILL`."""
    lifetime_s: float
    """The time between the start and the end of the process itself."""
    exited_on_its_own: bool = False
    """It ended before it was asked to. Processes that it left running may have been ended on request."""
    leftovers: tuple[str, ...] = ()
    """The programs of descendants that were still running after it exited, and were ended; `?` if unknown."""
    limit_hit: LimitHit | None = None
    """The limit of its sandbox that ended it or made it fail."""
    guard_lost: bool = False
    """The process that supervised it was killed (an agent can do that). No process of the tree is left even so."""
    host_failure: str | None = None
    """A failure around it that may have ended it or lost its output: a full disk, a removed container."""
    cpu_s: float | None = None
    peak_rss_bytes: int | None = None
    """The peak memory of the largest process in the tree. Linux includes the time before the program was loaded, so the
    value is never below that of the small process that started it."""

    @property
    def shell_code(self) -> int:
        """Return the exit status that a shell would show: the code, or 128 + N if signal N ended the process."""
        if self.code is not None:
            return self.code
        return 128 + signal_number(self.signal) if self.signal else -1


class ProcessResult(NamedTuple):
    """The end of a run, and its output."""

    exit: Exit
    output: str
    """To be written and shown: secrets are masked."""
    printed: str
    """The unmasked output, to be parsed; the same object as `output` if there are no secrets in it."""
    started_at: float
    duration_s: float
    """The duration by the monotonic clock."""
    total_bytes: int
    """The size of what the program wrote, kept or not."""
    skipped_bytes: int = 0
    """Never read, because the program wrote faster than we could read."""
    timed_out: bool = False
    stopped: bool = False
    """The caller's `stop` ended it."""
    log_error: str | None = None
    """Why the log file is incomplete, if it is (a full disk, say)."""
    unfinished_line: bool = False
    """Standard output, passed on by `on_line`, ended in the middle of a line."""
    end: OutputEnd | None = None
    """The end of the output; None if the output was not truncated."""

    @property
    def truncated(self) -> bool:
        return self.end is not None

    @property
    def last_output(self) -> str:
        """Return the end of what the program wrote, to be shown."""
        return self.end.text if self.end else self.output

    @property
    def ended_at(self) -> float:
        return self.started_at + self.duration_s


class Started(NamedTuple):
    pid: int
    executable: str


class OutputSource(Protocol):
    """One output stream of a program."""

    stream: Stream
    skipped_bytes: int

    def read(self) -> bytes:
        """Return what has arrived, without waiting; empty if nothing has."""
        ...

    def skip_to_end(self) -> None:
        """Skip all but the end: the deadline has passed, and the limit of kept output is reached."""
        ...

    def close(self) -> None: ...


class Running(Protocol):
    """A program that was started, with all its descendants."""

    pid: int | None
    """None if it ended before its id was known."""
    sources: tuple[OutputSource, ...]

    async def wait(self) -> Exit:
        """Wait until the program *and every descendant* are gone."""
        ...

    def end(self) -> None:
        """Ask the whole tree to end, and kill what is left after the grace time. Returns at once."""
        ...

    async def kill(self) -> None:
        """Kill everything: the last resort, if `wait` did not return after `end`."""
        ...

    def close(self) -> None: ...


class System(Protocol):
    """Starts programs: an operating system, or a container."""

    async def spawn(self, command: Command, limits: Limits) -> Running:
        """Start a program. Raises ProcessStartError if that fails."""
        ...

    def warm_up(self) -> None:
        """Begin in the background what the first `spawn` would have to wait for."""
        ...


class RunOptions(TypedDict, total=False):
    """The options of `process.run`, for functions that pass them on."""

    limits: Limits | None
    redactor: Redactor | None
    log_file: Path | None
    on_line: LineSink | None
    on_start: Callable[[Started], None] | None
    on_output: Callable[[], None] | None
    stop: asyncio.Event | None
    extra_sources: Sequence[OutputSource]


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"SIG{number}"


def signal_number(name: str) -> int:
    """Reverse `signal_name`. Windows has no SIGKILL, but we use the name there as well."""
    if name == "SIGKILL":
        return 9
    number = name.removeprefix("SIG")
    return int(number) if number.isdecimal() else int(signal.Signals[name])
