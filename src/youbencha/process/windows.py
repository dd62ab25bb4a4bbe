"""Windows: programs in a job object, which ends all its processes, with files or a pseudo-console for output."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import os
import queue
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path, PureWindowsPath
from types import ModuleType
from typing import Any, Protocol

import psutil

from youbencha.errors import YouBenchaError
from youbencha.process.model import Command, Exit, Limits, OutputSource, Running
from youbencha.process.output import Stream
from youbencha.process.program import error_number, start_error
from youbencha.process.streams import SpoolFile, open_spools, open_stdin
from youbencha.process.windows_kernel import Kernel, WindowsKernel

_POLL_S = 0.01
_LAST_OUTPUT_WITHIN_S = 0.5
_CONSOLE_HOSTS = {"conhost.exe", "openconsole.exe"}
"""Windows starts a console for a program, and ends it a moment after the program."""

_ROWS, _COLUMNS = 50, 200
_READ_BYTES = 64 * 1024
_MOST_WAITING = 256
_TERMINAL_POLL_S = 0.1
_END_OF_FILE = "\x1a\r"  # Ctrl-Z and Enter
_LONGEST_BATCH_LINE = 8191  # cmd.exe takes no more
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#$*+-./:?@\\_")
_UNQUOTABLE = "\r\n\0"


class Job:
    """The job object of one run."""

    def __init__(self, kernel: Kernel, settle_s: float) -> None:
        self._kernel = kernel
        self._settle_s = settle_s
        self._handle: int | None = kernel.create_job()

    def add(self, process: int) -> None:
        assert self._handle is not None
        self._kernel.assign(self._handle, process)

    def end(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):  # it is empty
                self._kernel.terminate(self._handle)

    async def emptied(self, program: int, exit_code: int | None, started: float, *, ended_by_us: bool) -> Exit:
        """End the processes that the program left running; return how it ended, once none is left."""
        assert self._handle is not None
        lifetime = time.monotonic() - started
        if not ended_by_us:
            await self._settle()
        leftovers = () if ended_by_us else self._programs(besides=program)
        self.end()
        while (usage := self._kernel.usage(self._handle)).active:
            await asyncio.sleep(_POLL_S)
            self.end()
        return Exit(
            code=None if ended_by_us else exit_code,
            signal_number=9 if ended_by_us else None,
            signal="SIGKILL" if ended_by_us else None,  # as on other systems
            lifetime_s=lifetime,
            by_itself=not ended_by_us,
            leftovers=leftovers,
            cpu_s=usage.cpu_s,
            peak_rss_bytes=usage.peak_bytes,
        )

    async def _settle(self) -> None:
        """Wait until helpers that the program did not wait for have exited, or were ended by `end`."""
        assert self._handle is not None
        deadline = time.monotonic() + self._settle_s
        while self._kernel.usage(self._handle).active and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)

    def close(self) -> None:
        if self._handle is not None:
            self._kernel.close(self._handle)
            self._handle = None

    def _programs(self, besides: int) -> tuple[str, ...]:
        assert self._handle is not None
        found = [_program(pid) for pid in self._kernel.processes(self._handle) if pid != besides]
        return tuple(path for path in found if path and PureWindowsPath(path).name.lower() not in _CONSOLE_HOSTS)


def _program(pid: int) -> str | None:
    """The path of a process's program; `?` if it cannot be read; None if the process has ended."""
    try:
        return psutil.Process(pid).exe() or "?"
    except psutil.NoSuchProcess:
        return None
    except (psutil.Error, OSError):
        return "?"


class WindowsRunning:
    """A program in its job."""

    def __init__(
        self,
        pid: int,
        job: Job,
        sources: tuple[OutputSource, ...],
        *,
        has_ended: Callable[[], bool],
        exit_code: Callable[[], int | None],
        all_arrived: Callable[[], bool] = lambda: True,
    ) -> None:
        self.pid: int | None = pid
        self._program = pid
        self.sources = sources
        self._job = job
        self._has_ended = has_ended
        self._exit_code = exit_code
        """The exit code of a program that has ended; None if it is not known."""
        self._all_arrived = all_arrived
        """Whether all output of a program that has ended was read."""
        self._started = time.monotonic()
        self._ended_by_us = False

    async def wait(self) -> Exit:
        # Polled, because the output is polled too: a thread for each run would have no benefit.
        while not self._has_ended():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        exit_ = await self._job.emptied(self._program, self._exit_code(), self._started, ended_by_us=self._ended_by_us)
        await self._await_last_output()
        return exit_

    def end(self) -> None:
        """End it at once: Windows has no SIGTERM, and a console program may ignore Ctrl-Break."""
        self._ended_by_us = not self._has_ended()
        self._job.end()

    async def kill(self) -> None:
        self._job.end()

    def close(self) -> None:
        self._job.close()
        for source in self.sources:
            source.close()

    async def _await_last_output(self) -> None:
        deadline = time.monotonic() + _LAST_OUTPUT_WITHIN_S
        while not self._all_arrived() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)


class WindowsSystem:
    def __init__(self, kernel: Kernel | None = None, load_winpty: Callable[[], ModuleType] | None = None) -> None:
        self._kernel = kernel or WindowsKernel()
        self._load_winpty = load_winpty or _import_winpty

    def get_ready(self) -> None:
        """There is nothing to prepare."""

    async def spawn(self, command: Command, limits: Limits) -> Running:
        try:
            with contextlib.ExitStack() as on_failure:
                job = Job(self._kernel, limits.settle_s)
                on_failure.callback(job.close)  # ends a process that was started
                start = self._start_in_terminal if command.terminal else self._start_with_files
                running = start(command, limits, job)
                on_failure.pop_all()
                return running
        except (OSError, ValueError) as error:
            raise start_error(command, str(error), error_number(error)) from error

    def _start_with_files(self, command: Command, limits: Limits, job: Job) -> WindowsRunning:
        with contextlib.ExitStack() as on_failure, open_stdin(command.stdin) as stdin:
            sources = out, err = open_spools(limits, self._open_spool_file)
            for source in sources:
                on_failure.callback(source.close)
            process = self._kernel.start_suspended(
                _command_line(command),
                cwd=str(command.cwd),
                env=_environment(command),
                stdin=stdin.fileno(),
                stdout=out.writer,
                stderr=err.writer,
            )
            on_failure.callback(process.wait)
            on_failure.callback(process.kill)  # it may not be in the job yet
            handle = self._kernel.process_handle(process)
            job.add(handle)
            self._kernel.resume(handle)
            on_failure.pop_all()
        for source in sources:
            source.close_writer()
        return WindowsRunning(
            process.pid,
            job,
            sources,
            has_ended=lambda: process.poll() is not None,
            exit_code=lambda: process.returncode,
        )

    def _start_in_terminal(self, command: Command, limits: Limits, job: Job) -> WindowsRunning:
        if command.stdin:
            raise start_error(
                command,
                "on Windows, a program in a terminal cannot get standard input",
                None,
                hint="A console would change the bytes: pass the text as an argument or by file, or use no terminal.",
            )
        winpty = self._load_winpty()
        process = start_in_terminal(winpty, command.argv, cwd=str(command.cwd), env=_environment(command))
        self._add_running(process, job)
        close_stdin(winpty, process)
        source = WindowsTerminalSource(process)
        return WindowsRunning(
            process.pid,
            job,
            (source,),
            has_ended=lambda: not process.isalive(),
            exit_code=lambda: process.exitstatus,
            all_arrived=lambda: source.ended,
        )

    def _add_running(self, process: PtyProcess, job: Job) -> None:
        """Add a process that already runs: pywinpty cannot start one suspended.

        What it starts in the first millisecond escapes the job, though usually not the end of the pseudo-console.
        """
        handle = self._kernel.open_process(process.pid)
        try:
            job.add(handle)
        except OSError:
            if process.isalive():  # otherwise it has ended already
                process.close(force=True)
                raise
        finally:
            self._kernel.close(handle)

    def _open_spool_file(self) -> SpoolFile:
        """A file that is deleted when its last handle is closed, even by a kill: Windows has no unnamed files."""
        path = Path(tempfile.gettempdir()) / f"youbencha-spool-{uuid.uuid4().hex}"
        flags = getattr(os, "O_TEMPORARY", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
        reader = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o600)
        try:
            return SpoolFile(reader, self._kernel.open_to_append(str(path)))
        except OSError:
            os.close(reader)
            raise


def _command_line(command: Command) -> list[str] | str:
    if not is_batch_file(command.argv[0]):
        return list(command.argv)
    line = batch_command_line(os.environ.get("COMSPEC", r"C:\Windows\System32\cmd.exe"), command.argv)
    if len(line) > _LONGEST_BATCH_LINE:
        raise OSError(errno.E2BIG, f"the command line of a batch file is limited to {_LONGEST_BATCH_LINE} characters")
    return line


def _environment(command: Command) -> dict[str, str]:
    """The command's environment, with the one variable that most programs need to load their libraries."""
    env = dict(command.env)
    if "SYSTEMROOT" not in {name.upper() for name in env} and "SYSTEMROOT" in os.environ:
        env["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return env


def _import_winpty() -> ModuleType:
    try:
        return importlib.import_module("winpty")
    except ImportError as error:
        raise YouBenchaError(
            "TERMINAL_NOT_AVAILABLE",
            "A terminal for the agent needs the pywinpty package on Windows.",
            hint="Install it with: pip install 'youbencha[windows]', or set pty: never.",
        ) from error


class PtyProcess(Protocol):
    """What we use of `winpty.PtyProcess`."""

    pid: int
    exitstatus: int | None

    def read(self, size: int) -> str: ...

    def write(self, text: str) -> object: ...

    def isalive(self) -> bool: ...

    def close(self, force: bool = False) -> None: ...


def start_in_terminal(winpty: Any, argv: Sequence[str], *, cwd: str, env: dict[str, str]) -> PtyProcess:
    if is_batch_file(argv[0]) and not all(map(is_plain, argv[1:])):
        raise ValueError("pywinpty cannot pass such arguments to a batch file: use the program behind it")
    try:
        process: PtyProcess = winpty.PtyProcess.spawn(list(argv), cwd=cwd, env=env, dimensions=(_ROWS, _COLUMNS))
    except _winpty_error(winpty) as error:
        raise OSError(str(error)) from error
    return process


def close_stdin(winpty: Any, process: PtyProcess) -> None:
    """Send end of file as a user would: a pseudo-console has no input that can be closed."""
    with contextlib.suppress(EOFError, OSError, _winpty_error(winpty)):  # it may have ended already
        process.write(_END_OF_FILE)


def _winpty_error(winpty: Any) -> type[Exception]:
    """pywinpty's own error, which is not a subclass of OSError."""
    error: type[Exception] = getattr(winpty, "WinptyError", OSError)
    return error


class WindowsTerminalSource:
    """The output of a pseudo-console, read by a thread, because reading blocks."""

    stream = Stream.OUT
    skipped_bytes = 0

    def __init__(self, process: PtyProcess) -> None:
        self._process = process
        # Bounded, so that a program blocks if it writes too fast, as with any terminal.
        self._waiting: queue.Queue[bytes] = queue.Queue(_MOST_WAITING)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read_all, name="youbencha-terminal", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether everything that the program wrote has been read."""
        return not self._thread.is_alive()

    def read(self) -> bytes:
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return b""

    def skip_to_end(self) -> None:
        """Do nothing: a terminal's buffer is small."""

    def close(self) -> None:
        self._closed.set()
        # In a thread, because closing takes a moment. It also closes a socket, which ends our reader.
        threading.Thread(target=self._close_terminal, name="youbencha-terminal-close", daemon=True).start()

    def _close_terminal(self) -> None:
        with contextlib.suppress(EOFError, OSError):  # "could not terminate": the job ended it
            self._process.close(force=True)

    def _read_all(self) -> None:
        while not self._closed.is_set():
            try:
                text = self._process.read(_READ_BYTES)
            except (EOFError, OSError):
                return
            self._put(text.encode("utf-8", "replace"))

    def _put(self, data: bytes) -> None:
        while data and not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._waiting.put(data, timeout=_TERMINAL_POLL_S)
                return


def is_batch_file(program: str) -> bool:
    return program.lower().rstrip(" .").endswith((".cmd", ".bat"))


def is_plain(argument: str) -> bool:
    """Whether every program reads the argument in the same way without quotes."""
    return bool(argument) and not argument.endswith("\\") and _BARE.issuperset(argument)


def batch_command_line(interpreter: str, argv: Sequence[str]) -> str:
    """Return a command line that makes cmd.exe pass on `argv` unchanged. Raises ValueError if that is impossible.

    Windows runs `.cmd` and `.bat` files (npm installs agents as such) through cmd.exe, which has its own rules for
    quoting: quoted as for any other program, an argument such as `" & calc` would run a second program. These are the
    rules of the Rust standard library since CVE-2024-24576.
    """
    script, *arguments = argv
    if '"' in script or script.endswith("\\"):
        raise ValueError("the name of a batch file cannot contain a quote or end in a backslash")
    if any(character in argument for argument in arguments for character in _UNQUOTABLE):
        raise ValueError("a batch file cannot take an argument with a line break: use the program behind it")
    quoted = " ".join([f'"{script}"', *map(_quote, arguments)])
    # /e:ON and /v:OFF: what the escapes below rely on; /d: no commands from the registry first.
    return f'"{interpreter}" /e:ON /v:OFF /d /c "{quoted}"'


def _quote(argument: str) -> str:
    quoted, backslashes = [], 0
    for character in argument:
        if character == "\\":
            backslashes += 1
        else:
            if character == '"':
                quoted.append("\\" * backslashes + '"')  # a quote is doubled, and so are backslashes before it
            elif character == "%":
                quoted.append("%%cd:~,")  # an empty piece of a variable between two percent signs: no expansion
            backslashes = 0
        quoted.append(character)
    text = "".join(quoted)
    return f'"{text}{chr(92) * backslashes}"' if not is_plain(argument) else text
