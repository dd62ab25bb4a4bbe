"""What a trial needs of a gateway, which is in this process or in that of a driver; and the tokens for the latter."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from youbencha.gateway.access import GatewayAccess

if TYPE_CHECKING:
    from youbencha.gateway.cassette.matching import Places
    from youbencha.gateway.cassette.mismatch import Mismatch
    from youbencha.store.bundle import GatewayReport

KeyRole = Literal["agent", "evaluator"]
"""Decides the caps and the scope of a key, and which account pays for it."""

Finding = tuple[str, str]
"""The code and the message of a warning."""


class EndedKey(NamedTuple):
    """What a key was used for."""

    report: GatewayReport
    total_exceeded: bool
    """Whether its requests and the run's total budget are beyond a cap."""
    mismatches: tuple[Mismatch, ...] = ()
    """For each request that a replay had no answer to: how it differs from what was recorded at that point."""
    cassette_doubts: str | None = None
    """Why a replay of what was recorded may fail."""


class TrialKeys(Protocol):
    """The keys of one trial. Their caps, scope and ledger are decided where the gateway is."""

    stop: asyncio.Event
    """Set when the agent cannot continue: its requests are refused for good, or the gateway is gone."""

    async def issue(
        self, role: KeyRole, name: str, *, places: Places | None = None, peers: frozenset[str] | None = None
    ) -> GatewayAccess:
        """Issue a key. `name` is that of its user, in the ledger.

        An agent has one key at a time; its next one begins a new session. `places` are the directories whose
        names differ from trial to trial, `peers` the sockets that it is valid at, if the gateway is in this process.
        """
        ...

    async def end(self, key: str) -> EndedKey:
        """Revoke a key, and wait until its requests are in the ledger. May be called again.

        Raises YouBenchaError if the gateway has failed: nothing was measured then.
        """
        ...

    async def listen_on(self, socket: Path) -> None:
        """Let a sandbox reach the gateway at a Unix socket."""
        ...

    async def close(self) -> list[Finding]:
        """End what belongs to the trial, and return warnings."""
        ...


class LentKeys(TrialKeys, Protocol):
    """Keys of a trial that runs on another machine."""

    @property
    def agent_is_busy(self) -> bool:
        """Whether a request of the agent is in progress."""
        ...


_TOKEN_PREFIX = "sk-yb-ticket-"  # noqa: S105 - only its beginning, so that it is masked wherever it is written


class Tickets:
    """The valid tokens, each for the keys of one trial on another machine."""

    def __init__(self) -> None:
        self._valid: dict[str, LentKeys] = {}

    @contextmanager
    def lending(self, keys: LentKeys) -> Iterator[str]:
        """Give a token that is valid until the end of the block."""
        token = _TOKEN_PREFIX + secrets.token_hex(32)
        self._valid[token] = keys
        try:
            yield token
        finally:
            del self._valid[token]

    def find(self, token: str) -> LentKeys | None:
        presented = token.encode("utf-8", "surrogateescape")
        return next((keys for valid, keys in self._valid.items() if compare_digest(valid.encode(), presented)), None)
