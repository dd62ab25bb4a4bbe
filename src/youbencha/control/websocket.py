"""The protocol over a WebSocket: Claude Code 1.0.124 to 2.1.120, which connect to what `--sdk-url` names."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.control.actions import Over
from youbencha.control.driver import Driver
from youbencha.control.farewell import END_SESSION, LEAVES_WITHIN_S
from youbencha.control.ndjson import encode
from youbencha.control.server import ControlServer
from youbencha.process import Input, Source, Stream


class Place(NamedTuple):
    """Where the server listens, and by which name the agent finds it."""

    socket: Path
    address: str


class Messages:
    """What came by the WebSocket, as a `process.Source`: it then is in the captured output like any other."""

    stream = Stream.OUT
    skipped_bytes = 0

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def add(self, line: str) -> None:
        self._waiting.append(line.strip().encode("utf-8", "replace") + b"\n")

    def read(self) -> bytes:
        waiting, self._waiting = self._waiting, []
        return b"".join(waiting)

    def hurry(self) -> None:
        """All of it is in memory: nothing to skip."""

    def close(self) -> None:
        """Nothing to close."""


class WebSocketLine:
    """Beside a program that connects to us. When `stop` is set, it is to be ended."""

    stdin: Input | None = None

    def __init__(self, driver: Driver, *, place: Place | None = None, leaves_by_itself: bool = False) -> None:
        """`leaves_by_itself`: 2.1.50 and later exit when told to; the others would connect again, for ever."""
        self.stop = asyncio.Event()
        self.flags: tuple[str, ...] = ()
        self.sources: Sequence[Source] = (messages := Messages(),)
        self._messages = messages
        self._driver = driver
        self._place = place
        self._leaves_by_itself = leaves_by_itself
        self._server = ControlServer(self, token=secrets.token_urlsafe(24))
        self._leaving: asyncio.Task[None] | None = None
        driver.on_over = self._take_leave

    async def __aenter__(self) -> WebSocketLine:
        if self._place is not None:
            await self._server.listen_on_socket(self._place.socket)
            address = self._place.address
        else:
            address = f"127.0.0.1:{await self._server.listen_on_port()}"
        self.flags = ("--sdk-url", f"ws://{address}{self._server.path}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._driver.closed()
        if self._leaving:
            self._leaving.cancel()
        await self._server.close()

    def line(self, line: bytes) -> None:
        """Standard output: these versions say nothing there."""

    def opened(self, send: Callable[[str], None]) -> None:
        self._driver.connected(send)

    def heard(self, line: str) -> None:
        self._messages.add(line)
        self._driver.heard(line)

    def gone(self) -> None:
        self._driver.closed()

    def _take_leave(self, over: Over) -> None:
        self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        waits = self._leaves_by_itself and self._driver.machine.result is not None
        if waits and not self._driver.interrupting.is_set():
            await self._server.hang_up(encode(END_SESSION))
            await asyncio.sleep(LEAVES_WITHIN_S)
        self.stop.set()
