"""Compute what a call costs, and its maximum, from the configuration's prices or the public list."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from youbencha.gateway.api import PROVIDER_OF_PREFIX, Provider
from youbencha.gateway.bounds import RequestSize, worst_output
from youbencha.gateway.price_list import ListedPrices, PriceList, Tier, installed_version
from youbencha.usage import Tokens

if TYPE_CHECKING:
    from youbencha.spec.gateway import ModelPrice

_MILLION = 1_000_000
_MOST_PER_SEARCH = Decimal("0.035")
"""The highest fee of a listed model."""
_WAYS = ("input_", "output_")
Extras = Mapping[str, int]
NONE: Extras = MappingProxyType({})
_PREFIXES: Mapping[str, Provider] = {**PROVIDER_OF_PREFIX, "models": "gemini"}
"""Prefixes of model names in LiteLLM and at Google. Other hosts (`bedrock/…`) have different prices."""


class Prices:
    """The configuration's prices, then the public list's. A price in neither is unknown."""

    def __init__(
        self,
        overrides: Mapping[str, ModelPrice] = MappingProxyType({}),
        *,
        price_list: PriceList | None = None,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        """`overrides` are the configuration's prices by model. Listed prices are those of `today` (UTC)."""
        self._own = _OwnPrices(overrides)
        self._list = price_list or PriceList()
        self._today = today

    async def load(self) -> None:
        """Load the price list in a thread, if necessary. Otherwise, the first price blocks the event loop."""
        if not self._list.is_loaded:
            await asyncio.to_thread(self._list.load)

    @property
    def source(self) -> str:
        """The source of the prices, for a report."""
        own = f", {len(self._own)} of the configuration" if len(self._own) else ""
        return f"genai-prices {installed_version()}{own}"

    def cost_of(
        self,
        provider: Provider,
        model: str | None,
        tokens: Tokens,
        *,
        cache_creation_1h: int = 0,
        extras: Extras = NONE,
    ) -> Decimal | None:
        """Return the cost in dollars of what is known. None if no token or no price is known.

        `cache_creation_1h` is the number of `tokens.cache_creation` that are kept for an hour. `extras` are as in
        `Metered`; the tokens among them are also in `tokens`.
        """
        counts = _counts(tokens, cache_creation_1h)
        rate = self._rate(provider, model) if counts else None
        return rate.cost(counts, extras) if rate and counts else None

    def window_of(self, provider: Provider, model: str) -> int | None:
        """Return the size of the model's context window, in tokens. None if it is unknown."""
        return self._list.window(*_without_prefix(provider, model))

    def worst_case(self, provider: Provider, model: str | None, asked: RequestSize) -> Decimal | None:
        """Return the maximum cost: all tokens of the most expensive kind, the longest answer, and every search."""
        rate = self._rate(provider, model)
        return rate.worst(asked) if rate else None

    def _rate(self, provider: Provider, model: str | None) -> _Rate | None:
        if not model:
            return None
        owner, name = _without_prefix(provider, model)
        if own := self._own.rate((model, name)):
            return own
        listed = self._list.prices(owner, name, self._today())
        return _ListedRate(listed) if listed else None


def _without_prefix(provider: Provider, model: str) -> tuple[Provider, str]:
    before, slash, name = model.partition("/")
    owner = _PREFIXES.get(before.lower()) if slash else None
    return (owner, name) if owner else (provider, model)


class _Counts(NamedTuple):
    """Tokens by what they cost, each counted once. Unknown counts are 0."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    """Kept for a few minutes, the default."""
    cache_write_1h: int

    @property
    def all_input(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h


def _counts(tokens: Tokens, cache_creation_1h: int) -> _Counts | None:
    """Convert counts; None if none is known, or one is negative."""
    known = [count for count in tokens if count is not None]
    if not known or min(known) < 0:
        return None
    created = tokens.cache_creation or 0
    for_an_hour = min(max(cache_creation_1h, 0), created)
    return _Counts(tokens.input or 0, tokens.output or 0, tokens.cache_read or 0, created - for_an_hour, for_an_hour)


class _Rate(Protocol):
    """The prices of one model."""

    def cost(self, counts: _Counts, extras: Extras) -> Decimal | None:
        """Return the cost; None if something that was used has no price."""
        ...

    def worst(self, asked: RequestSize) -> Decimal | None: ...


class _ListedRate(NamedTuple):
    """Calculates as genai-prices does, without its checks, which take a quarter of a millisecond per call."""

    prices: ListedPrices

    def cost(self, counts: _Counts, extras: Extras) -> Decimal | None:
        """A kind of token without a separate price costs the same as plain input or output, as in genai-prices."""
        size, prices = counts.all_input, self.prices
        for_input = _price_at(prices.input, size)
        for_output = _price_at(prices.output, size)
        if (size and for_input is None) or (counts.output and for_output is None):
            return None
        for_read = _price_at(prices.cache_read, size, for_input)
        for_write = _price_at(prices.cache_write, size, for_input)
        for_hour = _price_at(prices.cache_write_1h, size, for_write)
        each = zip(counts, (for_input, for_output, for_read, for_write, for_hour), strict=True)
        cost = sum((count * price for count, price in each if price is not None), Decimal(0)) / _MILLION
        for name, count in extras.items():
            price = prices.extras.get(name)
            if name.endswith("_searches"):
                if price is None:
                    return None
                cost += count * price / 1000
            elif price is not None:  # the tokens are in the sum already, as plain ones
                cost += count * (price - ((for_input if name.startswith("input") else for_output) or 0)) / _MILLION
        return cost

    def worst(self, asked: RequestSize) -> Decimal | None:
        prices, size = self.prices, asked.size
        if not prices.input or not prices.output:
            return None
        others = prices.extras.items()
        read, written = ([Tier(-1, usd) for name, usd in others if name.startswith(way)] for way in _WAYS)
        for_input = size * _most((*prices.input, *prices.cache_write, *prices.cache_write_1h, *read), size)
        for_output = worst_output(asked) * _most((*prices.output, *written), size)
        return (for_input + for_output) / _MILLION + asked.rounds * _MOST_PER_SEARCH


def _price_at(tiers: tuple[Tier, ...], size: int, otherwise: Decimal | None = None) -> Decimal | None:
    """The price in a request of `size` tokens of input: above a threshold, all of them cost more."""
    return next((tier.usd for tier in reversed(tiers) if size > tier.above), otherwise)


def _most(tiers: Iterable[Tier], size: int) -> Decimal:
    """The highest price of all tiers for a request of at most this many tokens."""
    return max(tier.usd for tier in tiers if tier.above < size)


class _OwnRate(NamedTuple):
    """Dollars per million tokens, from the configuration."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_write: Decimal | None

    def cost(self, counts: _Counts, extras: Extras) -> Decimal | None:
        written = counts.cache_write + counts.cache_write_1h
        searched = any(name.endswith("_searches") for name in extras)
        if searched or (counts.cache_read and self.cache_read is None) or (written and self.cache_write is None):
            return None
        uncached = counts.input * self.input + counts.output * self.output
        cached = counts.cache_read * (self.cache_read or 0) + written * (self.cache_write or 0)
        return (uncached + cached) / _MILLION

    def worst(self, asked: RequestSize) -> Decimal:
        most = max(price for price in (self.input, self.cache_read, self.cache_write) if price is not None)
        tokens = (asked.size * most + worst_output(asked) * self.output) / _MILLION
        return tokens + asked.rounds * _MOST_PER_SEARCH


class _OwnPrices:
    """Prices by name, ignoring case; `*` is any text. The exact name wins, then the longest pattern."""

    def __init__(self, written: Mapping[str, ModelPrice]) -> None:
        rates = {name.lower(): _own_rate(price) for name, price in written.items()}
        longest_first = sorted((name for name in rates if "*" in name), key=len, reverse=True)
        self._exact = rates
        self._patterns = [(_pattern(name), rates[name]) for name in longest_first]

    def __len__(self) -> int:
        return len(self._exact)

    def rate(self, names: Iterable[str]) -> _OwnRate | None:
        """Return the prices of a model with several names, the most specific first."""
        lowered = [name.lower() for name in names]
        exact = (self._exact[name] for name in lowered if name in self._exact)
        fitting = (rate for pattern, rate in self._patterns if any(map(pattern.fullmatch, lowered)))
        return next(exact, None) or next(fitting, None)


def _own_rate(price: ModelPrice) -> _OwnRate:
    cached = (None if each is None else _dollars(each) for each in (price.cache_read, price.cache_write))
    return _OwnRate(_dollars(price.input), _dollars(price.output), *cached)


def _dollars(written: float) -> Decimal:
    """Convert exactly: 0.1 is a tenth, not the nearest binary fraction."""
    return Decimal(repr(written))


def _pattern(name: str) -> re.Pattern[str]:
    """Compile a pattern. Atomic groups keep a pattern with many stars fast for any name."""
    first, *middle, last = map(re.escape, name.split("*"))
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}", re.DOTALL)
