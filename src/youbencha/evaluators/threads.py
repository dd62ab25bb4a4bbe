"""Long work beside the event loop, that ends when nobody wants its result any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
StillWanted = Callable[[], None]
"""To be called now and then by the work; raises when it is to end."""


class _Unwanted(Exception):
    pass


async def in_thread(work: Callable[[StillWanted], Result]) -> Result:
    """The result of `work`. If this call is cancelled, it returns when the work has ended: its files are then free."""
    unwanted = threading.Event()

    def still_wanted() -> None:
        if unwanted.is_set():
            raise _Unwanted

    working = asyncio.ensure_future(asyncio.to_thread(work, still_wanted))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        unwanted.set()
        await asyncio.wait({working})
        if not working.cancelled():
            working.exception()  # seen, so that nobody is told that it was not
        raise
