"""Watches a session live: turns lines into events, and knows when going on makes no sense."""

from __future__ import annotations

import asyncio

from youbencha.adapters.claude_code.session import Session
from youbencha.events import Event, EventSink, RequestRetried

_UNAUTHORIZED = 401


class Watch:
    """Fed with each line of the CLI's output. `stop` is set when the key was rejected for good."""

    def __init__(
        self, on_event: EventSink | None, *, session_id: str | None = None, key_may_recover: bool = False
    ) -> None:
        """`key_may_recover`: the CLI can renew its login by itself, so that one rejection is not the end."""
        self._on_event = on_event
        self._rejections_allowed = 1 if key_may_recover else 0
        self._given_id = session_id
        self.session = Session()
        self.stop = asyncio.Event()

    @property
    def session_id(self) -> str | None:
        return self._given_id or self.session.session_id

    def line(self, line: bytes) -> None:
        for event in self.session.feed(line):
            self.tell(event)
            if _is_rejected_key(event):
                self.on_rejected_key()

    def on_rejected_key(self) -> None:
        """The API rejected the key. The CLI would try it ten times more, for three minutes."""
        if self._rejections_allowed:
            self._rejections_allowed -= 1
            return
        self.stop.set()

    def tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)


def _is_rejected_key(event: Event) -> bool:
    return isinstance(event, RequestRetried) and event.status == _UNAUTHORIZED
