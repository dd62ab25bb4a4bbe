"""A standard input that stays open: a conversation with a program, where `Command.stdin: bytes` is a monologue."""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue


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
