"""Tokens by what they cost."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple, Protocol

from youbencha.log.tokens import Tokens

MILLION = 1_000_000


class Counts(NamedTuple):
    """Each token in one place only. What nobody knows is counted as none."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    """Kept for the usual few minutes."""
    cache_write_1h: int

    @property
    def all_input(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h


class Rate(Protocol):
    """What one model costs."""

    def cost(self, counts: Counts) -> Decimal | None:
        """None if a kind of token that was used has no price."""
        ...

    def worst(self, size: int, output: int) -> Decimal | None:
        """For `size` tokens of input, of whichever kind is dearest, and `output` ones of the answer."""
        ...


def counts_of(tokens: Tokens, cache_creation_1h: int) -> Counts | None:
    """None if nothing is known, or a count makes no sense."""
    known = [count for count in tokens if count is not None]
    if not known or min(known) < 0:
        return None
    created = tokens.cache_creation or 0
    for_an_hour = min(max(cache_creation_1h, 0), created)
    return Counts(tokens.input or 0, tokens.output or 0, tokens.cache_read or 0, created - for_an_hour, for_an_hour)
