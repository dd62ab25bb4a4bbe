"""Real programs for the process tests, and a check that nothing of them is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from systems import posix_only
from youbencha.process import Command, Limits, ProcessResult, run

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
TRUE = shutil.which("true") or "/usr/bin/true"  # in /bin on some systems
NEEDS_A_SHELL = posix_only("the programs are shell scripts; see test_process_on_windows.py")
NO_ADOPTION = "elsewhere orphans are not adopted, and macOS hides the environment (our tag) of its own programs"
PATIENCE_S = 30.0


class Programs:
    """Commands in a directory of their own, all of whose processes carry one mark in their arguments."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.mark = f"mark-{uuid.uuid4().hex}"
        # A `sleep` by that name, so that a shell's children carry the mark too: ./$0 1000
        (cwd / self.mark).symlink_to("/bin/sleep")
        _provide_setsid(cwd / "setsid")
        _provide_ppid(cwd / "ppid")

    def shell(self, script: str, *arguments: str, **options: object) -> Command:
        return self.command("/bin/sh", "-c", script, self.mark, *arguments, **options)

    def python(self, script: str, *arguments: str, **options: object) -> Command:
        """`sys.argv[1]` is the mark: hand it on to whatever you start."""
        return self.command(sys.executable, "-S", "-c", script, self.mark, *arguments, **options)

    def command(self, *argv: str, **options: object) -> Command:
        return Command(**{"argv": argv, "cwd": self.cwd, "env": ENV, **options})  # type: ignore[arg-type]

    @contextlib.contextmanager
    def harness(self, script: str) -> Iterator[subprocess.Popen[bytes]]:
        """A harness of its own, as a script that gets the mark; it is killed in the end, if it still lives."""
        argv = [sys.executable, "-c", script, self.mark]
        with subprocess.Popen(argv, cwd=self.cwd, stdout=subprocess.PIPE) as process:
            try:
                yield process
            finally:
                process.kill()

    def alive(self) -> list[str]:
        """The processes with the mark, among all of the machine."""
        found = []
        for process in psutil.process_iter():
            try:
                line = process.cmdline()
                if any(self.mark in part for part in line) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid} {' '.join(line)[:100]!r}")
            except (psutil.Error, OSError):
                continue
        return found


def _provide_setsid(path: Path) -> None:
    """`./setsid PROGRAM ...`: macOS has the call, but not the command."""
    if command := shutil.which("setsid"):
        path.symlink_to(command)
    else:
        path.write_text("#!/usr/bin/perl\nuse POSIX; POSIX::setsid(); exec { $ARGV[0] } @ARGV;\n")
        path.chmod(0o755)


def _provide_ppid(path: Path) -> None:
    """`./ppid PID`: print the parent of a process. Small images have no `ps`, and macOS has no /proc."""
    path.write_text(
        '#!/bin/sh\nsed \'s/.*) . \\([0-9]*\\) .*/\\1/\' "/proc/$1/stat" 2> /dev/null || ps -o ppid= -p "$1"\n'
    )
    path.chmod(0o755)


async def run_into_deadline(
    command: Command, limits: Limits, begun: str = "", **options: Any
) -> tuple[ProcessResult, float]:
    """The result, and how late it came. A deadline before the program has begun shows nothing: a later one is set."""
    assert limits.timeout_s
    clock: list[float] = []
    result = await run(command, limits=limits, on_start=lambda _: clock.append(time.monotonic()), **options)
    if result.output.startswith(begun) or limits.timeout_s > PATIENCE_S:
        return result, time.monotonic() - clock[0] - limits.timeout_s
    return await run_into_deadline(command, limits._replace(timeout_s=limits.timeout_s * 10), begun, **options)


def open_descriptors() -> list[str]:
    return sorted(os.listdir("/dev/fd"))


def assert_in_time(late_s: float) -> None:
    """However busy the machine is. `make bench` checks how long it usually takes."""
    assert late_s < PATIENCE_S


def eventually(is_so: Callable[[], object], otherwise: str = "", patience_s: float = PATIENCE_S) -> None:
    """Wait for something that must come, however loaded the machine is."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, otherwise or "it did not happen"
        time.sleep(0.01)


async def soon(is_so: Callable[[], object], running: asyncio.Task[object] | None = None) -> None:
    """The same, while the event loop goes on. If the task fails meanwhile, it is not waited for in vain."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        if running and running.done():
            running.result()
        await asyncio.sleep(0.005)
