"""Start each agent under a guard process, so that none of its processes outlives it. Run as a program.

A harness has one *fork server*: it forks a *guard* for each run (a fork of this small process takes a millisecond; a
new interpreter would take fifteen). The guard starts the program, adopts every descendant that detaches itself (child
subreaper), and ends the whole tree when the program ends, when the harness asks for it, or when the harness is gone for
any reason: a kill -9 closes the guard's socket too.

Only the standard library and psutil are imported here, before any agent runs, which might remove the files: start-up
time is part of the first run of every harness. The harness imports this file too, for the protocol.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

import psutil

assert sys.platform != "win32"


HEADER = struct.Struct("!I")
END_NOW = b"T"
TAG = "YOUBENCHA_RUN"
"""An environment variable that marks the processes of a run, for systems without subreapers (macOS)."""

_POLL_S = 0.02
_KILL_FOR_S = 5.0


def become_subreaper() -> bool:
    """Ask Linux to make us the parent of orphaned descendants."""
    if sys.platform != "linux":
        return False
    pr_set_child_subreaper = 36
    return bool(ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0)


def ignore_termination_signals() -> None:
    """Survive an agent that runs `pkill python`. A handler, unlike SIG_IGN, is not inherited by the program."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the harness's thread may have blocked some


def find_strays(tag: str, session: int | None) -> list[psutil.Process]:
    """Processes of a run that are not our descendants: found by session, or by the tag in their environment.

    Both are needed: macOS hides the environment of its own programs (/bin/sleep), others leave the session.
    """
    strays = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == session or process.environ().get(TAG) == tag:
                strays.append(process)
    return [stray for stray in strays if _is_alive(stray)]


def signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            process.send_signal(number)


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def program_path(process: psutil.Process) -> str | None:
    """Return the path of a process's program; `?` if it cannot be read; None if the process has ended."""
    try:
        return process.exe() or None
    except psutil.NoSuchProcess:
        return None
    except (psutil.Error, OSError):
        return "?"


class EndedChildren(NamedTuple):
    ended: list[tuple[int, int]]
    """Process id and wait status of each."""
    any_left: bool


def reap(*, resume_stopped: bool = False) -> EndedChildren:
    """Collect the children that ended, and whether there are others. With `resume_stopped`, resume stopped children."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | (os.WUNTRACED if resume_stopped else 0))
        except ChildProcessError:
            return EndedChildren(ended, any_left=False)
        if pid == 0:
            return EndedChildren(ended, any_left=True)
        if os.WIFSTOPPED(status):
            os.kill(pid, signal.SIGCONT)
        else:
            ended.append((pid, status))


class Wakeup:
    """Waits for the end of a child together with a socket."""

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def wait(self, channel: socket.socket | None = None, *, timeout: float | None = None) -> bool:
        """Wait; return whether the channel has something to read, or its other end is gone."""
        watched: list[Any] = [self._reader, *([channel] if channel else [])]
        readable, _, _ = select.select(watched, [], [], timeout)
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 4096)
        return channel in readable


class Tree:
    """The program of a run, with all its descendants."""

    def __init__(self, tag: str, session: int, *, adopting: bool) -> None:
        self._tag = tag
        self._session = session
        self._adopting = adopting
        """A subreaper becomes the parent of every orphan: then there are no strays."""

    def members(self) -> list[psutil.Process]:
        members = {child.pid: child for child in psutil.Process().children(recursive=True)}
        members |= {stray.pid: stray for stray in self.strays()}
        return [process for process in members.values() if _is_alive(process)]

    def strays(self) -> list[psutil.Process]:
        return [] if self._adopting else find_strays(self._tag, self._session)

    def signal(self, number: signal.Signals) -> None:
        signal_all(self.members(), number)


class Guard:
    """Supervises one program, in a separate process."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._wakeup = Wakeup()
        self._main_pid = 0
        self._main_status: int | None = None
        self._ended = 0.0

    def run(self) -> None:
        request, fds = receive_request(self._control)
        if request is None:
            return
        adopting = become_subreaper()
        self._send(starting=True)  # if this guard is lost after this, the program may have run: no second try
        started = time.monotonic()
        try:
            self._main_pid = _start(request, fds)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._send(failed=str(error), errno=getattr(error, "errno", None))
            return
        finally:
            for fd in fds:
                os.close(fd)
        self._send(started=self._main_pid, guard=os.getpid())
        asked_to_end = self._watch()
        tree = Tree(request["tag"], self._main_pid, adopting=adopting)
        if not asked_to_end:
            self._settle(tree, time.monotonic() + float(request["settle"]))
        leftovers = self._end(tree, grace=float(request["grace"]), asked=asked_to_end)
        status = self._main_status if self._main_status is not None else -signal.SIGKILL
        lifetime = (self._ended or time.monotonic()) - started
        exited_on_its_own = not asked_to_end
        self._send(
            status=status,
            lifetime=lifetime,
            exited_on_its_own=exited_on_its_own,
            leftovers=leftovers,
            **_children_usage(),
        )

    def _watch(self) -> bool:
        """Wait until the program ends (False), or the harness asks to end it or is gone (True)."""
        while self._reap() and self._main_status is None:
            if self._wakeup.wait(self._control):
                return True
        return False

    def _settle(self, tree: Tree, deadline: float) -> None:
        """Wait until helpers that the program did not wait for have exited, or the harness asks to end them."""
        while self._is_any_left(tree) and (remaining := deadline - time.monotonic()) > 0:
            if self._wakeup.wait(self._control, timeout=min(remaining, _POLL_S)):
                return

    def _end(self, tree: Tree, *, grace: float, asked: bool) -> list[str]:
        """End the remaining processes: SIGTERM, and SIGKILL after `grace`. Return their programs, unless `asked`."""
        leftovers: list[str] = []
        if self._is_any_left(tree):
            members = tree.members()
            leftovers = [] if asked else [path for process in members if (path := program_path(process))]
            signal_all(members, signal.SIGTERM)
            # A stopped process handles SIGTERM only when it is resumed.
            tree.signal(signal.SIGCONT)
            self._await_end(tree, time.monotonic() + grace)
        give_up = time.monotonic() + _KILL_FOR_S
        while self._is_any_left(tree) and time.monotonic() < give_up:
            # Stop all before killing any, so that a fork bomb cannot replace what was killed.
            tree.signal(signal.SIGSTOP)
            tree.signal(signal.SIGKILL)
            self._await_end(tree, time.monotonic() + _POLL_S)
        return leftovers

    def _await_end(self, tree: Tree, deadline: float) -> None:
        while self._is_any_left(tree) and (remaining := deadline - time.monotonic()) > 0:
            self._wakeup.wait(timeout=min(remaining, _POLL_S))

    def _is_any_left(self, tree: Tree) -> bool:
        return self._reap() or bool(tree.strays())

    def _reap(self) -> bool:
        """Collect children that ended. False once there are none, and so, as subreaper, no descendants either."""
        reaped = reap()
        for pid, status in reaped.ended:
            if pid == self._main_pid:
                self._main_status = os.waitstatus_to_exitcode(status)
                self._ended = time.monotonic()
        return reaped.any_left

    def _send(self, **message: Any) -> None:
        with contextlib.suppress(OSError):  # the harness may be gone
            self._control.sendall(json.dumps(message).encode() + b"\n")


def receive_request(control: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive the command, with stdin, stdout and stderr as descriptors. None if the harness closed the channel."""
    head, fds, _, _ = socket.recv_fds(control, HEADER.size, 3)
    if not head:
        return None, fds
    (length,) = HEADER.unpack(head)
    body = bytearray()
    while len(body) < length:
        piece = control.recv(min(1 << 16, length - len(body)))
        if not piece:
            raise EOFError("the harness is gone")
        body += piece
    return json.loads(body), fds


def _start(request: dict[str, Any], fds: list[int]) -> int:
    # In a new session, so that a signal from the harness's terminal does not reach the program.
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
    process.returncode = 0  # reaped in `reap`; this keeps Popen from warning
    return process.pid


def _take_terminal() -> None:
    fcntl.ioctl(1, termios.TIOCSCTTY, 0)


def _children_usage() -> dict[str, float]:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    return {"cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss * unit}


class ForkServer:
    """Forks guards for as long as its harness lives."""

    def __init__(self, harness: socket.socket) -> None:
        self._harness = harness
        self._channels: dict[int, int] = {}
        """A copy of each guard's end of its channel, by process id. Closed once the guard's tree is gone, so that the
        harness detects a killed guard only when no process of its tree is left."""

    def serve(self) -> None:
        become_subreaper()
        ignore_termination_signals()
        gc.freeze()  # a garbage collection in a guard would copy the memory that it shares with this process
        wakeup = Wakeup()
        has_harness = True
        while has_harness or self._channels:  # each guard detects the end of the harness, and cleans up
            if wakeup.wait(self._harness if has_harness else None):
                has_harness = self._take_request()
            self._reap()

    def _take_request(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._harness, 1, 1)
        for control_fd in fds:
            self._fork_guard(control_fd)
        return bool(data)

    def _fork_guard(self, control_fd: int) -> None:
        try:
            pid = os.fork()
        except OSError:  # no more processes: only this run fails, as its channel is closed
            os.close(control_fd)
            return
        if pid == 0:
            self._harness.close()
            for fd in self._channels.values():
                os.close(fd)
            _be_guard(control_fd)
        self._channels[pid] = control_fd

    def _reap(self) -> None:
        # An agent that stops its guard would escape its deadline, and outlive the harness.
        for pid, status in reap(resume_stopped=True).ended:
            channel = self._channels.pop(pid, None)
            if channel is not None:
                if status != 0:
                    self._end_orphans()
                os.close(channel)

    def _end_orphans(self) -> None:
        """Kill the tree of a guard that was killed, which this process has inherited."""
        give_up = time.monotonic() + _KILL_FOR_S
        while (orphans := self._orphans()) and time.monotonic() < give_up:
            signal_all(orphans, signal.SIGSTOP)
            signal_all(orphans, signal.SIGKILL)
            for orphan in orphans:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(orphan.pid, os.WNOHANG)
            time.sleep(_POLL_S / 10)

    def _orphans(self) -> list[psutil.Process]:
        orphans = []
        for child in psutil.Process().children():
            if child.pid not in self._channels:
                with contextlib.suppress(psutil.Error):
                    orphans += [child, *child.children(recursive=True)]
        return orphans


def _be_guard(control_fd: int) -> NoReturn:
    code = 1
    try:
        Guard(socket.socket(fileno=control_fd)).run()
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()
