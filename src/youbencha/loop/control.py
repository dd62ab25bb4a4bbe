"""What a person can tell a running loop: pause, stop, guidance, try now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class LoopControl:
    """Shared by the loop and the screen (or the signal handler). All methods return at once."""

    def __init__(self) -> None:
        self.stop_now = asyncio.Event()
        """End the running iteration, and the loop."""
        self.changed = asyncio.Event()
        """Set by each method; the loop clears it when it waits."""
        self.paused = False
        self.waiting_skipped = False
        """Do not wait any longer: the next iteration starts now."""
        self._guidance: list[str] = []
        self.on_guidance: Callable[[str], None] = lambda _: None
        self.changes: Callable[[], Awaitable[str]] | None = None
        """The patch of what the loop has changed so far, if it takes checkpoints."""

    def stop(self) -> None:
        self.stop_now.set()
        self.changed.set()

    def pause(self) -> None:
        """Start no iteration after the running one, until `resume`."""
        self.paused = True
        self.changed.set()

    def resume(self) -> None:
        self.paused = False
        self.changed.set()

    def try_now(self) -> None:
        """End the wait for a usage limit, a backoff or a cooldown."""
        self.waiting_skipped = True
        self.changed.set()

    def guide(self, text: str) -> None:
        """Add guidance to the next prompt."""
        self._guidance.append(text)
        self.on_guidance(text)
        self.changed.set()

    async def diff(self) -> str:
        """What the loop has changed so far; empty if it is unknown."""
        return await self.changes() if self.changes else ""

    def take_guidance(self) -> tuple[str, ...]:
        taken, self._guidance = tuple(self._guidance), []
        return taken
