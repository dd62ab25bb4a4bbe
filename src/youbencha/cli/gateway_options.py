"""Read the options of `yb gateway`: keys, budgets, prices and upstreams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from youbencha.errors import YouBenchaError
from youbencha.gateway.api import Provider
from youbencha.gateway.upstreams import Upstream

if TYPE_CHECKING:
    from youbencha.gateway.budget import Caps
    from youbencha.spec.gateway import ModelPrice


DEFAULT_KEY = "default"

_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_LIKE_A_KEY = re.compile(r"(?:sk|pk|rk)[-_]|AIza|eyJ")

_DOLLARS = re.compile(r"\d{1,12}(?:\.\d{1,12})?|\.\d{1,12}", re.ASCII)


def keys_given(written: Sequence[str]) -> dict[str, Caps]:
    """`--key NAME[=BUDGET_USD]`, in the order of the command line."""
    from youbencha.gateway.budget import Caps

    found: dict[str, Caps] = {}
    for each in written or [DEFAULT_KEY]:
        name, equals, budget = each.partition("=")
        if _LIKE_A_KEY.match(name):  # not shown: it would be in every line, and in the ledger
            raise _invalid_option(
                "KEY", "--key takes a name, and this looks like a key", "Name it as you like: --key alice=2.5"
            )
        if not _KEY_NAME.fullmatch(name):
            raise _invalid_option(
                "KEY", f"--key {each}: not a name", "Letters, digits, `.`, `_` and `-`, at most 64 of them."
            )
        if name in found:
            raise _invalid_option("KEY", f"--key {name} is given twice", "Each key has a name of its own.")
        found[name] = Caps(usd=dollars_given("--key", each, budget) if equals else None)
    return found


def dollars_given(option: str, written: str, amount: str) -> Decimal:
    if not _DOLLARS.fullmatch(amount):
        raise _invalid_option("BUDGET", f"{option} {written}: not an amount of dollars", "Write it as 2 or 0.25.")
    return Decimal(amount)


def prices_given(written: Sequence[str]) -> dict[str, ModelPrice]:
    """`--price MODEL=IN/OUT[/CACHE_READ/CACHE_WRITE]`. A model's name may hold `=` and `/` itself."""
    from youbencha.spec.gateway import ModelPrice

    found: dict[str, ModelPrice] = {}
    for each in written:
        model, _, amounts = each.rpartition("=")
        parts = amounts.split("/")
        if not model or len(parts) not in (2, 4) or not all(map(_DOLLARS.fullmatch, parts)):
            hint = "Write MODEL=IN/OUT or MODEL=IN/OUT/CACHE_READ/CACHE_WRITE, in dollars for a million tokens."
            raise _invalid_option("PRICE", f"--price {each}: not a price", hint)
        if model in found:
            raise _invalid_option("PRICE", f"--price {model} is given twice", "One price for each model.")
        names = ("input", "output", "cache_read", "cache_write")
        found[model] = ModelPrice(**dict(zip(names, map(float, parts), strict=False)))
    return found


def _invalid_option(what: str, message: str, hint: str) -> YouBenchaError:
    return YouBenchaError(f"{what}_INVALID", message, hint=hint)


# -- upstreams: what the options say takes precedence over the environment -----------------------------------

ByProvider = dict[Provider | None, str]
"""None: for every API that has none of its own."""

NO_KEY = "no-key"
"""For a server without a key: most local ones accept any, and some require one."""

_PUBLIC: Mapping[str, Provider] = {
    "api.anthropic.com": "anthropic",
    "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "gemini",
}

_PROVIDERS: tuple[Provider, ...] = ("anthropic", "openai", "gemini")

_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)=(.*)")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def secrets_given(path: Path) -> dict[str, str]:
    from youbencha.gateway.upstreams import read_secrets

    try:
        return read_secrets(path)
    except YouBenchaError as error:
        if error.code != "SECRETS_FILE_UNREADABLE":
            raise
        raise YouBenchaError(error.code, error.message, hint="--secrets names a file of NAME=VALUE lines.") from error


def upstreams_given(urls: Sequence[str], key_envs: Sequence[str], env: Mapping[str, str]) -> dict[Provider, Upstream]:
    """Without any `--upstream`, what the environment says; else only what is written."""
    from youbencha.gateway.upstreams import find_upstreams
    from youbencha.spec.gateway import GatewaySpec, UpstreamSpec, UpstreamSpecs

    url_of = _read_urls(urls)
    key_env_of = _read_key_envs(key_envs, url_of, env)
    specs = {
        provider: UpstreamSpec(url=url_of.get(provider) or url_of.get(None), key_env=key_env_of.get(provider))
        for provider in _PROVIDERS
    }
    found = find_upstreams(GatewaySpec(upstreams=UpstreamSpecs(**specs)), env)
    if not url_of:
        if not found:
            raise _no_key(_PROVIDERS)
        return found
    given: dict[Provider, Upstream] = {}
    for provider, spec in specs.items():
        if spec.url is None:
            continue
        if provider not in found and _host(spec.url) in _PUBLIC:
            raise _no_key([provider])
        given[provider] = found.get(provider) or _without_key(provider, spec.url)
    return given


def _without_key(provider: Provider, url: str) -> Upstream:
    from youbencha.gateway.upstreams import same_for_all

    return same_for_all(url, NO_KEY)[provider]


def _read_urls(written: Sequence[str]) -> ByProvider:
    found: ByProvider = {}
    for each in written:
        provider, url = _split("--upstream", each)
        if "@" in url:  # not shown: it may be a key
            raise _invalid_upstream(
                "--upstream: a user or a password in a URL is not sent on", "Give the key in the environment."
            )
        host = _host(url)
        if host is None:
            raise _invalid_upstream(
                f"--upstream {each}: not a URL", "Write http://HOST:PORT or, for one API, anthropic=https://…"
            )
        # A provider's own address is one for its own key only.
        _put(found, provider or _PUBLIC.get(host), url, "--upstream")
    return found


def _host(url: str) -> str | None:
    """None if it is not a base URL."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        return None
    return parts.hostname if good and not re.search(r"\s", url) else None


def _read_key_envs(written: Sequence[str], url_of: ByProvider, env: Mapping[str, str]) -> ByProvider:
    found: ByProvider = {}
    for each in written:
        provider, name = _split("--upstream-key-env", each)
        if not _VARIABLE.fullmatch(name):
            raise _invalid_upstream(
                f"--upstream-key-env {each}: not the name of a variable", "The name, never the key itself."
            )
        if not env.get(name, "").strip():
            raise YouBenchaError(
                "GATEWAY_KEY_MISSING",
                f"--upstream-key-env: {name} is not set",
                hint=f"export {name} first, or write it into the file that --secrets names.",
            )
        for one in [provider] if provider else _meant(url_of):
            _put(found, one, name, "--upstream-key-env")
    return found


def _meant(url_of: ByProvider) -> list[Provider]:
    """Return whose key it is that is given without a name: that of the only upstream, never of several."""
    if None in url_of:
        return [provider for provider in _PROVIDERS if provider not in url_of]
    named = [provider for provider in url_of if provider]
    if len(named) == 1:
        return named
    raise _invalid_upstream("--upstream-key-env: whose key is it?", "Write anthropic=NAME, openai=NAME or gemini=NAME.")


def _split(option: str, written: str) -> tuple[Provider | None, str]:
    named = _NAMED.fullmatch(written)
    if named is None:
        return None, written
    provider = next((each for each in _PROVIDERS if each == named[1]), None)
    if provider is None:
        raise _invalid_upstream(f"{option} {named[1]}=…: no API of that name", f"There are {', '.join(_PROVIDERS)}.")
    return provider, named[2]


def _put(found: ByProvider, provider: Provider | None, value: str, option: str) -> None:
    if provider in found:
        raise _invalid_upstream(f"{option} is given twice{f' for {provider}' if provider else ''}", "One for each API.")
    found[provider] = value


def _no_key(providers: Iterable[Provider]) -> YouBenchaError:
    from youbencha.gateway.upstreams import key_names

    names = ", ".join(key_names(provider)[0] for provider in providers)
    return YouBenchaError(
        "GATEWAY_KEY_MISSING",
        "the gateway has no key to send requests on with",
        hint=f"export {names}; or name a file with --secrets, or a server that needs no key with --upstream.",
    )


def _invalid_upstream(message: str, hint: str) -> YouBenchaError:
    return YouBenchaError("UPSTREAM_INVALID", message, hint=hint)
