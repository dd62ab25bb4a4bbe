"""What the protocol asks of whoever moves the messages."""

from __future__ import annotations

from typing import Any, NamedTuple


class Send(NamedTuple):
    message: dict[str, Any]


class Decided(NamedTuple):
    """A tool call was allowed or denied; the answer itself is a `Send` of its own."""

    call_id: str | None
    tool: str
    allowed: bool
    reason: str


class Warn(NamedTuple):
    code: str
    text: str


class Over(NamedTuple):
    """Said once, and last: close down now. `reason` is for people."""

    ok: bool
    reason: str


Action = Send | Decided | Warn | Over
