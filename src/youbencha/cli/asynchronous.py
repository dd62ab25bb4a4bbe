"""From a command to what it awaits."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from youbencha.cli import startup

Result = TypeVar("Result")


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`; and SIGTERM and SIGHUP are like Ctrl-C: what was begun is ended."""
    startup.loaded()
    return asyncio.run(_interruptible(work))


async def _interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        return await work  # no signal can be handled here
    task = asyncio.ensure_future(work)
    terminated = False

    def on_terminate() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in startup.ending_signals()}
    for number in before:
        loop.add_signal_handler(number, on_terminate)
    try:
        return await task
    except asyncio.CancelledError:
        if terminated:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
