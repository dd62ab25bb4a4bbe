"""End a command on Ctrl-C, SIGTERM or SIGHUP: exit code 130, at any time, and nothing is left running.

No handler raises an exception, because Python drops one that is raised in a finalizer or a callback (each import has
some), and turns one raised in a class body into another error.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from types import FrameType
    from typing import Any, TypeVar

    Result = TypeVar("Result")

INTERRUPTED = 130


def end_on_signals() -> None:
    """End this process at once on a signal: so long as no event loop runs, there is nothing to clean up."""
    for number in _ending_signals():
        signal.signal(number, _end)


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run as `asyncio.run` does. A signal cancels the work, and then this raises KeyboardInterrupt."""
    import asyncio

    from youbencha.cli import startup

    startup.loaded()
    return asyncio.run(_interruptible(work))


async def _interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    import asyncio

    task, received = asyncio.ensure_future(work), False

    def interrupt() -> None:
        nonlocal received
        received = True
        task.cancel()

    with handled_by_loop(interrupt):
        try:
            return await task
        finally:
            if received:
                raise KeyboardInterrupt from None


@contextmanager
def handled_by_loop(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` in the running event loop at each signal."""
    import asyncio
    import threading

    numbers = _ending_signals() if threading.current_thread() is threading.main_thread() else []
    if sys.platform == "win32" or not numbers:
        yield
        return
    loop, before = asyncio.get_running_loop(), {number: signal.getsignal(number) for number in numbers}
    for number in before:
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        # Blocked: a signal between the two handlers would end the process by Python's default, or be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, before)
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, before)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _ending_signals() -> list[signal.Signals]:
    """Ctrl-C, and the signals from a service manager or when a terminal is closed. Ignored ones (nohup) stay ignored.

    None on Windows, where the event loop cannot handle signals; there, Ctrl-C raises KeyboardInterrupt.
    """
    if sys.platform == "win32":
        return []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
