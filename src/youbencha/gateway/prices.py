"""Compute what a call costs, and its maximum, from the configuration's prices or the public list (genai-prices)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from youbencha.gateway.access import PROVIDER_OF_PREFIX, Provider
from youbencha.gateway.wires import RequestSize
from youbencha.spec.gateway import ModelPrice
from youbencha.usage import Tokens

if TYPE_CHECKING:  # heavy, see `PriceList.load`
    from genai_prices import types as genai

_MILLION = 1_000_000
_MAX_SEARCH_FEE = Decimal("0.035")
"""The highest fee of a listed model for one search."""

Extras = Mapping[str, int]
"""Tokens that are not text (`input_audio`, `output_image` …), and the provider's searches (`web_searches`,
`storage_searches`)."""
NO_EXTRAS: Extras = MappingProxyType({})

_PREFIXES: Mapping[str, Provider] = {**PROVIDER_OF_PREFIX, "models": "gemini"}
"""Prefixes of model names in LiteLLM and at Google. Other hosts (`bedrock/…`) have different prices."""


class Prices:
    """The configuration's prices, then the public list's. A price in neither is unknown."""

    def __init__(
        self,
        overrides: Mapping[str, ModelPrice] = MappingProxyType({}),
        *,
        price_list: PriceList | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`overrides` are the configuration's prices by model. Listed prices are those of `now`."""
        self._own = _OwnPrices(overrides)
        self._list = price_list or PriceList()
        self._now = now

    async def load(self) -> None:
        """Load the price list in a thread, if necessary. Otherwise, the first price blocks the event loop."""
        if not self._list.is_loaded:
            await asyncio.to_thread(self._list.load)

    @property
    def source(self) -> str:
        """The source of the prices, for a report."""
        own = f", {len(self._own)} of the configuration" if len(self._own) else ""
        return f"genai-prices {version('genai-prices')}{own}"

    def cost(
        self,
        provider: Provider,
        model: str | None,
        tokens: Tokens,
        *,
        cache_creation_1h: int = 0,
        extras: Extras = NO_EXTRAS,
    ) -> Decimal | None:
        """Return the cost in dollars of what is known. None if no token or no price is known.

        `cache_creation_1h` is the number of `tokens.cache_creation` that are kept for an hour. The tokens among
        `extras` are also in `tokens`.
        """
        known = [count for count in tokens if count is not None]
        if not known or min(known) < 0:
            return None
        rate = self._rate(provider, model)
        return rate.cost(tokens, cache_creation_1h, extras) if rate else None

    def worst_case(self, provider: Provider, model: str | None, size: RequestSize) -> Decimal | None:
        """Return the maximum cost: all tokens of the most expensive kind, the longest answer, and every search."""
        rate = self._rate(provider, model)
        return rate.worst_case(size) if rate else None

    def context_window(self, provider: Provider, model: str) -> int | None:
        """Return the size of the model's context window, in tokens. None if it is unknown."""
        listed = self._list.find(*_without_prefix(provider, model))
        return listed.context_window if listed else None

    def _rate(self, provider: Provider, model: str | None) -> _OwnRate | _ListedRate | None:
        if not model:
            return None
        owner, name = _without_prefix(provider, model)
        if own := self._own.rate((model, name)):
            return own
        listed = self._list.find(owner, name)
        return _ListedRate(listed.get_prices(self._now())) if listed else None


def _without_prefix(provider: Provider, model: str) -> tuple[Provider, str]:
    before, slash, name = model.partition("/")
    owner = _PREFIXES.get(before.lower()) if slash else None
    return (owner, name) if owner else (provider, model)


_LIST_IDS: Mapping[Provider, str] = {"anthropic": "anthropic", "openai": "openai", "gemini": "google"}
_VERSION = re.compile(
    r"""(?: [-@]\d{8}           # claude-opus-4-5-20251101
      | -\d{4}-\d{2}-\d{2}      # gpt-5-2025-08-07
      | -\d{2}-(?:\d{2}|\d{4})  # gemini-2.5-pro-preview-05-06
      | -\d{3}                  # gemini-2.0-flash-001
      | -latest | -preview | -exp | -customtools
    )$""",
    re.VERBOSE,
)
"""Suffixes of a model's name that mean the same model."""


class PriceList:
    """The models and prices of genai-prices. Nothing is downloaded.

    Loading it takes a third of a second, so code in an event loop first calls `load` in a thread.
    """

    def __init__(self) -> None:
        self._providers: Mapping[str, genai.Provider] | None = None
        self._loading = Lock()
        self._find = lru_cache(maxsize=1024)(self._search)

    @property
    def is_loaded(self) -> bool:
        return self._providers is not None

    def load(self) -> Mapping[str, genai.Provider]:
        from genai_prices.data_snapshot import get_snapshot  # heavy: it brings an HTTP client and 30,000 lines of data

        with self._loading:
            if self._providers is None:
                self._providers = {provider.id: provider for provider in get_snapshot().providers}
            return self._providers

    def find(self, provider: Provider, name: str) -> genai.ModelInfo | None:
        """Return the model with exactly this name, except for a version. None if it is not in the list."""
        return self._find(provider, name.lower())

    def _search(self, provider: Provider, name: str) -> genai.ModelInfo | None:
        """Search the provider's list, then the others: with LiteLLM, one API serves the models of all."""
        providers = self._providers or self.load()
        for owner in (provider, *(other for other in _LIST_IDS if other != provider)):
            model = providers[_LIST_IDS[owner]].find_model(name)
            if model and _is_named(model, name):
                return model
        return None


def _is_named(model: genai.ModelInfo, name: str) -> bool:
    """Whether this is exactly the model's name, except for a version.

    The list's rules match prefixes, so `claude-opus-4-50` and `claude-3-haiku-ours` would fit; their price is unknown.
    """
    while not _is_full_name(model, name):
        shorter = _VERSION.sub("", name)
        if shorter == name:
            return False
        name = shorter
    return True


def _is_full_name(model: genai.ModelInfo, name: str) -> bool:
    """Whether a rule matches the whole name: then it does not match without the first or last letter."""
    return model.is_match(name) and not any(model.is_match(part) for part in (name[:-1], name[1:]))


class _ListedRate(NamedTuple):
    """The listed prices of one model."""

    prices: genai.ModelPrice

    def cost(self, tokens: Tokens, cache_creation_1h: int, extras: Extras) -> Decimal | None:
        """Return the cost; None if something that was used has no price, or if the counts contradict each other."""
        from genai_prices import Usage  # loaded by now, see `PriceList.load`

        fresh, output, read, written = (count or 0 for count in tokens)
        whole, prices = fresh + read + written, self.prices
        needed = [getattr(prices, f"{name}_kcount") for name in extras if name.endswith("_searches")]
        needed += [prices.input_mtok] if whole else []
        needed += [prices.output_mtok] if output else []
        if None in needed:
            return None
        usage = Usage(
            input_tokens=whole,
            output_tokens=output,
            cache_read_tokens=read,
            cache_write_tokens=written,
            cache_write_1h_tokens=min(max(cache_creation_1h, 0), written),
            **{name if name.endswith("_searches") else f"{name}_tokens": count for name, count in extras.items()},
        )
        try:
            cost: Decimal = prices.calc_price(usage)["total_price"]
        except ValueError:
            return None
        return cost

    def worst_case(self, size: RequestSize) -> Decimal | None:
        if self.prices.input_mtok is None or self.prices.output_mtok is None:
            return None
        for_input = size.max_input * self._highest(size.max_input, output=False)
        for_output = size.worst_output * self._highest(size.max_input, output=True)
        return (for_input + for_output) / _MILLION + size.server_tool_uses * _MAX_SEARCH_FEE

    def _highest(self, size: int, *, output: bool) -> Decimal:
        """The highest price of all kinds of tokens, and of all tiers for a request of at most this many tokens."""
        listed = [
            price
            for kind, price in vars(self.prices).items()
            if price is not None and kind.endswith("_mtok") and kind.startswith("output_") == output
        ]
        tiers = [tier for price in listed for tier in getattr(price, "tiers", ())]
        amounts: list[Decimal] = [getattr(price, "base", price) for price in listed]
        amounts += [tier.price for tier in tiers if tier.start < size]
        return max(amounts)


class _OwnRate(NamedTuple):
    """Dollars per million tokens, from the configuration."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_write: Decimal | None

    def cost(self, tokens: Tokens, cache_creation_1h: int, extras: Extras) -> Decimal | None:
        fresh, output, read, written = (count or 0 for count in tokens)
        searched = any(name.endswith("_searches") for name in extras)
        if searched or (read and self.cache_read is None) or (written and self.cache_write is None):
            return None
        uncached = fresh * self.input + output * self.output
        cached = read * (self.cache_read or 0) + written * (self.cache_write or 0)
        return (uncached + cached) / _MILLION

    def worst_case(self, size: RequestSize) -> Decimal:
        highest = max(price for price in (self.input, self.cache_read, self.cache_write) if price is not None)
        tokens = (size.max_input * highest + size.worst_output * self.output) / _MILLION
        return tokens + size.server_tool_uses * _MAX_SEARCH_FEE


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
    cached = (None if usd is None else _dollars(usd) for usd in (price.cache_read, price.cache_write))
    return _OwnRate(_dollars(price.input), _dollars(price.output), *cached)


def _dollars(written: float) -> Decimal:
    """Convert exactly: 0.1 is a tenth, not the nearest binary fraction."""
    return Decimal(repr(written))


def _pattern(name: str) -> re.Pattern[str]:
    """Compile a pattern. Atomic groups keep a pattern with many stars fast for any name."""
    first, *middle, last = map(re.escape, name.split("*"))
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}", re.DOTALL)
