"""Notice that the model's API rejected the key, and stop the run: the CLI would retry for three minutes.

From 2.1.77 on, the output has an event for each failed request. Older versions, and all versions in text mode, try a
wrong key ten times without output; their debug log has the first answer after at most a second. (2.1.19 does not log
it, and is not stopped early.)
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from youbencha.adapters.claude_code.background import SessionEnd
from youbencha.adapters.claude_code.command import ClaudeInvocation, session_id_of
from youbencha.adapters.claude_code.config import CLAUDE, credentials_given
from youbencha.adapters.claude_code.own_files import config_dir, host_environment
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.control.stream_json import ClaudeStreamReader
from youbencha.events import Event, EventSink, RequestRetried
from youbencha.json_lines import Record
from youbencha.log.session import CallMetered
from youbencha.process import Command, Redactor

_UNAUTHORIZED = 401


class KeyWatch(OutputReader):
    """Reads the output of a session, and sets `stop` when the key was rejected for good."""

    def __init__(
        self,
        on_event: EventSink | None,
        *,
        redactor: Redactor | None = None,
        key_may_recover: bool = False,
        stopping: asyncio.Event | None = None,
    ) -> None:
        """`key_may_recover`: the CLI can renew its login, so one rejection is not final."""
        super().__init__(CLAUDE, ClaudeStreamReader(), on_event=on_event, redactor=redactor, stopping=stopping)
        self._rejections_allowed = 1 if key_may_recover else 0
        self._answered = False
        self.key_rejected = False
        self.stop = asyncio.Event()
        self.session_end: SessionEnd | None = None
        """In print mode; the control protocol notices the end itself."""

    def read(self, record: Record) -> None:
        super().read(record)
        if self.session_end is not None:
            self.session_end.note(record)

    def on_event(self, event: Event) -> None:
        if isinstance(event, CallMetered):
            self._answered = True  # the key is valid; the calls of another model may still be rejected
        elif isinstance(event, RequestRetried) and event.status == _UNAUTHORIZED:
            self.on_rejected_key()

    def on_rejected_key(self) -> None:
        if self._answered:
            return
        if self._rejections_allowed:
            self._rejections_allowed -= 1
            return
        self.key_rejected = True
        self.stop.set()


def watch_of(
    invocation: ClaudeInvocation, command: Command, redactor: Redactor, stopping: asyncio.Event | None
) -> KeyWatch:
    may_recover = not credentials_given(command.env)
    return KeyWatch(invocation.context.on_event, redactor=redactor, key_may_recover=may_recover, stopping=stopping)


@contextlib.asynccontextmanager
async def debug_log_watched(watch: KeyWatch, invocation: ClaudeInvocation, command: Command) -> AsyncIterator[None]:
    """Watch the debug log, if it is on."""
    if "--debug" not in command.argv:
        yield
        return
    sandbox, given_id = invocation.context.sandbox, session_id_of(invocation)
    env, cwd = host_environment(sandbox, command.env), Path(sandbox.inside(command.cwd))
    watching = asyncio.create_task(
        watch_debug_log(lambda: given_id or watch.recorder.session_id, watch.on_rejected_key, env=env, cwd=cwd)
    )
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)  # without the log, the run only takes longer


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


_LOOK_EVERY_S = 0.25
_ANSWER_WITHIN_S = 5.0
"""2.0.62 calls a small model before the main one: its rejection is not final."""
_ANSWERED = b"[DEBUG] Stream started"
_LONGEST_READ = 1024 * 1024

_LONGEST_START = 256
"""How much of the start of a line is needed to recognise it."""

_REJECTED = re.compile(
    rb"^(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?\[ERROR\] "
    rb"(?:(?P<kind>Error streaming|API error)"
    rb"(?:, falling back to non-streaming mode:| \(attempt \d+/\d+\): 401)) 401 \{",
    re.MULTILINE,
)


async def watch_debug_log(
    session_id: Callable[[], str | None], on_rejected: Callable[[], None], *, env: Mapping[str, str], cwd: Path
) -> None:
    """Call `on_rejected` for each rejection of the key, unless a call is answered within some seconds."""
    shared = _Tail(_shared_log(env, cwd), from_end=True)
    own: _Tail | None = None
    base = config_dir(env)
    rejections, waited_s = 0, 0.0
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        session = session_id()
        if own is None and session and base:
            own = _Tail(base / "debug" / f"{session}.txt")
        tails = [tail for tail in (shared, own) if tail]
        rejections += sum(tail.rejections() for tail in tails)
        if any(tail.answered for tail in tails):
            return  # the key is valid; the calls of another model may still be rejected
        waited_s += _LOOK_EVERY_S if rejections else 0.0
        if waited_s >= _ANSWER_WITHIN_S:
            for _ in range(rejections):
                on_rejected()
            rejections = 0


class _Tail:
    """A growing file. Each part is read once: a debug log has megabytes, and reading blocks the event loop."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self._path = path
        self._offset = path.stat().st_size if from_end and path.is_file() else 0
        self._unfinished = b""
        self.answered = False

    def rejections(self) -> int:
        """How many attempts were rejected since the last call."""
        try:
            if not self._path.is_file():  # does not exist yet, or is a pipe, which would block
                return 0
            with self._path.open("rb") as file:
                if self._path.stat().st_size < self._offset:
                    self._offset = 0  # the file was truncated
                file.seek(self._offset)
                new = file.read(_LONGEST_READ)
        except OSError:  # not readable, or removed
            return 0
        self._offset += len(new)
        text = self._unfinished + new
        whole = text.rfind(b"\n") + 1
        # An unfinished line is kept until the rest arrives; the start of a long one is enough.
        self._unfinished = text[whole:][:_LONGEST_START]
        self.answered |= _ANSWERED in text[:whole]
        kinds = Counter(match["kind"] for match in _REJECTED.finditer(text[:whole]))
        # One attempt may be logged twice, once as a failed stream and once with its number.
        return max(kinds.values(), default=0)


def _shared_log(env: Mapping[str, str], cwd: Path) -> Path:
    """The log of 1.0.x: one file for each working directory, which earlier sessions may have written to."""
    given = env.get("XDG_STATE_HOME")
    state = Path(given) if given else Path(env.get("HOME", "/")) / ".local" / "state"
    slug = re.sub(r"[^A-Za-z0-9]", "-", str(cwd))
    return state / "claude-cli-nodejs" / slug / "debug-logs" / "debug.txt"
