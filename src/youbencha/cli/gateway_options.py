"""Parse the options of `yb gateway`: keys, budgets, prices, and upstreams."""

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

NO_KEY = "no-key"
"""Sent to a server without a known key: most local servers accept any key, and some require one."""

_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LIKE_A_KEY = re.compile(r"(?:sk|pk|rk)[-_]|AIza|eyJ")
_DOLLARS = re.compile(r"\d{1,12}(?:\.\d{1,12})?|\.\d{1,12}", re.ASCII)

ByProvider = dict[Provider | None, str]
"""The value for None applies to every API without its own value."""

_PUBLIC: Mapping[str, Provider] = {
    "api.anthropic.com": "anthropic",
    "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "gemini",
}

_PROVIDERS: tuple[Provider, ...] = ("anthropic", "openai", "gemini")
_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)=(.*)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_keys(values: Sequence[str]) -> dict[str, Caps]:
    """Parse `--key NAME[=BUDGET_USD]`, in the order of the command line."""
    from youbencha.gateway.budget import Caps

    keys: dict[str, Caps] = {}
    for each in values or [DEFAULT_KEY]:
        name, equals, budget = each.partition("=")
        if _LIKE_A_KEY.match(name):  # not shown in the message: it may be a real key
            raise _invalid_option(
                "KEY", "--key takes a name, but this looks like a key", "Choose any name, for example --key alice=2.5."
            )
        if not _KEY_NAME.fullmatch(name):
            raise _invalid_option(
                "KEY", f"--key {each}: not a valid name", "Use up to 64 letters, digits, `.`, `_` and `-`."
            )
        if name in keys:
            raise _invalid_option("KEY", f"--key {name} is given twice", "Give each key a different name.")
        keys[name] = Caps(usd=parse_dollars("--key", each, budget) if equals else None)
    return keys


def parse_dollars(option: str, value: str, amount: str) -> Decimal:
    if not _DOLLARS.fullmatch(amount):
        raise _invalid_option("BUDGET", f"{option} {value}: not an amount of dollars", "Write it as 2 or 0.25.")
    return Decimal(amount)


def parse_prices(values: Sequence[str]) -> dict[str, ModelPrice]:
    """Parse `--price MODEL=IN/OUT[/CACHE_READ/CACHE_WRITE]`. The name of a model may contain `=` and `/`."""
    from youbencha.spec.gateway import ModelPrice

    prices: dict[str, ModelPrice] = {}
    for each in values:
        model, _, amounts = each.rpartition("=")
        parts = amounts.split("/")
        if not model or len(parts) not in (2, 4) or not all(map(_DOLLARS.fullmatch, parts)):
            hint = "Write MODEL=IN/OUT or MODEL=IN/OUT/CACHE_READ/CACHE_WRITE, in dollars per million tokens."
            raise _invalid_option("PRICE", f"--price {each}: not a price", hint)
        if model in prices:
            raise _invalid_option("PRICE", f"--price {model} is given twice", "Give each model one price.")
        names = ("input", "output", "cache_read", "cache_write")
        prices[model] = ModelPrice(**dict(zip(names, map(float, parts), strict=False)))
    return prices


def _invalid_option(what: str, message: str, hint: str) -> YouBenchaError:
    return YouBenchaError(f"{what}_INVALID", message, hint=hint)


def load_secrets(path: Path) -> dict[str, str]:
    from youbencha.gateway.upstreams import read_secrets

    try:
        return read_secrets(path)
    except YouBenchaError as error:
        if error.code != "SECRETS_FILE_UNREADABLE":
            raise
        raise YouBenchaError(error.code, error.message, hint="--secrets takes a file of NAME=VALUE lines.") from error


def parse_upstreams(urls: Sequence[str], key_envs: Sequence[str], env: Mapping[str, str]) -> dict[Provider, Upstream]:
    """Parse `--upstream` and `--upstream-key-env`. Without any `--upstream`, use the environment."""
    from youbencha.gateway.upstreams import find_upstreams, same_for_all
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
    upstreams: dict[Provider, Upstream] = {}
    for provider, spec in specs.items():
        if spec.url is None:
            continue
        if provider not in found and _host(spec.url) in _PUBLIC:
            raise _no_key([provider])
        upstreams[provider] = found.get(provider) or same_for_all(spec.url, NO_KEY)[provider]
    return upstreams


def _read_urls(values: Sequence[str]) -> ByProvider:
    urls: ByProvider = {}
    for each in values:
        provider, url = _split("--upstream", each)
        if "@" in url:  # not shown in the message: it may be a key
            raise _invalid_upstream(
                "--upstream: the URL must not contain a user or a password", "Set the key in the environment."
            )
        host = _host(url)
        if host is None:
            raise _invalid_upstream(
                f"--upstream {each}: not a URL", "Write http://HOST:PORT or, for one API, anthropic=https://…"
            )
        # A provider's public address gets only the key of that provider.
        _set_once(urls, provider or _PUBLIC.get(host), url, "--upstream")
    return urls


def _host(url: str) -> str | None:
    """Return the host of a base URL; None if it is not a valid one."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        return None
    return parts.hostname if is_valid and not re.search(r"\s", url) else None


def _read_key_envs(values: Sequence[str], url_of: ByProvider, env: Mapping[str, str]) -> ByProvider:
    names: ByProvider = {}
    for each in values:
        provider, name = _split("--upstream-key-env", each)
        if not _VARIABLE.fullmatch(name):
            raise _invalid_upstream(
                f"--upstream-key-env {each}: not the name of a variable",
                "Give the name of the variable, not the key itself.",
            )
        if not env.get(name, "").strip():
            raise YouBenchaError(
                "GATEWAY_KEY_MISSING",
                f"--upstream-key-env: {name} is not set",
                hint=f"Export {name}, or add it to the file given with --secrets.",
            )
        for one in [provider] if provider else _providers_of_key(url_of):
            _set_once(names, one, name, "--upstream-key-env")
    return names


def _providers_of_key(url_of: ByProvider) -> list[Provider]:
    """Return the APIs that a key without a name is for. They must be clear, so that no key goes to another server."""
    if None in url_of:
        return [provider for provider in _PROVIDERS if provider not in url_of]
    named = [provider for provider in url_of if provider]
    if len(named) == 1:
        return named
    raise _invalid_upstream(
        "--upstream-key-env: the API is missing", "Write anthropic=NAME, openai=NAME or gemini=NAME."
    )


def _split(option: str, value: str) -> tuple[Provider | None, str]:
    named = _NAMED.fullmatch(value)
    if named is None:
        return None, value
    provider = next((each for each in _PROVIDERS if each == named[1]), None)
    if provider is None:
        raise _invalid_upstream(f"{option} {named[1]}=…: unknown API", f"Use one of {', '.join(_PROVIDERS)}.")
    return provider, named[2]


def _set_once(values: ByProvider, provider: Provider | None, value: str, option: str) -> None:
    if provider in values:
        raise _invalid_upstream(
            f"{option} is given twice{f' for {provider}' if provider else ''}", "Give one for each API."
        )
    values[provider] = value


def _no_key(providers: Iterable[Provider]) -> YouBenchaError:
    from youbencha.gateway.upstreams import key_names

    names = ", ".join(key_names(provider)[0] for provider in providers)
    return YouBenchaError(
        "GATEWAY_KEY_MISSING",
        "the gateway has no key to forward requests with",
        hint=f"Export {names}, or give a file with --secrets, or a server that needs no key with --upstream.",
    )


def _invalid_upstream(message: str, hint: str) -> YouBenchaError:
    return YouBenchaError("UPSTREAM_INVALID", message, hint=hint)
