"""Our prices are those of genai-prices as it is installed: for each of its models, any usage and any date."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.gateway.access import Provider
from youbencha.gateway.prices import PriceList, Prices
from youbencha.gateway.wires import RequestSize
from youbencha.usage import Tokens

if TYPE_CHECKING:  # it takes a while to import, and only one of the processes that collect tests needs it
    from genai_prices.types import ModelInfo, ModelPrice
    from genai_prices.types import Provider as ListedProvider

LISTS: dict[str, Provider] = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}
PRICE_LIST = PriceList()
PRICES = Prices(price_list=PRICE_LIST)
TODAY = datetime.now(UTC).date()


@cache
def providers() -> dict[str, ListedProvider]:
    from genai_prices.data_snapshot import get_snapshot

    return {provider.id: provider for provider in get_snapshot().providers if provider.id in LISTS}


def written_in(clause: Any, *kinds: str) -> Iterator[str]:
    for key, value in vars(clause).items():
        if isinstance(value, list):
            for inner in value:
                yield from written_in(inner, *kinds)
        elif key in kinds:
            yield value


def names(listed: str, *kinds: str) -> list[str]:
    """Those that are looked for on this list: one with a prefix is looked for on its owner's."""
    every = [name for model in providers()[listed].models for name in written_in(model.match, *(kinds or ("equals",)))]
    found = [name for name in every if "/" not in name]
    assert len(found) > 5
    return found


# -- which model a name means ----------------------------------------------------------------------------------

VERSION_PARTS = ("-20251101", "@20251101", "-20250230", "-2025-08-07", "-05-06", "-001", "-latest", "-preview", "-exp")
OTHER_PARTS = ("0", "-ours", "-banana-20251101", ":free", "-tts", "-20251101:batch")


def variations(name: str) -> Iterator[str]:
    yield from (name, name.upper(), name[:-1], name[1:], f"our-{name}")
    yield from (f"{name}{part}" for part in (*VERSION_PARTS, *OTHER_PARTS))
    yield from (f"{name}-preview{part}" for part in ("-20251101", "-05-06"))


def expected_model(listed: str, name: str) -> ModelInfo | None:
    """By genai-prices' own matching, for an exact name with a version at most."""
    version = r"(?:[-@]\d{8}|-\d{4}-\d{2}-\d{2}|-\d{2}-(?:\d{2}|\d{4})|-\d{3}|-latest|-preview|-exp|-customtools)$"
    for each in (listed, *(other for other in LISTS if other != listed)):
        model, left = providers()[each].find_model(name), name.lower()
        while model:
            if model.is_match(left) and not model.is_match(left[:-1]) and not model.is_match(left[1:]):
                return model
            left, before = re.sub(version, "", left), left
            if left == before:
                break
    return None


@pytest.mark.parametrize("listed", LISTS)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.full)])
def test_every_name_selects_the_listed_model(listed: str, step: int) -> None:
    """Each name as it is, and some of its variations: other ones for the next name."""
    known = unknown = 0
    for number, written in enumerate(names(listed, "equals", "starts_with", "contains", "ends_with")):
        for name in {written, *[*variations(written)][number % step :: step]}:
            model = expected_model(listed, name)
            assert PRICE_LIST.find(LISTS[listed], name) is model, name
            known, unknown = known + (model is not None), unknown + (model is None)
    assert min(known, unknown) > 50


EXTRAS = (*(f"{way}_{kind}" for way in ("input", "output") for kind in ("audio", "image", "video")), "web_searches")


def extra_price(prices: ModelPrice, name: str) -> Decimal | None:
    price = getattr(prices, f"{name}_{'kcount' if name.endswith('searches') else 'mtok'}")
    assert price is None or isinstance(price, Decimal), "a price in tiers, which is not expected"
    return price


@pytest.mark.parametrize("listed", LISTS)
def test_a_name_with_an_added_prefix_or_suffix_is_unknown(listed: str) -> None:
    for name in names(listed):
        assert PRICES.cost(LISTS[listed], f"{name}-ours", Tokens(10, 10)) is None, name
        assert PRICES.cost(LISTS[listed], f"our-{name}", Tokens(10, 10)) is None, name


# -- what it costs ---------------------------------------------------------------------------------------------


class Named(NamedTuple):
    listed: str
    name: str
    model: ModelInfo


@cache
def models() -> list[Named]:
    """One name of each model on the lists."""
    found = {}
    for listed in LISTS:
        for name in names(listed, "equals", "starts_with", "contains"):
            model = expected_model(listed, name)
            if model is not None and model in providers()[listed].models:
                found.setdefault((listed, model.id), Named(listed, name, model))
    assert len(found) > 0.8 * sum(len(provider.models) for provider in providers().values())
    return list(found.values())


def starts_of(model: ModelInfo) -> list[date]:
    dated = model.prices if isinstance(model.prices, list) else []
    return [each.constraint.start_date for each in dated if each.constraint is not None]


def start_dates() -> Sequence[date]:
    found = {start for named in models() for start in starts_of(named.model)}
    assert found, "no price of the list starts on a date"
    return sorted(found)


def thresholds() -> Sequence[int]:
    sets = [each for named in models() for each in price_sets(named.model)]
    found = {tier.start for each in sets for price in vars(each).values() for tier in getattr(price, "tiers", ())}
    assert found, "no price of the list has tiers"
    return sorted(found)


def price_sets(model: ModelInfo) -> list[ModelPrice]:
    return [price.prices for price in model.prices] if isinstance(model.prices, list) else [model.prices]


days = st.deferred(lambda: st.sampled_from(start_dates())).flatmap(
    lambda start: st.sampled_from([start - timedelta(1), start, start + timedelta(1), TODAY, date(2000, 1, 1)])
)
near_a_threshold = st.deferred(lambda: st.sampled_from(thresholds())).flatmap(
    lambda start: st.integers(start - 2, start + 2)
)
counts = st.one_of(st.just(0), st.integers(0, 5_000_000), near_a_threshold)
partly_cached = st.builds(lambda size, part: Tokens(size - part, 7, part, 0), near_a_threshold, st.integers(0, 1000))
usages = st.one_of(st.builds(Tokens, counts, counts, counts, counts), partly_cached)

offsets = st.integers(0, 4)
"""Each example looks at every fifth model, from this one on: all of them would take too long."""


@given(tokens=usages, an_hour=st.one_of(st.just(0), counts), day=days, first=offsets)
def test_the_cost_matches_genai_prices(tokens: Tokens, an_hour: int, day: date, first: int) -> None:
    prices = Prices(price_list=PRICE_LIST, now=lambda: datetime(day.year, day.month, day.day, 12, tzinfo=UTC))
    compared = 0
    for listed, name, model in models()[first::5]:
        ours = prices.cost(LISTS[listed], name, tokens, cache_creation_1h=an_hour)
        listed_prices = model.get_prices(datetime(day.year, day.month, day.day, 12, tzinfo=UTC))
        if ours is None:
            assert None in (listed_prices.input_mtok, listed_prices.output_mtok), name
        else:
            assert ours == by_the_list(listed_prices, tokens, an_hour), (name, tokens, day)
            compared += 1
    assert compared > 30


def by_the_list(prices: ModelPrice, tokens: Tokens, an_hour: int) -> Decimal:
    """Its input includes what was cached, and its cache writes those for an hour."""
    from genai_prices import Usage

    fresh, output, read, written = (count or 0 for count in tokens)
    usage = Usage(
        input_tokens=fresh + read + written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(an_hour, written),
        output_tokens=output,
    )
    return prices.calc_price(usage)["total_price"]


@pytest.mark.parametrize("name", EXTRAS)
def test_searches_sound_and_images_cost_what_genai_prices_says(name: str) -> None:
    from genai_prices import Usage

    usage_name = name if name.endswith("searches") else f"{name}_tokens"
    compared = 0
    for listed, model_name, model in models():
        prices = model.get_prices(datetime.now(UTC))
        if None in (prices.input_mtok, prices.output_mtok):
            continue
        ours = PRICES.cost(LISTS[listed], model_name, Tokens(900, 90), extras={name: 7})
        if extra_price(prices, name) is None and name.endswith("searches"):
            assert ours is None, "a fee that is not listed is not 0"
        else:
            usage = Usage(input_tokens=900, output_tokens=90, **{usage_name: 7})
            assert ours == prices.calc_price(usage)["total_price"], model_name
            compared += 1
    assert compared > 20


@given(tokens=usages, an_hour=counts, day=days, first=offsets)
def test_no_call_costs_more_than_its_worst_case(tokens: Tokens, an_hour: int, day: date, first: int) -> None:
    prices = Prices(price_list=PRICE_LIST, now=lambda: datetime(day.year, day.month, day.day, 12, tzinfo=UTC))
    fresh, output, read, written = (count or 0 for count in tokens)
    asked = RequestSize(None, False, output, fresh + read + written)
    priced = 0
    for listed, name, _ in models()[first::5]:
        cost = prices.cost(LISTS[listed], name, tokens, cache_creation_1h=an_hour)
        worst = prices.worst_case(LISTS[listed], name, asked)
        if worst is not None:
            assert cost is not None, name
            assert cost <= worst, name
            priced += 1
    assert priced > 30


def test_prices_change_on_their_dates() -> None:
    changed = 0
    for listed, name, model in models():
        for start in starts_of(model):
            noon = [datetime(day.year, day.month, day.day, 12, tzinfo=UTC) for day in (start - timedelta(1), start)]
            before, after = (
                Prices(price_list=PRICE_LIST, now=lambda when=when: when).cost(  # type: ignore[misc]
                    LISTS[listed], name, Tokens(10**6, 10**6)
                )
                for when in noon
            )
            changed += before != after
    assert changed > 3


def test_counts_that_contradict_each_other_have_no_cost() -> None:
    listed_now = [(named, named.model.get_prices(datetime.now(UTC))) for named in models()]
    with_sound = [named for named, prices in listed_now if prices.input_mtok and prices.input_audio_mtok]
    for listed, name, _ in with_sound:
        for audio, is_known in ((10, True), (11, False)):
            cost = PRICES.cost(LISTS[listed], name, Tokens(10, 0), extras={"input_audio": audio})
            assert (cost is not None) == is_known
    assert with_sound
