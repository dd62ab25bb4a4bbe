"""Shared code of commands that serve until they are interrupted."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import queue
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

from youbencha.cli import startup
from youbencha.cli.interrupts import handled_by_loop
from youbencha.errors import YouBenchaError

_MOST_WAITING = 10_000
_LAST_WORDS_S = 2.0


class Address(NamedTuple):
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"


def address_given(written: str) -> Address:
    host, _, port = written.rpartition(":")
    if not host.strip("[]") or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise YouBenchaError("ADDRESS_INVALID", f"--listen {written}: not an address", hint="Write HOST:PORT.")
    return Address(host.strip("[]"), int(port))


def serve_until_stopped(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `work` until Ctrl-C, SIGTERM or SIGHUP: then its event is set, and it must end."""
    startup.loaded()
    with suppress(KeyboardInterrupt):  # Ctrl-C on Windows
        asyncio.run(_with_signals(work))


async def _with_signals(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stop = asyncio.Event()
    with handled_by_loop(lambda _: stop.set()):
        await work(stop)


class StderrWriter:
    """Writes lines to standard error in a thread, so that a slow or closed reader does not delay or end the server."""

    def __init__(self) -> None:
        # Each request waits until its line is in the queue, and a `Queue` takes many times as long.
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, daemon=True)

    def say(self, line: str) -> None:
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(line)

    def __enter__(self) -> Self:
        self._writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(None)
            self._writer.join(_LAST_WORDS_S)

    def _write(self) -> None:
        if sys.stderr is None:  # closed before the start
            return
        # A separate stream: Python's has a lock, which a write that hangs would hold until the end.
        with suppress(OSError, ValueError):
            descriptor = os.dup(sys.stderr.fileno())
            with os.fdopen(descriptor, "w", encoding=sys.stderr.encoding, errors="replace") as stream:
                while (line := self._waiting.get()) is not None:
                    with suppress(OSError):
                        print(line, file=stream, flush=True)
