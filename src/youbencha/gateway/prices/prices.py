"""What a call costs, and what it may cost at most."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

from youbencha.gateway.asked import worst_output
from youbencha.gateway.model import Asked
from youbencha.gateway.prices.counts import Rate, counts_of
from youbencha.gateway.prices.listed import listed_rate, load_list
from youbencha.gateway.prices.own import OwnPrices
from youbencha.gateway.routes import PROVIDER_OF_PREFIX, Provider
from youbencha.log.tokens import Tokens

if TYPE_CHECKING:
    from youbencha.spec.gateway import ModelPrice

_PREFIXES: Mapping[str, Provider] = {**PROVIDER_OF_PREFIX, "models": "gemini"}
"""How LiteLLM, and Google itself, write whose a model is. Other hosts (`bedrock/…`) have prices of their own."""


class Prices:
    """The configuration's own prices first, then the public list's. What neither has is unknown."""

    def __init__(self, overrides: Mapping[str, ModelPrice] = MappingProxyType({})) -> None:
        self._own = OwnPrices(overrides)

    def load(self) -> None:
        """So that the first call need not wait for the list. It takes a quarter of a second: call it in a thread."""
        load_list()

    @property
    def source(self) -> str:
        """For a report: where the prices are from."""
        from importlib.metadata import version

        own = f", {len(self._own)} of the configuration" if len(self._own) else ""
        return f"genai-prices {version('genai-prices')}{own}"

    def cost_of(
        self, provider: Provider, model: str | None, tokens: Tokens, *, cache_creation_1h: int = 0
    ) -> Decimal | None:
        """In dollars, of the tokens that are known. None if none are, or no price is.

        `cache_creation_1h` says how many of `tokens.cache_creation` are kept for an hour.
        """
        counts = counts_of(tokens, cache_creation_1h)
        rate = self._rate(provider, model) if counts else None
        return rate.cost(counts) if rate and counts else None

    def worst_case(self, provider: Provider, model: str | None, asked: Asked) -> Decimal | None:
        """No call that asks for this costs more: each byte a token, all written to the cache, the longest answer."""
        rate = self._rate(provider, model)
        return rate.worst(asked.size, worst_output(asked)) if rate else None

    def _rate(self, provider: Provider, model: str | None) -> Rate | None:
        if not model:
            return None
        owner, name = _owned(provider, model)
        return self._own.rate((model, name)) or listed_rate(owner, name)


def _owned(provider: Provider, model: str) -> tuple[Provider, str]:
    before, slash, name = model.partition("/")
    owner = _PREFIXES.get(before.lower()) if slash else None
    return (owner, name) if owner else (provider, model)
