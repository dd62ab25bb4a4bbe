"""The price list as it is installed: every name in it has a price, and no price trips us up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
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


@pytest.mark.parametrize("listed", LISTS)
def test_a_name_that_only_begins_like_one_of_the_list_is_another(listed: str) -> None:
    for name in names(listed):
        assert PRICES.cost_of(LISTS[listed], f"{name}-ours", Tokens(10, 10)) is None, name
        assert PRICES.cost_of(LISTS[listed], f"our-{name}", Tokens(10, 10)) is None, name
