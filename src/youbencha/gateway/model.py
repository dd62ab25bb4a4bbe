"""The gateway's own records, as plain data: a call, what a key may do, and what it did."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from youbencha.gateway.routes import WireName
from youbencha.log.tokens import Tokens


class Caps(NamedTuple):
    """How much may be spent. None: no limit."""

    usd: Decimal | None = None
    tokens: int | None = None
    """All four kinds together."""


class Labels(NamedTuple):
    """Whose calls these are, as the ledger names it. `key` is the virtual key's name, never the key."""

    key: str
    agent: str | None = None
    run: str | None = None


class Places(NamedTuple):
    """Directories whose names differ from run to run: a cassette writes a name of ours for each."""

    named: tuple[tuple[str, Path], ...] = ()
    """For example ("workspace", …/src-modified), ("home", …). The longest path is replaced first."""


class Call(NamedTuple):
    """One request, from its arrival to its end: a line of the ledger."""

    id: str
    at: float
    """When it came, in seconds since the epoch."""
    labels: Labels
    method: str
    path: str
    wire: WireName | None
    requested_model: str | None
    model: str | None
    """As the answer names it, else as the request does."""
    status: int | None
    """What the client got; None if it was gone before anything could be said."""
    tokens: Tokens
    cost_usd: Decimal | None
    """None where no price is known, or no token."""
    partial: bool
    """The counts are a lower bound: somebody was gone before the end."""
    stream: bool = False
    error: str | None = None
    """Why it went wrong, in one word: `budget_exceeded`, `client_gone`, `upstream_gone`, `rate_limited` …"""
    upstream_status: int | None = None
    """None if the gateway answered by itself."""
    retry_after_s: float | None = None
    duration_ms: float = 0.0
    first_byte_ms: float | None = None
    replayed: bool = False
    billed: bool = True
    """Asks a model for an answer: counting tokens and listing models costs nothing."""


class Asked(NamedTuple):
    """What a request's body says that matters here."""

    model: str | None
    stream: bool
    max_output: int | None
    """The most tokens that the answer may have; None if the client set no limit."""
    size: int
    """Of the body, in bytes: no token is less than a byte."""


NO_CAPS = Caps()
NO_PLACES = Places()
