"""Prices in the configuration."""

from __future__ import annotations

from decimal import Decimal

import pytest

from youbencha.gateway.prices import Prices
from youbencha.gateway.wires import RequestSize
from youbencha.spec.gateway import ModelPrice
from youbencha.usage import Tokens

ONE_INPUT = Tokens(1_000_000, 0)


def priced(dollars: dict[str, float]) -> Prices:
    """By the name of the model, what a million tokens of input cost."""
    return Prices({name: ModelPrice(input=price, output=0) for name, price in dollars.items()})


def test_configured_prices_are_used_as_written() -> None:
    prices = Prices({"mine": ModelPrice(input=0.1, output=0.7, cache_read=0.01, cache_write=0.3)})
    # 3 × 0.1 + 5 × 0.7 + 7 × 0.01 + 11 × 0.3; those for an hour at the one price there is
    assert prices.cost("openai", "mine", Tokens(3, 5, 7, 11), cache_creation_1h=4) == Decimal("0.00000717")


def test_configured_prices_win_over_the_list() -> None:
    prices = priced({"claude-opus-4-5": 1000})
    assert prices.cost("anthropic", "claude-opus-4-5", ONE_INPUT) == 1000
    assert prices.cost("anthropic", "anthropic/claude-opus-4-5", ONE_INPUT) == 1000
    assert prices.cost("anthropic", "claude-opus-4-5-20251101", ONE_INPUT) == 5, "is another name"


def test_a_price_of_zero_is_a_price() -> None:
    assert priced({"local": 0}).cost("openai", "local", ONE_INPUT) == 0


@pytest.mark.parametrize(
    ("tokens", "known"),
    [
        (Tokens(1, 1), True),
        (Tokens(1, 1, 0, 0), True),
        (Tokens(1, 1, 1, 0), False),
        (Tokens(1, 1, 0, 1), False),
    ],
)
def test_a_kind_of_token_without_a_price_makes_the_cost_unknown(tokens: Tokens, known: bool) -> None:
    prices = Prices({"mine": ModelPrice(input=1, output=2)})
    assert (prices.cost("openai", "mine", tokens) is not None) == known


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("my-exact", 1),
        ("MY-EXACT", 1),
        ("openai/my-exact", 1),
        ("my-exact-2", 3),  # the longest pattern
        ("my-other", 2),
        ("someone/my-other", None),
        ("fast-big-model-v2", 5),
        ("fast-model-v2", None),
        ("a.b", 6),
        ("axb", None),
        ("[1m]", 7),
    ],
)
def test_the_most_specific_name_wins(model: str, dollars: int | None) -> None:
    written = {"my-*": 2, "my-exact*": 3, "my-exact": 1, "*-big-*-v2": 5, "a.b": 6, "[1M]": 7}
    assert priced(written).cost("openai", model, ONE_INPUT) == dollars


def test_a_star_matches_every_model() -> None:
    prices = priced({"*": 4})
    assert prices.cost("openai", "whatever", ONE_INPUT) == 4
    assert prices.cost("openai", None, ONE_INPUT) is None


def test_many_stars_are_matched_fast() -> None:
    """With a regular expression of the plain kind this would run for hours."""
    prices = priced({"*".join("a" * 30) + "*b": 1})
    assert prices.cost("openai", "a" * 256, ONE_INPUT) is None
    assert prices.cost("openai", "a" * 256 + "b", ONE_INPUT) == 1


def test_the_worst_case_uses_the_highest_price() -> None:
    dear_cache = Prices({"mine": ModelPrice(input=1, output=10, cache_write=3)})
    assert dear_cache.worst_case("openai", "mine", RequestSize("mine", False, 5, 100)) == Decimal("0.00035")
    no_cache = Prices({"mine": ModelPrice(input=1, output=10)})
    assert no_cache.worst_case("openai", "mine", RequestSize("mine", False, 5, 100)) == Decimal("0.00015")
