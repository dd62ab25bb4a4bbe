"""One container, from its creation to its certain removal."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.engine import Engine

_LOOK_AGAIN_S = 0.1
_SIZE_EVERY_S = 3.0
_STOPS_WITHIN = 100
"""Looks. What was killed may take a while to be gone, if it was large."""


class Container:
    """Known by a name that we choose: so it can be removed even if the engine's answer never arrived."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.name = name
        self._engine = engine
        self._made: asyncio.Task[None] | None = None
        self._removal: asyncio.Task[None] | None = None

    async def start(self, settings: dict[str, Any]) -> None:
        """In a task that nobody cancels: what the engine has begun, it finishes, and only then is it removed."""
        self._made = asyncio.create_task(self._make(settings))
        await asyncio.shield(self._made)

    async def is_running(self) -> bool:
        return bool((await self.state() or {}).get("Running"))

    async def state(self) -> dict[str, Any] | None:
        told = await self._engine.inspect(self.name)
        return told["State"] if told else None

    async def state_when_stopped(self) -> dict[str, Any] | None:
        for _ in range(_STOPS_WITHIN):
            state = await self.state()
            if not state or not state.get("Running"):
                return state
            await asyncio.sleep(_LOOK_AGAIN_S)
        return None

    async def until_larger_than(self, limit: int) -> None:
        """What was changed in the image's own files. Counting that is work for the engine, so it is asked seldom."""
        while True:
            await asyncio.sleep(_SIZE_EVERY_S)
            told = await self._engine.inspect(self.name, size=True)
            if int((told or {}).get("SizeRw") or 0) > limit:
                return

    def remove_soon(self) -> None:
        """Begin it, and do not wait. Once is enough."""
        if self._removal is None:
            self._removal = asyncio.create_task(self._remove())

    async def removed(self) -> None:
        """Waits until it is gone, also if this call itself is cancelled meanwhile."""
        self.remove_soon()
        assert self._removal is not None
        await asyncio.shield(self._removal)

    async def _make(self, settings: dict[str, Any]) -> None:
        await self._engine.create(self.name, settings)
        await self._engine.start(self.name)

    async def _remove(self) -> None:
        if self._made is not None:
            with contextlib.suppress(YouBenchaError):
                await self._made
        await self._engine.remove(self.name)
