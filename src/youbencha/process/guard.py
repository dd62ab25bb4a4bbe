"""Stands between the harness and each agent, so that no process of an agent outlives it. Run as a program.

One *nursery* serves a harness for its whole life: it forks a *guard* for each run (a fork of this small process
takes a millisecond; a new interpreter would take fifteen). The guard starts the program, adopts every descendant
that detaches itself (child subreaper), and ends the whole tree when the program ends, when it is told to, or when
the harness is gone, however it went: a kill -9 closes the guard's socket too.

Only the standard library and psutil are imported here: start-up time is part of the first run of every harness.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any, NoReturn

import psutil

HEADER = struct.Struct("!I")
END_NOW = b"T"
TAG = "YOUBENCHA_RUN"
"""An environment variable by which strays are known where there is no subreaper (macOS)."""
_POLL_S = 0.02
_KILL_FOR_S = 5.0


_LIBC = ctypes.CDLL(None)


def become_subreaper() -> bool:
    """Ask Linux to make us the parent of orphaned descendants."""
    if sys.platform != "linux":
        return False
    pr_set_child_subreaper = 36
    return bool(_LIBC.prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0)


class Tree:
    """Every process that came out of the one we started."""

    def __init__(self, tag: str | None) -> None:
        self._tag = tag  # None: all descendants are ours to find, wherever they went

    def members(self) -> list[psutil.Process]:
        found = {child.pid: child for child in psutil.Process().children(recursive=True)}
        if self._tag is not None:
            found |= {stray.pid: stray for stray in self._strays()}
        return [process for process in found.values() if _is_alive(process)]

    def _strays(self) -> list[psutil.Process]:
        strays = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(TAG) == self._tag:
                    strays.append(process)
        return strays

    def may_have_strays(self) -> bool:
        """Whether processes may be left that are not below us. With a subreaper there are none by construction."""
        return self._tag is not None and bool(self.members())

    def signal(self, number: signal.Signals) -> int:
        members = self.members()
        for process in members:
            with contextlib.suppress(psutil.Error, OSError):
                process.send_signal(number)
        return len(members)


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


class Guard:
    """Watches over one program. Lives in a process of its own."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._wakeup, wakeup_writer = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(wakeup_writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
        self._main_pid = 0
        self._main_status: int | None = None
        self._ended = 0.0

    def run(self) -> None:
        request, fds = receive_request(self._control)
        tag = None if become_subreaper() else str(request["tag"])
        tree = Tree(tag)
        started = time.monotonic()
        try:
            self._main_pid = _start(request, fds)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._tell(failed=str(error), errno=getattr(error, "errno", None))
            return
        finally:
            for fd in fds:
                os.close(fd)
        self._tell(started=self._main_pid)
        told_to_end = self._watch()
        leftovers = self._end(tree, grace=float(request["grace"]), gently=told_to_end)
        usage = _children_usage()
        status = self._main_status if self._main_status is not None else -signal.SIGKILL
        self._tell(status=status, lifetime=self._ended - started, leftovers=leftovers, **usage)

    def _watch(self) -> bool:
        """Until the program ends (False), or we are told to end it or the harness is gone (True)."""
        while self._reap() and self._main_status is None:
            readable, _, _ = select.select([self._control.fileno(), self._wakeup], [], [])
            self._drain_wakeup()
            if self._control.fileno() in readable:
                return True
        return False

    def _end(self, tree: Tree, *, grace: float, gently: bool) -> int:
        """End everything that is left: SIGTERM, then within `grace` SIGKILL. Returns how many were left behind."""
        leftovers = 0
        if self._is_anyone_left(tree):
            count = tree.signal(signal.SIGTERM)
            leftovers = 0 if gently else count
            # A stopped process acts on SIGTERM only when it goes on.
            tree.signal(signal.SIGCONT)
            self._await_end(tree, time.monotonic() + grace)
        give_up = time.monotonic() + _KILL_FOR_S
        while self._is_anyone_left(tree) and time.monotonic() < give_up:
            # Stop all before killing any: a fork bomb cannot replace what was killed.
            tree.signal(signal.SIGSTOP)
            tree.signal(signal.SIGKILL)
            self._await_end(tree, time.monotonic() + _POLL_S)
        return leftovers

    def _await_end(self, tree: Tree, deadline: float) -> None:
        while self._is_anyone_left(tree):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            select.select([self._wakeup], [], [], min(remaining, _POLL_S))
            self._drain_wakeup()

    def _is_anyone_left(self, tree: Tree) -> bool:
        return self._reap() or tree.may_have_strays()

    def _reap(self) -> bool:
        """Collect whoever ended. False once we have no children, and so, as subreaper, no descendants either."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._main_pid:
                self._main_status = os.waitstatus_to_exitcode(status)
                self._ended = time.monotonic()

    def _drain_wakeup(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 4096)

    def _tell(self, **message: Any) -> None:
        with contextlib.suppress(OSError):  # nobody may be listening any more
            self._control.sendall(json.dumps(message).encode() + b"\n")


def receive_request(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The command as JSON, with stdin, stdout and stderr riding along as descriptors."""
    head, fds, _, _ = socket.recv_fds(control, HEADER.size, 3)
    (length,) = HEADER.unpack(head)
    body = bytearray()
    while len(body) < length:
        piece = control.recv(min(1 << 16, length - len(body)))
        if not piece:
            raise EOFError("the harness went away")
        body += piece
    return json.loads(body), fds


def _start(request: dict[str, Any], fds: list[int]) -> int:
    # A session of its own, so that a signal meant for the harness's terminal does not reach the program.
    process = subprocess.Popen(
        request["argv"],
        cwd=request["cwd"],
        env=request["env"],
        stdin=fds[0],
        stdout=fds[1],
        stderr=fds[2],
        start_new_session=True,
        preexec_fn=_take_terminal if request["terminal"] else None,  # safe: this process has one thread
    )
    process.returncode = 0  # we reap by ourselves; this keeps Popen from warning about it
    return process.pid


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(1, termios.TIOCSCTTY, 0)


def _children_usage() -> dict[str, float]:
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    return {"cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss * unit}


class Nursery:
    """Forks guards for as long as its harness lives."""

    def __init__(self, harness: socket.socket) -> None:
        self._harness = harness
        self._guards: set[int] = set()

    def serve(self) -> None:
        become_subreaper()
        signal.signal(signal.SIGCHLD, self._on_child_end)
        while True:
            data, fds, _, _ = socket.recv_fds(self._harness, 1, 1)
            if not data:
                break
            self._fork_guard(fds[0])
        with contextlib.suppress(ChildProcessError):
            while True:  # each guard sees the end of the harness by itself, and cleans up
                os.wait()

    def _fork_guard(self, control_fd: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            self._harness.close()
            _be_guard(control_fd)
        self._guards.add(pid)
        os.close(control_fd)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _on_child_end(self, *_: object) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, status = ended
                if pid in self._guards and status != 0:
                    self._end_orphans()
                self._guards.discard(pid)

    def _end_orphans(self) -> None:
        """A guard was killed: what it guarded is ours now, and must not live on unguarded."""
        for child in psutil.Process().children():
            if child.pid not in self._guards:
                for process in [*child.children(recursive=True), child]:
                    with contextlib.suppress(psutil.Error):
                        process.kill()


def _be_guard(control_fd: int) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        Guard(socket.socket(fileno=control_fd)).run()
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    Nursery(socket.socket(fileno=int(sys.argv[1]))).serve()
