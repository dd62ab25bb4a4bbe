"""Watches a session live, and knows when going on makes no sense."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from youbencha.adapters.claude_code.session import Session
from youbencha.adapters.claude_code.signals import ModelCalled
from youbencha.adapters.cli_agent.watch import LiveWatch
from youbencha.events import Event, EventSink, RequestRetried
from youbencha.process import Redactor

_UNAUTHORIZED = 401


class Watch(LiveWatch):
    """Fed with each line of the CLI's output. `stop` is set when the key was rejected for good, or as told."""

    def __init__(
        self,
        on_event: EventSink | None,
        *,
        redactor: Redactor | None = None,
        session_id: str | None = None,
        key_may_recover: bool = False,
        stopping: asyncio.Event | None = None,
    ) -> None:
        """`key_may_recover`: the CLI can renew its login by itself, so that one rejection is not the end."""
        self.session = Session()
        super().__init__(self.session, on_event, redactor, stopping)
        self._given_id = session_id
        self._rejections_allowed = 1 if key_may_recover else 0
        self.key_rejected = False
        self.stop = asyncio.Event()

    @contextlib.asynccontextmanager
    async def following(self, stopping: asyncio.Event | None) -> AsyncIterator[None]:
        """Stop, too, when somebody else wants the agent to end."""
        if stopping is None:
            yield
            return
        following = asyncio.create_task(self._follow(stopping))
        try:
            yield
        finally:
            following.cancel()

    async def _follow(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.stop.set()

    @property
    def session_id(self) -> str | None:
        return self._given_id or self.session.session_id

    def on_event(self, event: Event) -> None:
        if isinstance(event, ModelCalled) and (so_far := self.session.usage_so_far()):
            self._tell(so_far)
        if isinstance(event, RequestRetried) and event.status == _UNAUTHORIZED:
            self.on_rejected_key()

    def on_rejected_key(self) -> None:
        """The API rejected the key. The CLI would try it ten times more, for three minutes."""
        if self._rejections_allowed:
            self._rejections_allowed -= 1
            return
        self.key_rejected = True
        self.stop.set()
