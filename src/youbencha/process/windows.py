"""Windows: a program and its descendants, which are found and ended by psutil; files for the output.

Windows keeps no tree of processes: one whose parent has ended still has the parent's id, but not its ancestors'. So the
descendants are looked up again and again while the program runs. Unlike on other systems, a process can escape if its
parent lives for less than that, and processes are left running if the harness itself is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import psutil

from youbencha.errors import YouBenchaError
from youbencha.process.model import Command, Exit, Limits, OutputSource, Running
from youbencha.process.program import error_number, start_error
from youbencha.process.streams import SpoolFile, open_spools, open_stdin

_POLL_S = 0.01
_LOOK_EVERY_S = 0.25
_KILL_FOR_S = 5.0
_MAX_BATCH_LINE = 8191  # cmd.exe takes no more
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#$*+-./:?@\\_")
_UNQUOTABLE = "\r\n\0"
_NEW_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
"""Ctrl-C in the harness's console does not reach the program."""
_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""A console program that is started by a harness without a console would open one."""


class ProcessTree:
    """A program and every descendant that was ever found."""

    def __init__(self, pid: int) -> None:
        self._main = psutil.Process(pid)
        self._members = {self._main}

    def look(self) -> list[psutil.Process]:
        """Find new descendants; return those that are alive."""
        for member in list(self._members):
            with contextlib.suppress(psutil.Error):
                self._members.update(member.children(recursive=True))
        return [member for member in self._members if member != self._main and _is_alive(member)]

    def look_for_orphans(self) -> None:
        """Find the children of members that have ended. This asks every process, which takes a moment."""
        started = {member.pid: member.create_time() for member in self._members}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                parent = process.ppid()
                if parent in started and process.create_time() >= started[parent]:
                    self._members.add(process)

    def kill(self) -> None:
        """Kill everything, and what it starts meanwhile."""
        give_up = time.monotonic() + _KILL_FOR_S
        while alive := self._alive():
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(alive, timeout=_POLL_S)
            if time.monotonic() > give_up:
                return

    def _alive(self) -> list[psutil.Process]:
        """Return everything that is alive, parents first: a shell would report that its children were killed."""
        descendants = sorted(self.look(), key=lambda process: (process.create_time(), process.pid))
        return [self._main, *descendants] if _is_alive(self._main) else descendants


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _path(process: psutil.Process) -> str:
    """Return the path of a process's program; `?` if it cannot be read."""
    try:
        return process.exe() or "?"
    except (psutil.Error, OSError):
        return "?"


class WindowsRunning:
    """A program with its descendants."""

    def __init__(
        self, process: subprocess.Popen[bytes], tree: ProcessTree, sources: tuple[OutputSource, ...], settle_s: float
    ) -> None:
        self.pid: int | None = process.pid
        self.sources = sources
        self._process = process
        self._tree = tree
        self._settle_s = settle_s
        self._started = time.monotonic()
        self._asked_to_end = False

    async def wait(self) -> Exit:
        look_at = 0.0
        while self._process.poll() is None and not self._asked_to_end:
            if time.monotonic() > look_at:
                await asyncio.to_thread(self._tree.look)
                look_at = time.monotonic() + _LOOK_EVERY_S
            await asyncio.sleep(_POLL_S)
        lifetime_s = time.monotonic() - self._started
        code = self._process.poll()
        leftovers: list[psutil.Process] = []
        if code is not None:
            await asyncio.to_thread(self._tree.look_for_orphans)
            leftovers = await self._settle()
        await self.kill()
        return Exit(
            code=code,
            signal="SIGKILL" if code is None else None,  # as on other systems
            lifetime_s=lifetime_s,
            exited_on_its_own=code is not None,
            leftovers=tuple(_path(process) for process in leftovers),
        )

    def end(self) -> None:
        """End it at once: Windows has no SIGTERM, and a console program may ignore Ctrl-Break."""
        self._asked_to_end = True

    async def kill(self) -> None:
        await asyncio.to_thread(self._tree.kill)
        self._process.poll()

    def close(self) -> None:
        for source in self.sources:
            source.close()

    async def _settle(self) -> list[psutil.Process]:
        """Give helpers that the program did not wait for some time to exit; return those that are left."""
        deadline = time.monotonic() + self._settle_s
        while alive := await asyncio.to_thread(self._tree.look):
            if self._asked_to_end:
                return []
            if time.monotonic() > deadline:
                return alive
            await asyncio.sleep(_POLL_S)
        return []


class WindowsSystem:
    def warm_up(self) -> None:
        """Do nothing: there is nothing to prepare."""

    async def spawn(self, command: Command, limits: Limits) -> Running:
        if command.terminal:
            raise YouBenchaError(
                "TERMINAL_NOT_AVAILABLE",
                "A terminal for the agent is not supported on Windows.",
                hint="Set pty: never, or run it on Linux or macOS.",
            )
        try:
            return _start(command, limits)
        except (OSError, ValueError, psutil.Error) as error:
            raise start_error(command, str(error), error_number(error)) from error


def _start(command: Command, limits: Limits) -> WindowsRunning:
    with contextlib.ExitStack() as on_failure, open_stdin(command.stdin) as stdin:
        # Read files are not shortened: the program's next write would leave a gap.
        sources = out, err = open_spools(limits, _open_spool_file, free_range=lambda *_: True)
        for source in sources:
            on_failure.callback(source.close)
        process = subprocess.Popen(
            _command_line(command),
            cwd=command.cwd,
            env=_environment(command),
            stdin=stdin.fileno(),
            stdout=out.writer,
            stderr=err.writer,
            creationflags=_NEW_GROUP | _NO_WINDOW,
        )
        on_failure.callback(process.wait)
        on_failure.callback(process.kill)
        running = WindowsRunning(process, ProcessTree(process.pid), sources, limits.settle_s)
        on_failure.pop_all()
    for source in sources:
        source.close_writer()
    return running


def _open_spool_file() -> SpoolFile:
    """Create a file that is deleted when its last handle is closed, even by a kill."""
    path = Path(tempfile.gettempdir(), f"youbencha-spool-{uuid.uuid4().hex}")
    flags = getattr(os, "O_TEMPORARY", 0) | getattr(os, "O_BINARY", 0)
    reader = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o600)
    try:
        return SpoolFile(reader, os.open(path, os.O_WRONLY | os.O_APPEND | flags))
    except OSError:
        os.close(reader)
        raise


def _command_line(command: Command) -> list[str] | str:
    if not is_batch_file(command.argv[0]):
        return list(command.argv)
    line = batch_command_line(os.environ.get("COMSPEC", r"C:\Windows\System32\cmd.exe"), command.argv)
    if len(line) > _MAX_BATCH_LINE:
        raise OSError(errno.E2BIG, f"the command line of a batch file is limited to {_MAX_BATCH_LINE} characters")
    return line


def _environment(command: Command) -> dict[str, str]:
    """Return the command's environment, with the one variable that most programs need to load their libraries."""
    env = dict(command.env)
    if "SYSTEMROOT" not in {name.upper() for name in env} and "SYSTEMROOT" in os.environ:
        env["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return env


def is_batch_file(program: str) -> bool:
    return program.lower().rstrip(" .").endswith((".cmd", ".bat"))


def is_plain(argument: str) -> bool:
    """Return whether every program reads the argument in the same way without quotes."""
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
