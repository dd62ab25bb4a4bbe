"""How `yb gateway` reads its options."""

from __future__ import annotations

from decimal import Decimal

import pytest

from youbencha.cli.serving import (
    NO_KEY,
    Address,
    address_given,
    parse_dollars,
    parse_keys,
    parse_prices,
    parse_upstreams,
)
from youbencha.errors import YouBenchaError
from youbencha.gateway.budget import Caps

LOCAL = "http://127.0.0.1:4000"
KEYS = {"ANTHROPIC_API_KEY": "anthropics", "OPENAI_API_KEY": "openais", "MINE": "my own"}


def seen(*urls: str, key_envs: tuple[str, ...] = (), **env: str) -> dict[str, tuple[str, str]]:
    return {name: (each.url, each.key) for name, each in parse_upstreams(urls, key_envs, env).items()}


def test_keys() -> None:
    assert parse_keys([]) == {"default": Caps()}
    assert list(parse_keys(["b", "a=2.50"]).items()) == [("b", Caps()), ("a", Caps(usd=Decimal("2.50")))]
    assert parse_keys(["none=0", "some=.5"]) == {"none": Caps(usd=Decimal(0)), "some": Caps(usd=Decimal("0.5"))}


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (["a", "a=2"], "--key a is given twice"),
        (["a="], "--key a="),
        (["a=-1"], "--key a=-1 is"),
        (["a=nan"], "not an amount"),
        (["a=1e3"], "not an amount"),
        (["a=1_000"], "not an amount"),
        (["a=٣"], "not an amount"),
        (["=2"], "not a valid name"),
        ([""], "not a valid name"),
        (["a b"], "not a valid name"),
        (["(none)"], "not a valid name"),
        (["x" * 65], "not a valid name"),
    ],
)
def test_invalid_keys(written: list[str], says: str) -> None:
    with pytest.raises(YouBenchaError, match=None) as caught:
        parse_keys(written)
    assert says in caught.value.message


def test_a_real_key_instead_of_a_name_is_not_shown() -> None:
    with pytest.raises(YouBenchaError, match="looks like a key") as caught:
        parse_keys(["sk-ant-api03-abcdef=2"])
    assert "abcdef" not in str(caught.value)


def test_prices() -> None:
    found = parse_prices(["a=1/2", "host/model=v=2=0.5/1/.05/0.6"])
    assert found["a"].model_dump() == {"input": 1.0, "output": 2.0, "cache_read": None, "cache_write": None}
    assert found["host/model=v=2"].model_dump() == {"input": 0.5, "output": 1, "cache_read": 0.05, "cache_write": 0.6}


@pytest.mark.parametrize("written", ["a", "a=1", "=1/2", "a=1/2/3", "a=1/2/3/4/5", "a=1/x", "a=1/-2", "a=/"])
def test_invalid_prices(written: str) -> None:
    with pytest.raises(YouBenchaError, match="not a price"):
        parse_prices([written])


def test_two_prices_for_one_model() -> None:
    with pytest.raises(YouBenchaError, match="--price a is given twice"):
        parse_prices(["a=1/2", "a=1/3"])


def test_dollars_are_exact() -> None:
    assert parse_dollars("--budget-total", "0.1", "0.1") == Decimal("0.1")


def test_without_an_upstream_the_environment_decides() -> None:
    assert seen(**KEYS, ANTHROPIC_BASE_URL=f"{LOCAL}/v1/") == {
        "anthropic": (LOCAL, "anthropics"),
        "openai": ("https://api.openai.com", "openais"),
    }


def test_one_url_for_all_apis_gets_the_key_of_each() -> None:
    places = {"anthropic": (LOCAL, "anthropics"), "openai": (LOCAL, "openais"), "gemini": (LOCAL, NO_KEY)}
    assert seen(f"{LOCAL}/v1", **KEYS, ANTHROPIC_BASE_URL="http://elsewhere") == places


def test_with_an_upstream_nothing_else_is_served() -> None:
    assert seen(f"openai={LOCAL}", **KEYS) == {"openai": (LOCAL, "openais")}


def test_one_api_with_another_url() -> None:
    found = seen(LOCAL, "gemini=https://g.example/base", GEMINI_API_KEY="geminis")
    assert found["gemini"] == ("https://g.example/base", "geminis")
    assert found["openai"] == (LOCAL, NO_KEY)


def test_a_key_by_another_name() -> None:
    assert {key for _, key in seen(LOCAL, key_envs=("MINE",), **KEYS).values()} == {"my own"}
    assert seen(f"openai={LOCAL}", key_envs=("MINE",), **KEYS) == {"openai": (LOCAL, "my own")}
    assert seen(LOCAL, key_envs=("openai=MINE",), **KEYS)["anthropic"] == (LOCAL, "anthropics")
    assert seen(key_envs=("gemini=MINE",), MINE="my own")["gemini"][1] == "my own"
    apart = seen(LOCAL, "openai=http://o.example", key_envs=("MINE",), **KEYS)
    assert (apart["gemini"][1], apart["openai"][1]) == ("my own", "openais")


def test_a_key_is_sent_only_to_its_own_providers_public_address() -> None:
    assert seen("https://api.anthropic.com", **KEYS) == {"anthropic": ("https://api.anthropic.com", "anthropics")}


@pytest.mark.parametrize(
    ("urls", "key_envs", "says"),
    [
        (["https://api.openai.com/v1"], [], "has no key"),
        (["gemini=https://generativelanguage.googleapis.com"], [], "has no key"),
        (["ftp://x"], [], "--upstream ftp://x: not a URL"),
        (["127.0.0.1:4000"], [], "not a URL"),
        (["anthropic="], [], "not a URL"),
        (["http://"], [], "not a URL"),
        (["http://[::1"], [], "not a URL"),
        (["http://h:99999"], [], "not a URL"),
        (["http://h/?a=b"], [], "not a URL"),
        ([f"mistral={LOCAL}"], [], "unknown API"),
        ([LOCAL, LOCAL], [], "--upstream is given twice"),
        ([f"openai={LOCAL}", f"openai={LOCAL}"], [], "--upstream is given twice for openai"),
        ([LOCAL], ["NOT_SET"], "NOT_SET is not set"),
        ([LOCAL], ["sk-ant-x"], "not the name of a variable"),
        ([LOCAL], ["MINE", "MINE"], "given twice"),
        ([], ["MINE"], "the API is missing"),
        ([f"openai={LOCAL}", f"gemini={LOCAL}"], ["MINE"], "the API is missing"),
    ],
)
def test_invalid_upstreams(urls: list[str], key_envs: list[str], says: str) -> None:
    with pytest.raises(YouBenchaError, match=None) as caught:
        parse_upstreams(urls, key_envs, {"MINE": "my own"})
    assert says in caught.value.message
    assert caught.value.hint


def test_a_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(YouBenchaError, match="must not contain a user or a password") as caught:
        parse_upstreams(["http://me:hidden@h"], [], {})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "address", "local"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0), True),
        ("127.8.8.8:80", ("127.8.8.8", 80), True),
        ("[::1]:80", ("::1", 80), True),
        ("localhost:80", ("localhost", 80), True),
        ("0.0.0.0:80", ("0.0.0.0", 80), False),
        ("[::]:80", ("::", 80), False),
        ("172.17.0.1:80", ("172.17.0.1", 80), False),
        ("build.example:80", ("build.example", 80), False),
    ],
)
def test_addresses(written: str, address: tuple[str, int], local: bool) -> None:
    found = address_given(written)
    assert found == Address(*address)
    assert found.is_local is local
