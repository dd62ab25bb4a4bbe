"""Dollars and tokens, side by side."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, NamedTuple

from youbencha.gateway.model import Caps

Kind = Literal["usd", "tokens"]


class Reached(NamedTuple):
    """A cap, and what is too much for it."""

    kind: Kind
    cap: Decimal | int
    amount: Decimal | int


class Worst(NamedTuple):
    """The most that one call may take."""

    usd: Decimal | None
    """None if nobody knows the price."""
    tokens: int

    def beyond(self, caps: Caps) -> Reached | None:
        """Which cap for a single call is too small, if any is. Nothing is small enough for a cap of 0."""
        if caps.usd is not None and self.usd is not None and (self.usd > caps.usd or not caps.usd):
            return Reached("usd", caps.usd, self.usd)
        if caps.tokens is not None and (self.tokens > caps.tokens or not caps.tokens):
            return Reached("tokens", caps.tokens, self.tokens)
        return None


class Spend(NamedTuple):
    """What one call took."""

    usd: Decimal | None
    """None if nobody knows."""
    tokens: int


NOTHING = Spend(Decimal(0), 0)


class Amount(NamedTuple):
    usd: Decimal = Decimal(0)
    tokens: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(self.usd + other.usd, self.tokens + other.tokens)

    def minus(self, other: Amount) -> Amount:
        return Amount(self.usd - other.usd, self.tokens - other.tokens)

    def reaches(self, caps: Caps) -> Reached | None:
        """Which cap is used up, if any is."""
        if caps.usd is not None and self.usd >= caps.usd:
            return Reached("usd", caps.usd, self.usd)
        if caps.tokens is not None and self.tokens >= caps.tokens:
            return Reached("tokens", caps.tokens, self.tokens)
        return None


def known(some: Worst | Spend) -> Amount:
    """What is said of it; no call ever gives anything back."""
    return Amount(max(some.usd or Decimal(0), Decimal(0)), max(some.tokens, 0))


def unsure_of(worst: Worst, spend: Spend, more: Spend) -> Amount:
    """What a call may have taken beyond what was seen. If nobody says, all the rest of its worst case."""
    stated = known(more)
    if stated.usd or (spend.usd is not None and more.usd is not None):
        return stated
    return stated._replace(usd=known(worst).minus(known(spend)).usd.max(0))
