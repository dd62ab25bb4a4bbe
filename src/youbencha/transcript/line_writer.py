"""Write lines in a thread, so that a slow disk or a slow reader never holds up the event loop."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

_SLICE = 16_384
"""Small, so that a slow reader is seen to make progress."""

_LARGE_BATCH = 1 << 18
"""Written at once, without waiting for more."""


class LineWriter:
    """Takes lines, and writes them to a file descriptor. `close` waits as long as the reader makes progress."""

    def __init__(
        self,
        descriptor: int,
        *,
        max_waiting: int,
        dropped_line: Callable[[int], bytes],
        idle_line: Callable[[], bytes] | None = None,
        join: Callable[[list[bytes]], bytes] = b"".join,
        delay_s: float = 0.2,
    ) -> None:
        """`dropped_line` reports how many lines did not fit; `idle_line` is asked for a line each second.

        `join` makes what is written of the lines in the queue. All three are called in the thread.
        """
        self.error: OSError | None = None
        """Why nothing is written any more."""
        self._descriptor = descriptor
        self._max_waiting = max_waiting
        self._dropped_line = dropped_line
        self._idle_line = idle_line
        self._join = join
        self._delay_s = delay_s
        self._lines: list[bytes] = []
        self._waiting = 0
        self._dropped = 0
        self._written = 0
        self._closing = False
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="line-writer", daemon=True)
        self._thread.start()

    def put(self, line: bytes, *, now: bool = True) -> None:
        """Take a line, which ends with a line feed. Unless `now`, it may wait `delay_s` for others."""
        with self._lock:
            if self._waiting + len(line) > self._max_waiting:
                self._dropped += 1
                return
            self._lines.append(line)
            self._waiting += len(line)
            now = now or self._waiting > _LARGE_BATCH
        if now:
            self._hurry.set()
        self._wake.set()

    @property
    def is_behind(self) -> bool:
        """Whether so much waits that what can be left out should be."""
        return self._waiting * 2 > self._max_waiting

    def close(self, patience_s: float = 10.0) -> None:
        """Write what waits. Gives up if nothing could be written for `patience_s`."""
        self._closing = True
        self._hurry.set()
        self._wake.set()
        before = -1
        while self._thread.is_alive() and self._written != before:
            before = self._written
            self._thread.join(patience_s)

    def _run(self) -> None:
        while self.error is None:
            closing = self._closing
            self._write(self._take())
            if closing:
                return
            if self._wake.wait(1.0 if self._idle_line else None):
                self._hurry.wait(self._delay_s)
            self._wake.clear()
            self._hurry.clear()

    def _take(self) -> bytes:
        with self._lock:
            lines, self._lines = self._lines, []
            dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(self._dropped_line(dropped))
        if self._idle_line and (idle := self._idle_line()):
            lines.append(idle)
        return self._join(lines)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                done = self._write_some(view[:_SLICE])
                self._written += done
                view = view[done:]
        except OSError as error:  # a full disk, a closed pipe
            self.error = error
        with self._lock:
            self._waiting = sum(map(len, self._lines))

    def _write_some(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # another program has made the terminal non-blocking, as Node.js does
            select.select([], [self._descriptor], [], 1.0)
            return 0
