"""Windows as far as our code sees it, acted out by real Linux processes, with every call on record.

A job is the set of all descendants of what was put into it, kept by a mark in their environment.
"""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import threading
import time
import types
import uuid
from collections.abc import Sequence

import psutil

from youbencha.process.windows_kernel import JobUsage


class StandInKernel:
    def __init__(self, fail: str | None = None) -> None:
        self.calls: list[str] = []
        self.open_handles: set[int] = set()
        self._fail = fail
        self._jobs: dict[int, list[int]] = {}
        self._next_handle = 100
        self._mark = uuid.uuid4().hex

    def create_job(self) -> int:
        job = self._new_handle("create_job")
        self._jobs[job] = []
        return job

    def start_suspended(
        self, argv: Sequence[str] | str, *, cwd: str, env: dict[str, str], stdin: int, stdout: int, stderr: int
    ) -> subprocess.Popen[bytes]:
        self._record("start_suspended")
        self.argv = argv
        if isinstance(argv, str):
            argv = ["/bin/echo", argv]
        environment = {**env, "STAND_IN": self._mark}
        process = subprocess.Popen(
            argv, cwd=cwd, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
        os.kill(process.pid, signal.SIGSTOP)
        return process

    def process_handle(self, process: subprocess.Popen[bytes]) -> int:
        return process.pid

    def open_process(self, pid: int) -> int:
        handle = self._new_handle("open_process")
        self._opened = pid
        return handle

    def assign(self, job: int, process: int) -> None:
        self._record("assign")
        self._jobs[job].append(self._opened if process in self.open_handles else process)

    def resume(self, process: int) -> None:
        self._record("resume")
        os.kill(process, signal.SIGCONT)

    def usage(self, job: int) -> JobUsage:
        return JobUsage(active=len(self._members(job)), cpu_s=0.5, peak_bytes=1234)

    def processes(self, job: int) -> list[int]:
        return [process.pid for process in self._members(job)]

    def terminate(self, job: int) -> None:
        self._record("terminate")
        for process in self._members(job):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def close(self, handle: int) -> None:
        self._record("close")
        self.open_handles.remove(handle)
        if handle in self._jobs:
            for process in self._members(handle):
                with contextlib.suppress(psutil.Error):
                    process.kill()

    def open_to_append(self, path: str) -> int:
        self._record("open_to_append")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.unlink(path)
        return fd

    def _members(self, job: int) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                ours = process.pid in self._jobs[job] or process.environ().get("STAND_IN") == self._mark
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def _new_handle(self, call: str) -> int:
        self._record(call)
        self._next_handle += 1
        self.open_handles.add(self._next_handle)
        return self._next_handle

    def _record(self, call: str) -> None:
        self.calls.append(call)
        if call == self._fail:
            raise OSError(5, f"{call} failed")


class StandInPtyProcess:
    """`winpty.PtyProcess`, on a Linux terminal."""

    exitstatus: int | None = None
    late_s = 0.0

    @classmethod
    def spawn(cls, argv: list[str], cwd: str, env: dict[str, str], dimensions: tuple[int, int]) -> StandInPtyProcess:
        if not os.path.exists(argv[0]):
            raise FileNotFoundError("The command was not found or was not executable")
        made = cls()
        made._lock = threading.Lock()
        made.pid, made._fd = pty.fork()
        if made.pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], argv, env)
        return made

    def read(self, size: int) -> str:
        time.sleep(self.late_s)
        while True:
            with self._lock:
                if self._fd < 0:
                    raise EOFError("Pty is closed")
                if select.select([self._fd], [], [], 0.01)[0]:
                    break
        try:
            data = os.read(self._fd, size)
        except OSError:
            data = b""
        if not data:
            raise EOFError("Pty is closed")
        return data.decode(errors="replace")

    def write(self, text: str) -> int:
        assert text == "\x1a\r", "the only thing that is ever typed: end-of-file, as it is on Windows"
        return os.write(self._fd, b"\x04")

    def has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def isalive(self) -> bool:
        if self.exitstatus is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.exitstatus = os.waitstatus_to_exitcode(status)
        return self.exitstatus is None

    def close(self, force: bool = False) -> None:
        if self.isalive():
            os.kill(self.pid, signal.SIGKILL)
        with self._lock:
            os.close(self._fd)
            self._fd = -1


def stand_in_winpty() -> types.ModuleType:
    module = types.ModuleType("winpty")
    module.PtyProcess = StandInPtyProcess  # type: ignore[attr-defined]
    return module
