"""The cost of calls, against figures calculated by hand from the providers' price pages."""

from __future__ import annotations

from decimal import Decimal
from importlib.metadata import version

import pytest

from youbencha.gateway.access import Provider
from youbencha.gateway.prices import Prices
from youbencha.gateway.wires import RequestSize
from youbencha.spec.gateway import ModelPrice
from youbencha.usage import Tokens

PRICES = Prices()
SOME = Tokens(input=1000, output=100)


def cost(provider: Provider, model: str | None, tokens: Tokens = SOME, *, hour: int = 0) -> Decimal | None:
    return PRICES.cost(provider, model, tokens, cache_creation_1h=hour)


@pytest.mark.parametrize(
    ("provider", "model", "tokens", "dollars"),
    [
        # 1200 × $5 + 340 × $25 + 50 000 × $0.50 + 7 000 × $6.25, for a million
        ("anthropic", "claude-opus-4-5-20251101", Tokens(1200, 340, 50_000, 7000), "0.08325"),
        # 3 × $1 + 17 × $5 + 11 × $0.10 + 13 × $1.25
        ("anthropic", "claude-haiku-4-5", Tokens(3, 17, 11, 13), "0.00010535"),
        # 2 000 × $1.25 + 500 × $10 + 8 000 × $0.125
        ("openai", "gpt-5", Tokens(2000, 500, 8000, 0), "0.0085"),
        # 2 000 × $0.25 + 500 × $2 + 8 000 × $0.025
        ("openai", "gpt-5-mini-2025-08-07", Tokens(2000, 500, 8000, None), "0.0017"),
        # 1 000 × $0.30 + 200 × $2.50 + 4 000 × $0.03
        ("gemini", "gemini-2.5-flash", Tokens(1000, 200, 4000), "0.00092"),
    ],
)
def test_costs_calculated_by_hand(provider: Provider, model: str, tokens: Tokens, dollars: str) -> None:
    assert cost(provider, model, tokens) == Decimal(dollars)


def test_one_hour_cache_writes_cost_more() -> None:
    # 600 × $6.25 + 400 × $10
    assert cost("anthropic", "claude-opus-4-5", Tokens(0, 0, 0, 1000), hour=400) == Decimal("0.00775")


@pytest.mark.parametrize("hour", [1000, 5000])
def test_one_hour_cache_writes_are_at_most_all_cache_writes(hour: int) -> None:
    assert cost("anthropic", "claude-opus-4-5", Tokens(0, 0, 0, 1000), hour=hour) == Decimal("0.01")


@pytest.mark.parametrize(
    ("tokens", "dollars"),
    [
        (Tokens(100_000, 10, 100_000), "0.1376"),  # 200 000 in all: 0.1 × $1.25 + 0.1 × $0.125 + 10 × $10
        (Tokens(100_000, 10, 100_001), "0.27515025"),  # one more: 0.1 × $2.50 + 100 001 × $0.25 + 10 × $15
    ],
)
def test_long_prompts_cost_more_and_cached_ones_count(tokens: Tokens, dollars: str) -> None:
    assert cost("gemini", "gemini-2.5-pro", tokens) == Decimal(dollars)


def test_a_sum_of_many_is_exact() -> None:
    each = cost("anthropic", "claude-haiku-4-5", Tokens(1, 1, 1, 1))
    assert each == Decimal("0.00000735")
    assert sum([each] * 1000) == Decimal("0.00735")


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", None),
        ("anthropic", ""),
        ("anthropic", "my-model"),
        ("anthropic", "claude-banana-9"),
        ("anthropic", "claude-opus-4-50"),
        ("anthropic", "claude-3-haiku-ours"),
        ("anthropic", "not-claude-opus-4-5"),
        ("anthropic", "us.anthropic.claude-opus-4-5-20251101-v1:0"),
        ("anthropic", "bedrock/claude-opus-4-5"),
        ("openai", "gpt-99"),
        ("openai", "gpt-5-banana"),
        ("openai", "my-moderation-model"),
        ("openai", "openai/"),
        ("gemini", "gemini-2.5-pro-banana"),
        ("gemini", "gemini-99"),
        ("gemini", "xgemini-1.5-pro"),
    ],
)
def test_an_unknown_model_has_no_price(provider: Provider, model: str | None) -> None:
    assert cost(provider, model) is None
    assert PRICES.worst_case(provider, model, RequestSize(model, False, 10, 10)) is None


@pytest.mark.parametrize(
    ("provider", "written", "means"),
    [
        ("anthropic", "anthropic/claude-opus-4-5", "claude-opus-4-5"),
        ("anthropic", "Claude-Opus-4-5", "claude-opus-4-5"),
        ("anthropic", "claude-3-5-haiku-latest", "claude-3-5-haiku-20241022"),
        ("openai", "openai/gpt-5", "gpt-5"),
        ("openai", "gpt-5.2-20251211", "gpt-5.2"),
        ("gemini", "gemini/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini", "google/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini", "models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini", "gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
    ],
)
def test_one_model_with_several_names(provider: Provider, written: str, means: str) -> None:
    assert cost(provider, written) == cost(provider, means)
    assert cost(provider, written) is not None


def test_one_api_may_serve_models_of_all_providers() -> None:
    assert cost("openai", "claude-opus-4-5") == cost("anthropic", "claude-opus-4-5") == Decimal("0.0075")
    assert cost("anthropic", "openai/gpt-5") == cost("openai", "gpt-5") == Decimal("0.00225")


def test_known_counts_are_priced() -> None:
    assert cost("anthropic", "claude-opus-4-5", Tokens(output=100)) == Decimal("0.0025")
    assert cost("anthropic", "claude-opus-4-5", Tokens(0, 0, 0, 0)) == 0


@pytest.mark.parametrize("tokens", [Tokens(), Tokens(5, -1), Tokens(-5)])
def test_no_tokens_no_cost(tokens: Tokens) -> None:
    assert cost("anthropic", "claude-opus-4-5", tokens) is None


def test_a_model_listed_without_a_price_has_none() -> None:
    assert cost("gemini", "gemma-3-27b-it") is None
    assert cost("openai", "text-embedding-3-small", Tokens(10, 10)) is None, "it gives no output"


def test_huge_counts_are_priced() -> None:
    assert cost("anthropic", "claude-opus-4-5", Tokens(10**40, 10**40)) is not None


@pytest.mark.parametrize(
    ("asked", "dollars"),
    [
        # Each byte at $10, the hour's cache: dearer than $5, or $6.25; the answer at $25
        (RequestSize("m", False, 1000, 2000), "0.045"),
        (RequestSize("m", False, None, 0), "3.2"),
        (RequestSize("m", False, 0, 1), "0.00001"),
    ],
)
def test_the_worst_case(asked: RequestSize, dollars: str) -> None:
    assert PRICES.worst_case("anthropic", "claude-opus-4-5", asked) == Decimal(dollars)


def test_the_worst_case_of_a_long_prompt_is_at_its_higher_price() -> None:
    # 200 001 × $2.50 + 10 × $15; one byte less cannot be a long prompt
    assert PRICES.worst_case("gemini", "gemini-2.5-pro", RequestSize(None, False, 10, 200_001)) == Decimal("0.5001525")
    assert PRICES.worst_case("gemini", "gemini-2.5-pro", RequestSize(None, False, 10, 200_000)) == Decimal("0.2501")


def test_the_source_names_the_version() -> None:
    assert PRICES.source == f"genai-prices {version('genai-prices')}"
    assert Prices({"a": ModelPrice(input=1, output=2)}).source == f"{PRICES.source}, 1 of the configuration"
