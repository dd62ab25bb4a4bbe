"""Windows: every program runs in a job object, which ends whatever is left in it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from youbencha.errors import YouBenchaError
from youbencha.process.errors import start_error
from youbencha.process.lines import Stream
from youbencha.process.model import Command, Exit, Limits
from youbencha.process.spool import Spool, SpoolFile
from youbencha.process.systems.base import Running, Source
from youbencha.process.systems.stdin import open_stdin
from youbencha.process.systems.windows_arguments import batch_command_line, is_batch_file
from youbencha.process.systems.windows_kernel import Kernel, WindowsKernel
from youbencha.process.systems.windows_terminal import PtyProcess, WindowsTerminalSource, start_in_terminal

_LOOK_EVERY_S = 0.01
_LAST_OUTPUT_WITHIN_S = 0.5


class Job:
    """The job object of one run."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._handle: int | None = kernel.create_job()

    def add(self, process: int) -> None:
        assert self._handle is not None
        self._kernel.assign(self._handle, process)

    def end(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):  # nobody in it any more
                self._kernel.terminate(self._handle)

    async def emptied(self, exit_code: int, started: float, *, ended_by_us: bool) -> Exit:
        """End what the program left behind; how it went, once nothing of it is left."""
        assert self._handle is not None
        lifetime = time.monotonic() - started
        leftovers = 0 if ended_by_us else self._kernel.usage(self._handle).active
        self.end()
        while (usage := self._kernel.usage(self._handle)).active:
            await asyncio.sleep(_LOOK_EVERY_S)
            self.end()
        return Exit(
            code=None if ended_by_us else exit_code,
            signal="SIGKILL" if ended_by_us else None,  # the word that callers know from other systems
            lifetime_s=lifetime,
            leftovers=("?",) * leftovers,
            cpu_s=usage.cpu_s,
            peak_rss_bytes=usage.peak_bytes,
        )

    def close(self) -> None:
        if self._handle is not None:
            self._kernel.close(self._handle)
            self._handle = None


class WindowsRunning:
    def __init__(
        self,
        pid: int,
        job: Job,
        sources: tuple[Source, ...],
        *,
        poll: Callable[[], int | None],
        all_arrived: Callable[[], bool] = lambda: True,
    ) -> None:
        self.pid = pid
        self.sources = sources
        self._job = job
        self._poll = poll
        """The exit code of the program, None while it runs."""
        self._all_arrived = all_arrived
        """Whether a program that has ended has nothing more on its way to us."""
        self._started = time.monotonic()
        self._ended_by_us = False

    async def wait(self) -> Exit:
        # Looked at by the clock, as the output is: a thread for each run would buy nothing.
        while (code := self._poll()) is None:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_EVERY_S)
        exit_ = await self._job.emptied(code, self._started, ended_by_us=self._ended_by_us)
        await self._await_last_output()
        return exit_

    def end(self) -> None:
        """There is no SIGTERM here: what a console program understands, it may as well ignore."""
        self._ended_by_us = self._poll() is None
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
            await asyncio.sleep(_LOOK_EVERY_S)


class WindowsSystem:
    def __init__(self, kernel: Kernel | None = None, load_winpty: Callable[[], ModuleType] | None = None) -> None:
        self._kernel = kernel or WindowsKernel()
        self._load_winpty = load_winpty or _import_winpty

    async def spawn(self, command: Command, limits: Limits) -> Running:
        try:
            with contextlib.ExitStack() as on_failure:
                job = Job(self._kernel)
                on_failure.callback(job.close)  # which ends what has begun
                start = self._start_in_terminal if command.terminal else self._start_with_files
                running = start(command, limits, job)
                on_failure.pop_all()
                return running
        except (OSError, ValueError) as error:
            raise start_error(command, str(error), getattr(error, "errno", None)) from error

    def _start_with_files(self, command: Command, limits: Limits, job: Job) -> WindowsRunning:
        with contextlib.ExitStack() as on_failure, open_stdin(command.stdin) as stdin:
            sources = []
            for stream in Stream:
                sources.append(Spool(stream, limits, open_file=self._open_spool_file))
                on_failure.callback(sources[-1].close)
            process = self._kernel.start_suspended(
                _command_line(command),
                cwd=str(command.cwd),
                env=_environment(command),
                stdin=stdin.fileno(),
                stdout=sources[0].writer,
                stderr=sources[1].writer,
            )
            on_failure.callback(process.wait)
            on_failure.callback(process.kill)  # it may not be in the job yet
            handle = self._kernel.process_handle(process)
            job.add(handle)
            self._kernel.resume(handle)
            on_failure.pop_all()
        for source in sources:
            source.close_writer()
        return WindowsRunning(process.pid, job, tuple(sources), poll=process.poll)

    def _start_in_terminal(self, command: Command, limits: Limits, job: Job) -> WindowsRunning:
        process = start_in_terminal(self._load_winpty(), command.argv, cwd=str(command.cwd), env=_environment(command))
        self._add_running(process, job)
        source = WindowsTerminalSource(process)

        def poll() -> int | None:
            return None if process.isalive() else (process.exitstatus or 0)

        return WindowsRunning(process.pid, job, (source,), poll=poll, all_arrived=lambda: source.ended)

    def _add_running(self, process: PtyProcess, job: Job) -> None:
        """pywinpty cannot start a process suspended: what it starts in the first millisecond escapes the job, though
        not, as a rule, the end of the pseudo-console."""
        handle = self._kernel.open_process(process.pid)
        try:
            job.add(handle)
        except OSError:
            if process.isalive():  # else it was quick, and needs no job any more
                process.close(force=True)
                raise
        finally:
            self._kernel.close(handle)

    def _open_spool_file(self) -> SpoolFile:
        """Windows has no nameless files: these lose their name when the last handle is closed, by kill or not."""
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
    return batch_command_line(os.environ.get("COMSPEC", r"C:\Windows\System32\cmd.exe"), command.argv)


def _environment(command: Command) -> dict[str, str]:
    """What was given, and the one variable without which Windows does not load the libraries of most programs."""
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
