"""Handle Ctrl-C, SIGTERM and SIGHUP while an event loop runs. The command always ends with exit code 130.

No handler raises an exception, because Python drops one that is raised in a finalizer or a callback (each import has
some), and turns one raised in a class body into another error.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from youbencha.cli import ending_signals, startup

Result = TypeVar("Result")


def run_async(work: Coroutine[Any, Any, Result], *, drain: Callable[[], object] | None = None) -> Result:
    """Run as `asyncio.run` does. A signal cancels the work, and then this raises KeyboardInterrupt.

    The first Ctrl-C calls `drain` instead, if it is given.
    """
    startup.loaded()
    return asyncio.run(_interruptible(work, drain))


async def _interruptible(work: Coroutine[Any, Any, Result], drain: Callable[[], object] | None) -> Result:
    task, received = asyncio.ensure_future(work), False

    def interrupt(number: int) -> None:
        nonlocal received, drain
        if number == signal.SIGINT and drain is not None:
            drain()
            drain = None
            return
        received = True
        task.cancel()

    with handled_by_loop(interrupt):
        try:
            return await task
        finally:
            if received:
                raise KeyboardInterrupt from None


@contextmanager
def handled_by_loop(act: Callable[[int], object]) -> Iterator[None]:
    """Call `act` in the running event loop at each signal, with its number."""
    loop, before = asyncio.get_running_loop(), {number: signal.getsignal(number) for number in ending_signals()}
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    for number in before:
        loop.add_signal_handler(number, act, number)
    try:
        yield
    finally:
        # Blocked: a signal between the two handlers would end the process by Python's default, or be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, before)
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
