"""From a command to what it awaits."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from youbencha.cli import startup

Result = TypeVar("Result")


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`; and SIGTERM and SIGHUP are like Ctrl-C: what was begun is ended."""
    startup.loaded()
    return asyncio.run(_interruptible(work))


async def _interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    if sys.platform == "win32":
        return await work
    task = asyncio.ensure_future(work)
    terminated = False

    def on_terminate() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    loop = asyncio.get_running_loop()
    numbers = startup.ending_signals()
    for number in numbers:
        loop.add_signal_handler(number, on_terminate)
    try:
        return await task
    except asyncio.CancelledError:
        if terminated:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.default_int_handler)
