"""The price list as it is installed: every name in it has a price, and no price trips us up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from genai_prices import Usage
from genai_prices.data_snapshot import get_snapshot

from youbencha.gateway.model import Asked
from youbencha.gateway.prices import Prices
from youbencha.gateway.routes import Provider
from youbencha.log.tokens import Tokens

LISTS: dict[str, Provider] = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}
PRICES = Prices()


def spelled_out(clause: Any) -> Iterator[str]:
    for key, value in vars(clause).items():
        if isinstance(value, list):
            for inner in value:
                yield from spelled_out(inner)
        elif key == "equals":
            yield value


def names(provider: str) -> list[str]:
    (found,) = [each for each in get_snapshot().providers if each.id == provider]
    every = [name for model in found.models for name in spelled_out(model.match)]
    assert len(every) > 5
    return every


@pytest.mark.parametrize("listed", LISTS)
def test_no_name_of_the_list_fails_and_the_worst_case_is_the_worst(listed: str) -> None:
    tokens = Tokens(100_000, 4000, 90_000, 80_000)
    asked = Asked(None, False, 4000, 270_000)
    priced = 0
    for name in names(listed):
        cost = PRICES.cost_of(LISTS[listed], name, tokens, cache_creation_1h=70_000)
        worst = PRICES.worst_case(LISTS[listed], name, asked)
        assert (cost is None) == (worst is None), name
        if cost is not None and worst is not None:
            assert 0 < cost <= worst, name
            priced += 1
    assert priced > 5


MIXES = [
    Tokens(1200, 340, 50_000, 7000),
    Tokens(7, 0, 0, 0),
    Tokens(0, 7, 0, 0),
    Tokens(0, 0, 7, 0),
    Tokens(0, 0, 0, 7),
    Tokens(100_000, 10, 100_000, 0),
    Tokens(100_000, 10, 100_001, 0),
    Tokens(300_000, 10, 300_000, 300_000),
    Tokens(3_000_000, 10, 0, 0),
]
"""Each kind alone, and on both sides of the thresholds where a long prompt costs more."""


@pytest.mark.parametrize("listed", LISTS)
def test_a_cost_is_what_the_list_itself_works_out(listed: str) -> None:
    compared = 0
    for name in (each for each in names(listed) if "/" not in each):  # those are looked for on their owner's list
        for tokens in MIXES:
            for an_hour in (0, 5):
                ours = PRICES.cost_of(LISTS[listed], name, tokens, cache_creation_1h=an_hour)
                if ours is not None:
                    assert ours == by_the_list(listed, name, tokens, an_hour), (name, tokens)
                    compared += 1
    assert compared > 100


def by_the_list(listed: str, name: str, tokens: Tokens, an_hour: int) -> Decimal:
    """Its input includes what was cached, and its cache writes those for an hour."""
    (found,) = [each for each in get_snapshot().providers if each.id == listed]
    model = found.find_model(name)
    assert model
    fresh, output, read, written = (count or 0 for count in tokens)
    usage = Usage(
        input_tokens=fresh + read + written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(an_hour, written),
        output_tokens=output,
    )
    return model.get_prices(datetime.now(UTC)).calc_price(usage)["total_price"]


@pytest.mark.parametrize("listed", LISTS)
def test_a_name_that_only_begins_like_one_of_the_list_is_another(listed: str) -> None:
    for name in names(listed):
        assert PRICES.cost_of(LISTS[listed], f"{name}-ours", Tokens(10, 10)) is None, name
        assert PRICES.cost_of(LISTS[listed], f"our-{name}", Tokens(10, 10)) is None, name
