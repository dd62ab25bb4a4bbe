"""The public price list, genai-prices, as it was installed: nothing here asks the network for a newer one.

Importing it takes a quarter of a second, so that is done where it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from youbencha.gateway.prices.counts import MILLION, Counts
from youbencha.gateway.routes import Provider

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices
    from genai_prices.types import Provider as PriceList

_LIST_OF: Mapping[Provider, str] = {"anthropic": "anthropic", "openai": "openai", "gemini": "google"}
_VERSION = re.compile(
    r"""(?: [-@]\d{8}           # claude-opus-4-5-20251101
      | -\d{4}-\d{2}-\d{2}      # gpt-5-2025-08-07
      | -\d{2}-(?:\d{2}|\d{4})  # gemini-2.5-pro-preview-05-06
      | -\d{3}                  # gemini-2.0-flash-001
      | -latest | -preview | -exp | -customtools
    )$""",
    re.VERBOSE,
)
"""What may follow a model's name and mean the same model."""


class ListedRate(NamedTuple):
    """The list's own way to add up, without what it checks each time: a quarter of a millisecond for each call."""

    prices: ModelPrice

    def cost(self, counts: Counts) -> Decimal | None:
        """What has no price of its own is plain input, to the providers as to the list."""
        size = counts.all_input
        for_input = _price_at(self.prices.input_mtok, size)
        for_output = _price_at(self.prices.output_mtok, size)
        if (size and for_input is None) or (counts.output and for_output is None):
            return None
        for_read = _price_at(self.prices.cache_read_mtok, size, for_input)
        for_write = _price_at(self.prices.cache_write_mtok, size, for_input)
        for_hour = _price_at(self.prices.cache_write_1h_mtok, size, for_write)
        each = zip(counts, (for_input, for_output, for_read, for_write, for_hour), strict=True)
        return sum((count * price for count, price in each if price is not None), Decimal(0)) / MILLION

    def worst(self, size: int, output: int) -> Decimal | None:
        each = (self.prices.input_mtok, self.prices.cache_write_mtok, self.prices.cache_write_1h_mtok)
        inputs = [_dearest(price, size) for price in each if price is not None]
        if self.prices.input_mtok is None or self.prices.output_mtok is None:
            return None
        return (size * max(inputs) + output * _dearest(self.prices.output_mtok, size)) / MILLION


def load_list() -> None:
    """Takes its time: in a thread, please."""
    _lists()


def listed_rate(provider: Provider, name: str) -> ListedRate | None:
    """As of today: prices change on a date."""
    model = _model(provider, name.lower())
    return ListedRate(model.get_prices(datetime.now(UTC))) if model else None


@cache
def _lists() -> Mapping[str, PriceList]:
    from genai_prices.data_snapshot import get_snapshot

    return {each.id: each for each in get_snapshot().providers}


@lru_cache(maxsize=1024)
def _model(provider: Provider, name: str) -> ModelInfo | None:
    """On the provider's own list, or else on that of another: behind LiteLLM, one API serves models of all."""
    lists = _lists()
    for each in (provider, *(other for other in _LIST_OF if other != provider)):
        model = lists[_LIST_OF[each]].find_model(name)
        if model and _means(model, name):
            return model
    return None


def _means(model: ModelInfo, name: str) -> bool:
    """Whether this is the model's name, with a version at most.

    The list goes by how names begin: `claude-opus-4-50` and `claude-3-haiku-ours` are known to it. That is a guess.
    """
    while not _spelled_out(model, name):
        shorter = _VERSION.sub("", name)
        if shorter == name:
            return False
        name = shorter
    return True


def _spelled_out(model: ModelInfo, name: str) -> bool:
    """A name that the list has in full is known no more when a letter is missing."""
    return model.is_match(name) and not model.is_match(name[:-1]) and not model.is_match(name[1:])


def _price_at(price: Decimal | TieredPrices | None, size: int, otherwise: Decimal | None = None) -> Decimal | None:
    """For a million tokens, in a request of `size` tokens of input: past a threshold, all of them cost more."""
    if price is None:
        return otherwise
    if isinstance(price, Decimal):
        return price
    return next((tier.price for tier in reversed(price.tiers) if size > tier.start), price.base)


def _dearest(price: Decimal | TieredPrices, size: int) -> Decimal:
    """Of all tiers that a request of at most this many tokens can get into."""
    if isinstance(price, Decimal):
        return price
    return max([price.base, *(tier.price for tier in price.tiers if tier.start < size)])
