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
    """As `asyncio.run`; and a polite end (SIGTERM, a service manager's) is one like Ctrl-C: what was begun is ended."""
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
    loop.add_signal_handler(signal.SIGTERM, on_terminate)
    try:
        return await task
    except asyncio.CancelledError:
        if terminated:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
