"""A Windows pseudo-console (through pywinpty) as the place a program writes to."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from youbencha.process.lines import Stream
from youbencha.process.systems.windows_arguments import is_batch_file, is_plain

_ROWS, _COLUMNS = 50, 200
_READ_BYTES = 64 * 1024
_MOST_WAITING = 256
_LOOK_EVERY_S = 0.1
_END_OF_FILE = "\x1a\r"  # Ctrl-Z and Enter


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
        raise ValueError("pywinpty cannot hand such arguments to a batch file: use the program behind it")
    try:
        process: PtyProcess = winpty.PtyProcess.spawn(list(argv), cwd=cwd, env=env, dimensions=(_ROWS, _COLUMNS))
    except _winpty_error(winpty) as error:
        raise OSError(str(error)) from error
    return process


def close_stdin(winpty: Any, process: PtyProcess) -> None:
    """A pseudo-console has no input that can be closed: it says end-of-file the way a person would."""
    with contextlib.suppress(EOFError, OSError, _winpty_error(winpty)):  # it may have ended already
        process.write(_END_OF_FILE)


def _winpty_error(winpty: Any) -> type[Exception]:
    """pywinpty's own error, which is none of Python's."""
    error: type[Exception] = getattr(winpty, "WinptyError", OSError)
    return error


class WindowsTerminalSource:
    """A thread reads, since a pseudo-console can only be waited for; we take what it got."""

    stream = Stream.OUT
    skipped_bytes = 0

    def __init__(self, process: PtyProcess) -> None:
        self._process = process
        # Bounded, so that the program waits for us as it would for any terminal.
        self._waiting: queue.Queue[bytes] = queue.Queue(_MOST_WAITING)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read_all, name="youbencha-terminal", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether everything has been read that the program wrote."""
        return not self._thread.is_alive()

    def read(self) -> bytes:
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return b""

    def hurry(self) -> None:
        """Little waits here: nothing to skip."""

    def close(self) -> None:
        self._closed.set()
        # In a thread, since pywinpty waits a moment while it closes. It closes a socket too, which frees our reader.
        threading.Thread(target=self._close_terminal, name="youbencha-terminal-close", daemon=True).start()

    def _close_terminal(self) -> None:
        with contextlib.suppress(EOFError, OSError):  # "could not terminate": the job has seen to that
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
                self._waiting.put(data, timeout=_LOOK_EVERY_S)
                return
