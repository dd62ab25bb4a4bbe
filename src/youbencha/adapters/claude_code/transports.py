"""Run the control protocol in an event loop: its clock, its messages, and the two transports."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from youbencha.adapters.claude_code.control import (
    END_SESSION,
    EXIT_TIMEOUT_S,
    PROTOCOL_ERROR,
    Action,
    ControlProtocol,
    Decided,
    Send,
    SessionEnded,
    State,
    Warn,
)
from youbencha.errors import YouBenchaError
from youbencha.events import Event, EventSink, ToolDecided, WarningRaised
from youbencha.json_lines import Record, decode, encode
from youbencha.process import Input, OutputSource, Stream
from youbencha.sandbox.base import ForwardedPort

if TYPE_CHECKING:
    from aiohttp import web


class Driver:
    """One session in a running event loop, whose clock the protocol uses."""

    def __init__(
        self,
        protocol: ControlProtocol,
        *,
        on_event: EventSink | None = None,
        on_record: Callable[[Record], None] | None = None,
    ) -> None:
        """`on_event` gets decisions and warnings, `on_record` every message of the agent."""
        self.protocol = protocol
        self.ended: SessionEnded | None = None
        self.finished = asyncio.Event()
        """Set together with `ended`."""
        self.interrupting = asyncio.Event()
        """Once set, a result is the answer to our interrupt."""
        self.on_end: Callable[[SessionEnded], None] | None = None
        """Called at the end of the session, to close the transport."""
        self._on_event = on_event
        self._on_record = on_record
        self._send: Callable[[str], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._set_timer()

    def connected(self, send: Callable[[str], None]) -> None:
        """Note that the agent has connected. `send` takes a line and never blocks."""
        self._send = send
        self._perform(self.protocol.connected(self._loop.time()))

    def received(self, line: bytes | str) -> None:
        if not line.strip():
            return
        message = decode(line)
        if message is None:
            text = line if isinstance(line, str) else line.decode("utf-8", "replace")
            self._perform(self.protocol.malformed(text, self._loop.time()))
            return
        if self._on_record:
            self._on_record(message)
        self._perform(self.protocol.received(message, self._loop.time()))

    def interrupt(self, reason: str) -> None:
        """Ask the agent to stop and to report its usage. The session ends soon after in any case."""
        if self.ended is None:
            actions = self.protocol.interrupt(reason, self._loop.time())
            if self.protocol.state is not State.DONE:
                self.interrupting.set()
            self._perform(actions)

    def disconnected(self) -> None:
        """Note that the agent has disconnected."""
        self._perform(self.protocol.disconnected(self._loop.time()))
        self.close()

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _tick(self) -> None:
        self._perform(self.protocol.tick(self._loop.time()))

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(message) if self._send:
                    self._send(encode(message))
                case Decided(call_id, tool, allowed, reason):
                    self._emit(ToolDecided(call_id=call_id, name=tool, allowed=allowed, reason=reason))
                case Warn(code, message):
                    self._emit(WarningRaised(code=code, message=message))
                case SessionEnded():
                    self._end(action)
        self._set_timer()

    def _emit(self, event: Event) -> None:
        if self._on_event:
            self._on_event(event)

    def _end(self, ended: SessionEnded) -> None:
        self.ended = ended
        self.finished.set()
        if self.on_end:
            self.on_end(ended)

    def _set_timer(self) -> None:
        self.close()
        if (deadline := self.protocol.deadline) is not None:
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
        driver.on_end = self._leave

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

    def _leave(self, ended: SessionEnded) -> None:
        assert self.stdin is not None
        if self._driver.interrupting.is_set() or self._driver.protocol.result is None:
            self.stop.set()  # there is nothing to wait for
            return
        if self._knows_end_session:
            self.stdin.write(encode(END_SESSION).encode())
        self.stdin.close()
        self._leaving = asyncio.get_running_loop().call_later(EXIT_TIMEOUT_S, self.stop.set)


MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Lines of 15 MB were seen from Claude Code; aiohttp's default is 4 MB."""

_RECONNECT_TIMEOUT_S = 10.0
"""A CLI whose connection breaks reconnects within a second or two."""

_CLOSE_TIMEOUT_S = 1.0


class MessageSource:
    """The messages from the WebSocket as a source of output, so that they are captured like any other."""

    stream = Stream.OUT
    skipped_bytes = 0

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def add(self, line: str) -> None:
        self._waiting.append(line.strip().encode("utf-8", "replace") + b"\n")

    def read(self) -> bytes:
        waiting, self._waiting = self._waiting, []
        return b"".join(waiting)

    def skip_to_end(self) -> None:
        """Do nothing: everything is in memory."""

    def close(self) -> None:
        """Do nothing."""


class WebSocketTransport:
    """For a program that connects to the harness. When `stop` is set, the program has to be ended."""

    stdin: Input | None = None

    def __init__(
        self, driver: Driver, *, forwarded: ForwardedPort | None = None, leaves_by_itself: bool = False
    ) -> None:
        """`forwarded`: how a program in a sandbox reaches the server; None for loopback.

        `leaves_by_itself`: true for 2.1.50 and later, which exit when asked to; the others reconnect forever."""
        self.stop = asyncio.Event()
        self.flags: tuple[str, ...] = ()
        self.sources: Sequence[OutputSource] = (messages := MessageSource(),)
        self._messages = messages
        self._driver = driver
        self._forwarded = forwarded
        self._leaves_by_itself = leaves_by_itself
        self._server = ControlServer(self, token=secrets.token_urlsafe(24))
        self._leaving: asyncio.Task[None] | None = None
        driver.on_end = self._on_end

    async def __aenter__(self) -> WebSocketTransport:
        if self._forwarded is not None:
            await self._server.listen_on_socket(self._forwarded.socket)
            address = self._forwarded.address
        else:
            address = f"127.0.0.1:{await self._server.listen_on_port()}"
        self.flags = ("--sdk-url", f"ws://{address}{self._server.path}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._driver.disconnected()
        if self._leaving:
            self._leaving.cancel()
        await self._server.close()

    def line(self, line: bytes) -> None:
        """Ignore standard output: these versions print nothing there."""

    def connected(self, send: Callable[[str], None]) -> None:
        self._driver.connected(send)

    def received(self, line: str) -> None:
        """Pass on the original line: the driver's answers contain its input, which must not be masked."""
        self._messages.add(line)
        self._driver.received(line)

    def disconnected(self) -> None:
        self._driver.disconnected()

    def _on_end(self, ended: SessionEnded) -> None:
        self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        waits = self._leaves_by_itself and self._driver.protocol.result is not None
        if waits and not self._driver.interrupting.is_set():
            await self._server.hang_up(encode(END_SESSION))
            await asyncio.sleep(EXIT_TIMEOUT_S)
        self.stop.set()


class Listener(Protocol):
    """Receives the agent's messages."""

    def connected(self, send: Callable[[str], None]) -> None:
        """Note that the agent has connected for the first time. `send` never blocks."""
        ...

    def received(self, line: str) -> None: ...

    def disconnected(self) -> None:
        """Note that the connection broke, and the agent did not reconnect."""
        ...


class ControlServer:
    """A WebSocket server for one agent: on loopback, or on a Unix socket that a sandbox forwards to."""

    def __init__(self, listener: Listener, *, token: str = "") -> None:
        """With a token, only a client with the token in the path of its URL is accepted."""
        self._listener = listener
        self._token = token
        self._outbox: deque[str] = deque()
        self._news = asyncio.Event()
        self._connection: web.WebSocketResponse | None = None
        self._sending: asyncio.Task[None] | None = None
        self._was_connected = False
        self._closing = False
        self._reconnect_timer: asyncio.TimerHandle | None = None
        self._runner: web.AppRunner | None = None

    @property
    def path(self) -> str:
        return f"/{self._token}"

    async def listen_on_port(self, port: int = 0) -> int:
        """Listen on a port of the loopback interface; 0 for any free port. Return the port."""
        from aiohttp import web

        runner = await self._set_up()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await self._start(site, f"port {port}")
        return int(runner.addresses[0][1])

    async def listen_on_socket(self, path: Path) -> None:
        from aiohttp import web

        await self._start(web.UnixSite(await self._set_up(), path), str(path))

    async def hang_up(self, last_message: str = "") -> None:
        """Close the connection, and accept no other client."""
        self._closing = True
        if self._reconnect_timer:
            self._reconnect_timer.cancel()
        if self._connection is None:
            return
        if self._sending:  # the rest of the outbox is sent below
            self._sending.cancel()
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                while self._outbox:
                    await self._connection.send_str(self._outbox.popleft())
                if last_message:
                    await self._connection.send_str(last_message)
                await self._connection.close(code=PROTOCOL_ERROR)

    async def close(self) -> None:
        await self.hang_up()
        if self._runner:
            await self._runner.cleanup()

    async def _set_up(self) -> web.AppRunner:
        from aiohttp import web

        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_CLOSE_TIMEOUT_S)
        await self._runner.setup()
        return self._runner

    async def _start(self, site: web.BaseSite, where: str) -> None:
        try:
            await site.start()
        except OSError as error:
            raise YouBenchaError(
                "CONTROL_CANNOT_LISTEN",
                f"The control server cannot listen on {where}: {error.strerror or error}",
                hint="Choose another port, or stop the program that uses it.",
            ) from error

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        if "Origin" in request.headers:  # browsers send it; a CLI does not
            raise web.HTTPForbidden(text="not for browsers")
        if self._token and not hmac.compare_digest(request.path.encode(), self.path.encode()):
            raise web.HTTPForbidden(text="wrong token")
        if self._closing:
            raise web.HTTPGone(text="the session is over")
        if self._connection is not None:
            raise web.HTTPConflict(text="an agent is connected already")
        connection = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES, compress=False)
        self._connection = connection  # before the first await, so that only one of two concurrent clients is accepted
        try:
            await connection.prepare(request)
            await self._exchange(connection)
        finally:
            self._connection = None
            self._expect_back()
        return connection

    async def _exchange(self, connection: web.WebSocketResponse) -> None:
        from aiohttp import WSMsgType

        if self._reconnect_timer:
            self._reconnect_timer.cancel()
        self._sending = asyncio.create_task(self._send_all(connection))
        frames = Frames()
        try:
            if not self._was_connected:
                self._was_connected = True
                self._listener.connected(self._send)
            async for message in connection:
                if message.type is WSMsgType.TEXT:
                    self._deliver(frames.feed(message.data))
                elif message.type is WSMsgType.BINARY:
                    self._deliver(frames.feed(message.data.decode("utf-8", "replace")))
            self._deliver(frames.finish())
        finally:
            self._sending.cancel()

    def _deliver(self, lines: list[str]) -> None:
        for line in lines:
            self._listener.received(line)

    def _send(self, line: str) -> None:
        self._outbox.append(line)
        self._news.set()

    async def _send_all(self, connection: web.WebSocketResponse) -> None:
        """Send the outbox. What could not be sent stays in it for the CLI's next connection."""
        with contextlib.suppress(ConnectionError):
            while True:
                while self._outbox:
                    await connection.send_str(self._outbox[0])
                    self._outbox.popleft()
                self._news.clear()
                await self._news.wait()

    def _expect_back(self) -> None:
        if self._was_connected and not self._closing:
            loop = asyncio.get_running_loop()
            self._reconnect_timer = loop.call_later(_RECONNECT_TIMEOUT_S, self._listener.disconnected)


class Frames:
    """Splits frames into lines. A frame has one message or several; its last line may have no line end, and continue
    in the next frame. What is valid JSON is a message; anything else waits for the next frame."""

    def __init__(self) -> None:
        self._partial = ""

    def feed(self, frame: str) -> list[str]:
        *lines, rest = frame.split("\n")
        complete = [part for line in lines for part in self._complete(line)]
        return [*complete, *self._last_line(rest)]

    def finish(self) -> list[str]:
        """Return what is left at the end of the connection."""
        partial, self._partial = self._partial, ""
        return [partial] if partial else []

    def _complete(self, line: str) -> list[str]:
        """Join a line with its beginning in the previous frame, unless that was a message of its own."""
        partial, self._partial = self._partial, ""
        if partial and decode(partial + line) is None and decode(line) is not None:
            return [partial, line]
        return [partial + line] if (partial + line).strip() else []

    def _last_line(self, rest: str) -> list[str]:
        whole = self._partial + rest
        if decode(whole) is not None or _is_message(rest) or len(whole) > MAX_MESSAGE_BYTES:
            return self._complete(rest)
        self._partial = whole if whole.strip() else ""
        return []


def _is_message(text: str) -> bool:
    """Return whether the text is an object with a type: any other object may be a part of a message."""
    return "type" in (decode(text) or {})
