"""Notice failed calls to the model, and stop the run if the key was rejected: the CLI would retry for three minutes.

From 2.1.77 on, the output has an event for each failed request. Older versions, and all versions in text mode, try
ten times without output; their debug log has the first answer after at most a second. (2.1.19 does not log it.) Before
1.0.122 the debug log is printed between the lines of the output; in text mode it would be part of the answer, so there
is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from packaging.version import Version

from youbencha.adapters.claude_code.command import ClaudeInvocation, chosen_session_id, cli_version, prints_debug_log
from youbencha.adapters.claude_code.control import Activity
from youbencha.adapters.claude_code.options import ClaudeCode, credentials_given
from youbencha.adapters.claude_code.own_files import config_dir, host_environment
from youbencha.adapters.claude_code.stream import ClaudeStreamReader
from youbencha.adapters.claude_code.versions import result_totals
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.events import Event, EventSink, RequestRetried
from youbencha.files import open_nofollow
from youbencha.json_lines import Record
from youbencha.log.session import CallMetered
from youbencha.process import Command, ProcessResult, Redactor


class SessionEnd:
    """Calls `end` if the CLI stays after the last result. Create it inside a running event loop."""

    def __init__(self, end: Callable[[], object], timeout_s: float | None, grace_s: float) -> None:
        """`timeout_s`: of the whole session. `grace_s`: how long the CLI may stay after the result."""
        self._end = end
        self._grace_s = grace_s
        self._activity = Activity()
        self._loop = asyncio.get_running_loop()
        self._deadline = None if timeout_s is None else self._loop.time() + timeout_s
        self._ended_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self.stayed = False
        """The CLI did not end by itself after the session."""

    def note(self, message: Record) -> None:
        now = self._loop.time()
        self._activity.note(message, now)
        if self._activity.is_idle and self._timer is None:
            self._ended_at, self._timer = now, self._loop.call_later(self._grace_s, self._on_timer)
        elif not self._activity.is_idle:
            self.close()

    def answered(self) -> None:
        """Note a line of the answer in text mode. More may follow: there, subagents in the background are not seen."""
        self._ended_at = self._loop.time()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._ended_at = self._timer = None

    def as_clean_exit(self, done: ProcessResult) -> ProcessResult:
        """Return the process result as if the CLI had ended by itself, if only background commands kept it alive.

        When it is ended at its deadline, it reports that its tasks have ended: that is after the deadline.
        """
        in_time = self._ended_at is not None and (self._deadline is None or self._ended_at < self._deadline)
        if not (self._ended and done.stopped) and not (done.timed_out and in_time):
            return done
        self.stayed = True
        end = done.exit._replace(code=0, signal=None)
        return done._replace(stopped=False, timed_out=False, exit=end)

    def _on_timer(self) -> None:
        self._ended = True
        self._end()


_ANSWERED, _UNAUTHORIZED = 200, 401


class ClaudeOutputReader(OutputReader):
    """Reads the output of a session, and sets `stop` when the key was rejected for good."""

    def __init__(
        self,
        on_event: EventSink | None,
        *,
        redactor: Redactor | None = None,
        key_may_recover: bool = False,
        debug_log_printed: bool = False,
        stopping: asyncio.Event | None = None,
        version: Version | None = None,
    ) -> None:
        """`key_may_recover`: the CLI can renew its login, so one rejection is not final.

        `debug_log_printed`: a line that is not an event is one of the debug log.
        """
        reader = ClaudeStreamReader(result_totals(version))
        super().__init__(ClaudeCode, reader, on_event=on_event, redactor=redactor, stopping=stopping)
        self._rejections_allowed = 1 if key_may_recover else 0
        self.debug_log_printed = debug_log_printed
        self._answered = False
        self.key_rejected = False
        self.stop = asyncio.Event()
        self.session_end: SessionEnd | None = None
        """Set only in print mode; the control protocol notices the end itself."""

    def read(self, record: Record) -> None:
        super().read(record)
        if self.session_end is not None:
            self.session_end.note(record)

    def answer_line(self, line: bytes) -> None:
        """Note and show a line of the answer in text mode."""
        if self.session_end is not None:
            self.session_end.answered()
        self.plain_line(line)

    def on_other_line(self, text: str) -> None:
        if not self.debug_log_printed:
            super().on_other_line(text)

    def on_event(self, event: Event) -> None:
        if isinstance(event, CallMetered):
            self._answered = True  # the key is valid; the calls of another model may still be rejected
        elif isinstance(event, RequestRetried) and event.status == _UNAUTHORIZED:
            self.on_rejected_key()

    def on_logged_call(self, status: int | None) -> None:
        """Note a call in the debug log. For a rejected key, there is `on_rejected_key`."""
        if status == _ANSWERED:
            self.recorder.answered()
        elif status != _UNAUTHORIZED:
            self._handle(RequestRetried(attempt=None, status=status, reason=None, delay_ms=None))

    def on_rejected_key(self) -> None:
        if self._answered:
            return
        if self._rejections_allowed:
            self._rejections_allowed -= 1
            return
        self.key_rejected = True
        self.stop.set()


def make_reader(
    invocation: ClaudeInvocation, command: Command, redactor: Redactor, stopping: asyncio.Event | None
) -> ClaudeOutputReader:
    may_recover = not credentials_given(command.env)
    version = cli_version(invocation.cli)
    return ClaudeOutputReader(
        invocation.context.on_event,
        redactor=redactor,
        key_may_recover=may_recover,
        debug_log_printed=prints_debug_log(command, version),
        stopping=stopping,
        version=version,
    )


@contextlib.asynccontextmanager
async def watch_debug_log(
    reader: ClaudeOutputReader, invocation: ClaudeInvocation, command: Command, log_file: Path
) -> AsyncIterator[None]:
    """Watch the debug log, if it is on. `log_file` gets the output, and thus the debug log of old versions."""
    if "--debug" not in command.argv:
        yield
        return
    sandbox, given_id = invocation.context.sandbox, chosen_session_id(invocation)
    env, cwd = host_environment(sandbox, command.env), Path(sandbox.inside(command.cwd))
    async with debug_log_read(
        lambda: given_id or reader.recorder.session_id,
        reader.on_rejected_key,
        reader.on_logged_call,
        env=env,
        cwd=cwd,
        printed=log_file if prints_debug_log(command, cli_version(invocation.cli)) else None,
    ):
        yield


@contextlib.asynccontextmanager
async def call_when_set(event: asyncio.Event | None, act: Callable[[], object]) -> AsyncIterator[None]:
    """Call `act` once the event is set, while the context is open."""
    if event is None:
        yield
        return
    waiting = asyncio.create_task(_wait_and_call(event, act))
    try:
        yield
    finally:
        waiting.cancel()


async def _wait_and_call(event: asyncio.Event, act: Callable[[], object]) -> None:
    await event.wait()
    act()


_POLL_S = 0.25
_ANSWER_TIMEOUT_S = 5.0
"""2.0.62 calls a small model before the main one: its rejection is not final."""
_MAX_READ_BYTES = 1024 * 1024

_MAX_LINE_START = 256
"""How much of the start of a line is needed to recognise it."""

_CALL = re.compile(
    rb"^(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?(?:\[ERROR\] "
    rb"(?P<kind>Error streaming|API error)"
    rb"(?:, falling back to non-streaming mode:| \(attempt \d+/\d+\): (?:\d{3}|undefined)) "
    rb"(?:(?P<status>\d{3}) \{|Connection error)"
    rb"|\[DEBUG\] (?P<answer>Stream started)"
    rb"|\[DEBUG\] executePreToolHooks called for tool|\[INFO\] \[Stall\] tool_dispatch_start )",
    re.MULTILINE,
)
"""A call that failed, the start of an answer, which may be that of a side request, or a tool that an answer calls."""


@contextlib.asynccontextmanager
async def debug_log_read(
    session_id: Callable[[], str | None],
    on_rejected: Callable[[], None],
    on_call: Callable[[int | None], object] = lambda _: None,
    *,
    env: Mapping[str, str],
    cwd: Path,
    printed: Path | None = None,
) -> AsyncIterator[None]:
    """Call `on_rejected` for each rejection of the key, unless a call is answered within some seconds.

    `on_call` gets the HTTP status of each failed call (None without an answer), and 200 for a tool that is called.
    `printed` is a file with the printed log.
    """
    root, name = (printed.parent, printed.name) if printed else _shared_log(env, cwd)
    shared = await asyncio.to_thread(_Tail, root, name, from_end=True)  # before the CLI writes to it
    reading = asyncio.create_task(_read_logs(shared, config_dir(env), session_id, on_rejected, on_call))
    try:
        yield
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)  # without the log, the run only takes longer


async def _read_logs(
    shared: _Tail,
    base: Path | None,
    session_id: Callable[[], str | None],
    on_rejected: Callable[[], None],
    on_call: Callable[[int | None], object],
) -> None:
    own: _Tail | None = None
    answered, rejections, waited_s = False, 0, 0.0
    while True:
        await asyncio.sleep(_POLL_S)
        session = session_id()
        if own is None and session and base:
            own = _Tail(base, f"debug/{session}.txt")
        tails = [tail for tail in (shared, own) if tail]
        calls = [call for tail in tails for call in await asyncio.to_thread(tail.calls)]
        for call in calls:
            if not call["answer"]:
                on_call(int(call["status"] or 0) or None if call["kind"] else _ANSWERED)
        # The key is valid if any call is answered; those of another model may still be rejected.
        answered = answered or any(call["kind"] is None for call in calls)
        kinds = Counter(call["kind"] for call in calls if call["status"] == b"401")
        # One attempt may be logged twice, once as a failed stream and once with its number.
        rejections = 0 if answered else rejections + max(kinds.values(), default=0)
        waited_s += _POLL_S if rejections else 0.0
        if waited_s >= _ANSWER_TIMEOUT_S:
            for _ in range(rejections):
                on_rejected()
            rejections = 0


class _Tail:
    """A growing file. Each part is read once: a debug log has megabytes."""

    def __init__(self, root: Path, name: str, *, from_end: bool = False) -> None:
        self._root, self._name = root, name
        self._offset = 0
        self._unfinished = b""
        if from_end:
            with contextlib.suppress(OSError), open_nofollow(root, name) as file:
                self._offset = file.seek(0, os.SEEK_END)

    def calls(self) -> list[re.Match[bytes]]:
        """Return the calls to the model that were logged since the last time."""
        try:
            with open_nofollow(self._root, self._name) as file:
                if file.seek(0, os.SEEK_END) < self._offset:
                    self._offset = 0  # the file was truncated
                file.seek(self._offset)
                new = file.read(_MAX_READ_BYTES) or b""
        except OSError:  # does not exist yet, or is not a regular file
            return []
        self._offset += len(new)
        text = self._unfinished + new
        whole = text.rfind(b"\n") + 1
        # An unfinished line is kept until the rest arrives; the start of a long one is enough.
        self._unfinished = text[whole:][:_MAX_LINE_START]
        return list(_CALL.finditer(text[:whole]))


def _shared_log(env: Mapping[str, str], cwd: Path) -> tuple[Path, str]:
    """Return the log of 1.0.x: one file for each working directory, which earlier sessions may have written to.

    Returns the directory that it is below, and its path in there.
    """
    given = env.get("XDG_STATE_HOME")
    state = Path(given) if given else Path(env.get("HOME", "/")) / ".local" / "state"
    slug = re.sub(r"[^A-Za-z0-9]", "-", str(cwd))
    return state, f"claude-cli-nodejs/{slug}/debug-logs/debug.txt"
