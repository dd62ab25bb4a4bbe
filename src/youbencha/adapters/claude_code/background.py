"""Notice that a session is over although the CLI stays: it waits for commands in the background, such as a server.

After its result, 2.1.325 waits for 600 s. Subagents in the background are work of the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from youbencha.control.activity import Activity
from youbencha.json_lines import Record
from youbencha.process import ProcessResult


class SessionEnd:
    """Calls `end` if the CLI stays after the last result. Create it inside a running event loop."""

    def __init__(self, end: Callable[[], object], timeout_s: float | None, grace_s: float) -> None:
        """`timeout_s`: of the whole session. `grace_s`: how long the CLI may stay after the result."""
        self._end = end
        self._grace_s = grace_s
        self._activity = Activity()
        self._loop = asyncio.get_running_loop()
        self._deadline = None if timeout_s is None else self._loop.time() + timeout_s
        self._over_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self.stayed = False
        """The CLI did not end by itself after the session."""

    def note(self, message: Record) -> None:
        now = self._loop.time()
        self._activity.note(message, now)
        if self._activity.is_idle and self._timer is None:
            self._over_at, self._timer = now, self._loop.call_later(self._grace_s, self._on_timer)
        elif not self._activity.is_idle:
            self.close()

    def answered(self) -> None:
        """Note a line of the answer in text mode. More may follow: there, subagents in the background are not seen."""
        self._over_at = self._loop.time()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._over_at = self._timer = None

    def settled(self, done: ProcessResult) -> ProcessResult:
        """The process result as if the CLI had ended by itself, if only background commands kept it alive.

        When it is ended at its deadline, it reports that its tasks have ended: that is after the deadline.
        """
        in_time = self._over_at is not None and (self._deadline is None or self._over_at < self._deadline)
        if not (self._ended and done.stopped) and not (done.timed_out and in_time):
            return done
        self.stayed = True
        end = done.exit._replace(code=0, signal=None, signal_number=None)
        return done._replace(stopped=False, timed_out=False, exit=end)

    def _on_timer(self) -> None:
        self._ended = True
        self._end()
