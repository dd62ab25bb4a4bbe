"""The prices that the configuration gives. They win over any list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from youbencha.gateway.prices.counts import MILLION, Counts

if TYPE_CHECKING:
    from youbencha.spec.gateway import ModelPrice


class OwnRate(NamedTuple):
    """Dollars for a million tokens."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_write: Decimal | None

    def cost(self, counts: Counts) -> Decimal | None:
        written = counts.cache_write + counts.cache_write_1h
        if (counts.cache_read and self.cache_read is None) or (written and self.cache_write is None):
            return None
        dear = counts.input * self.input + counts.output * self.output
        cached = counts.cache_read * (self.cache_read or 0) + written * (self.cache_write or 0)
        return (dear + cached) / MILLION

    def worst(self, size: int, output: int) -> Decimal:
        dearest = max(price for price in (self.input, self.cache_read, self.cache_write) if price is not None)
        return (size * dearest + output * self.output) / MILLION


class OwnPrices:
    """By name, in any case; `*` stands for any text. The exact name wins, then the longest pattern."""

    def __init__(self, written: Mapping[str, ModelPrice]) -> None:
        rates = {name.lower(): _rate(price) for name, price in written.items()}
        longest_first = sorted((name for name in rates if "*" in name), key=len, reverse=True)
        self._exact = rates
        self._patterns = [(_pattern(name), rates[name]) for name in longest_first]

    def __len__(self) -> int:
        return len(self._exact)

    def rate(self, names: Iterable[str]) -> OwnRate | None:
        """Of a model that goes by several names, the most particular first."""
        lowered = [name.lower() for name in names]
        exact = (self._exact[name] for name in lowered if name in self._exact)
        fitting = (rate for pattern, rate in self._patterns if any(map(pattern.fullmatch, lowered)))
        return next(exact, None) or next(fitting, None)


def _rate(price: ModelPrice) -> OwnRate:
    cached = (None if each is None else _dollars(each) for each in (price.cache_read, price.cache_write))
    return OwnRate(_dollars(price.input), _dollars(price.output), *cached)


def _dollars(written: float) -> Decimal:
    """0.1 is a tenth, as it was written, and not the nearest binary fraction."""
    return Decimal(repr(written))


def _pattern(name: str) -> re.Pattern[str]:
    """Each part is looked for once (an atomic group), so that no name can make a pattern of many stars slow."""
    first, *middle, last = map(re.escape, name.split("*"))
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}", re.DOTALL)
