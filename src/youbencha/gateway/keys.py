"""Virtual keys: each is good for one trial, for as long as it lasts, and tells nothing of the real one."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from youbencha.gateway.budget import Account
from youbencha.gateway.held import Held
from youbencha.gateway.model import Call, Labels
from youbencha.gateway.refusals import Reason
from youbencha.gateway.tally import Tally

if TYPE_CHECKING:
    from youbencha.gateway.cassette import CassetteSession, Mismatch

PREFIX = "sk-yb-"
"""So that a person who finds one in a log knows whose it is, and that it opens nothing."""


@dataclass(kw_only=True, eq=False)
class Grant:
    """What one key may do, and what was done with it."""

    labels: Labels
    account: Account
    on_call: Callable[[Call], None] | None = None
    """Told of every call when it has ended."""
    peers: frozenset[str] | None = None
    """The addresses that it may come from, or the Unix sockets by which; None for any that can reach the gateway."""
    tally: Tally = field(default_factory=Tally)
    held: Held = field(default_factory=Held)
    cassette: CassetteSession | None = None
    mismatches: list[Mismatch] = field(default_factory=list)
    """Requests that a replay had no answer to: how each differs from its nearest recorded one."""
    not_recorded: str | None = None
    """Why an answer could not be kept on the cassette, if one could not."""
    busy: set[asyncio.Task[object]] = field(default_factory=set)
    """Handlers of requests that are under way: they end with the key."""


class KeyRing:
    """All keys that were ever given out here. An ended one is known by name, so that its use can be told."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}
        self._ended: dict[str, str] = {}

    def issue(self, grant: Grant) -> str:
        key = PREFIX + secrets.token_hex(24)
        self._grants[key] = grant
        return key

    def find(self, key: str | None, peer: str | None) -> Grant | None:
        grant = self._grants.get(key) if key else None
        if grant is None or (grant.peers is not None and peer not in grant.peers):
            return None
        return grant

    def why_not(self, key: str | None) -> tuple[str, Reason]:
        """Whose key it seems to be, and what is wrong with it, for the ledger."""
        if not key:
            return "(none)", "key_missing"
        if name := self._ended.get(key):
            return name, "key_expired"
        if grant := self._grants.get(key):
            return grant.labels.key, "key_foreign"
        return "(unknown)", "key_unknown"

    def end(self, key: str) -> Grant | None:
        """From now on it opens nothing; requests under way are cut off."""
        grant = self._grants.pop(key, None)
        if grant is None:
            return None
        self._ended[key] = grant.labels.key
        for task in tuple(grant.busy):
            task.cancel()
        return grant

    def end_all(self) -> None:
        for key in tuple(self._grants):
            self.end(key)


def presented_key(headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    """`headers` by lower-case names. Each API has its own way to show a key."""
    bearer = headers.get("authorization", "")
    if bearer[:7].lower() == "bearer ":
        bearer = bearer[7:].strip()
    return headers.get("x-api-key") or bearer or headers.get("x-goog-api-key") or query.get("key") or None
