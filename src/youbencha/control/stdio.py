"""The protocol over standard input and output: Claude Code of any version that has it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from youbencha.control.actions import Over
from youbencha.control.driver import Driver
from youbencha.control.farewell import END_SESSION, LEAVES_WITHIN_S
from youbencha.control.ndjson import encode
from youbencha.process import Input, Source


class StdioLine:
    """What a program writes goes to `line`; what it reads is `stdin`. When `stop` is set, it is to be ended."""

    flags: tuple[str, ...] = ()
    """What the CLI has to be told, beside that it is to speak stream-json both ways."""
    sources: Sequence[Source] = ()

    def __init__(self, driver: Driver, *, knows_end_session: bool = False) -> None:
        """`knows_end_session`: 2.1.72 and later. Closing its input alone does not end 2.1.325 if commands go on in the
        background."""
        self.stdin: Input | None = Input()
        self.stop = asyncio.Event()
        self._driver = driver
        self._knows_end_session = knows_end_session
        self._leaving: asyncio.TimerHandle | None = None
        driver.on_over = self._take_leave

    async def __aenter__(self) -> StdioLine:
        assert self.stdin is not None
        stdin = self.stdin
        self._driver.connected(lambda line: stdin.write(line.encode()))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._driver.closed()
        if self._leaving:
            self._leaving.cancel()
        if self.stdin:
            self.stdin.close()

    def line(self, line: bytes) -> None:
        self._driver.heard(line)

    def _take_leave(self, over: Over) -> None:
        assert self.stdin is not None
        if self._driver.interrupting.is_set() or self._driver.machine.result is None:
            self.stop.set()  # there is nothing to wait for
            return
        if self._knows_end_session:
            self.stdin.write(encode(END_SESSION).encode())
        self.stdin.close()
        self._leaving = asyncio.get_running_loop().call_later(LEAVES_WITHIN_S, self.stop.set)
