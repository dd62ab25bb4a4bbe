"""What goes into a cassette and comes out of it, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from youbencha.gateway.routes import WireName


class Asking(NamedTuple):
    """A request, as far as an answer may depend on it."""

    method: str
    path: str
    """As the API itself has it, without a query."""
    wire: WireName | None
    headers: Mapping[str, str]
    """By lower-case names."""
    body: object
    """Parsed JSON; None if there was none, or if it was none."""
    raw: bytes = b""
    """Only looked at where it is no JSON."""


class Replay(NamedTuple):
    """A recorded answer, made to fit the run that asks now."""

    status: int
    headers: Mapping[str, str]
    chunks: Sequence[tuple[float, bytes]]
    """How many milliseconds to wait after the chunk before, and what to send then."""


class Mismatch(NamedTuple):
    """Why nothing that was recorded answers a request."""

    summary: str
    """In one line."""
    text: str
    """The summary, and a diff to the nearest request that was recorded."""
