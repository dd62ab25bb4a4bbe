"""Run the state machine in an event loop: its clock, its messages, and the transport over stdio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from youbencha.control.machine import Action, Decided, Machine, Send, SessionEnded, State, Warn
from youbencha.control.messages import END_SESSION, EXIT_TIMEOUT_S
from youbencha.events import Event, EventSink, ToolDecided, WarningRaised
from youbencha.json_lines import Record, decode, encode
from youbencha.process import Input, OutputSource


class Driver:
    """One session in a running event loop, whose clock the machine uses."""

    def __init__(
        self,
        machine: Machine,
        *,
        on_event: EventSink | None = None,
        on_record: Callable[[Record], None] | None = None,
    ) -> None:
        """`on_event` gets decisions and warnings, `on_record` every message of the agent."""
        self.machine = machine
        self.ended = asyncio.Event()
        self.over: SessionEnded | None = None
        """Set together with `ended`."""
        self.interrupting = asyncio.Event()
        """Once set, a result is the answer to our interrupt."""
        self.on_over: Callable[[SessionEnded], None] | None = None
        """Called at the end of the session, to close the transport."""
        self._on_event = on_event
        self._on_record = on_record
        self._send: Callable[[str], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._set_timer()

    def connected(self, send: Callable[[str], None]) -> None:
        """The agent has connected. `send` takes a line and never blocks."""
        self._send = send
        self._perform(self.machine.connected(self._loop.time()))

    def received(self, line: bytes | str) -> None:
        if not line.strip():
            return
        message = decode(line)
        if message is None:
            text = line if isinstance(line, str) else line.decode("utf-8", "replace")
            self._perform(self.machine.malformed(text, self._loop.time()))
            return
        if self._on_record:
            self._on_record(message)
        self._perform(self.machine.received(message, self._loop.time()))

    def interrupt(self, reason: str) -> None:
        """Ask the agent to stop and to report its usage. The session ends soon after in any case."""
        if self.over is None:
            actions = self.machine.interrupt(reason, self._loop.time())
            if self.machine.state is not State.DONE:
                self.interrupting.set()
            self._perform(actions)

    def disconnected(self) -> None:
        """The agent has disconnected."""
        self._perform(self.machine.disconnected(self._loop.time()))
        self.close()

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _tick(self) -> None:
        self._perform(self.machine.tick(self._loop.time()))

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(message) if self._send:
                    self._send(encode(message))
                case Decided(call_id, tool, allowed, reason):
                    self._emit(ToolDecided(call_id=call_id, name=tool, allowed=allowed, reason=reason))
                case Warn(code, words):
                    self._emit(WarningRaised(code=code, message=words))
                case SessionEnded():
                    self._end(action)
        self._set_timer()

    def _emit(self, event: Event) -> None:
        if self._on_event:
            self._on_event(event)

    def _end(self, over: SessionEnded) -> None:
        self.over = over
        self.ended.set()
        if self.on_over:
            self.on_over(over)

    def _set_timer(self) -> None:
        self.close()
        if (deadline := self.machine.deadline) is not None:
            self._timer = self._loop.call_at(deadline, self._tick)


class StdioTransport:
    """The protocol over standard input and output, which every version with the protocol supports.

    `line` gets the program's output, and `stdin` is its input. When `stop` is set, the program has to be ended.
    """

    flags: tuple[str, ...] = ()
    """Flags for the CLI, in addition to those for stream-json in both directions."""
    sources: Sequence[OutputSource] = ()

    def __init__(self, driver: Driver, *, knows_end_session: bool = False) -> None:
        """`knows_end_session`: true for 2.1.72 and later. Closing its input does not end 2.1.325 while commands run
        in the background."""
        self.stdin: Input | None = Input()
        self.stop = asyncio.Event()
        self._driver = driver
        self._knows_end_session = knows_end_session
        self._leaving: asyncio.TimerHandle | None = None
        driver.on_over = self._leave

    async def __aenter__(self) -> StdioTransport:
        assert self.stdin is not None
        stdin = self.stdin
        self._driver.connected(lambda line: stdin.write(line.encode()))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._driver.disconnected()
        if self._leaving:
            self._leaving.cancel()
        if self.stdin:
            self.stdin.close()

    def line(self, line: bytes) -> None:
        self._driver.received(line)

    def _leave(self, over: SessionEnded) -> None:
        assert self.stdin is not None
        if self._driver.interrupting.is_set() or self._driver.machine.result is None:
            self.stop.set()  # there is nothing to wait for
            return
        if self._knows_end_session:
            self.stdin.write(encode(END_SESSION).encode())
        self.stdin.close()
        self._leaving = asyncio.get_running_loop().call_later(EXIT_TIMEOUT_S, self.stop.set)
