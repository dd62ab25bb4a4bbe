"""Ask the providers, before a run spends anything, whether they know the configured models.

A model is unknown only if the provider answers 404 for it, lists other models, and finds one of these. Anything else
proves nothing, and the run continues: a proxy without these routes, a rejected key, no connection, no answer in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from fnmatch import fnmatchcase
from urllib.parse import quote

import aiohttp
from yarl import URL

from youbencha.errors import ConfigError, Problem
from youbencha.gateway.access import PROVIDER_OF_PREFIX
from youbencha.gateway.forward import load_certificates, new_client, proxy_for
from youbencha.gateway.upstreams import ConfiguredModel, Upstream
from youbencha.gateway.wires import PROVIDERS
from youbencha.json_lines import as_mapping, as_records, loads
from youbencha.text import did_you_mean

_DEADLINE_S = 5.0
_MAX_LISTED = 5
_NOT_FOUND, _OK = 404, 200


async def check_models(models: Iterable[ConfiguredModel]) -> None:
    """Raise `MODEL_UNUSABLE` if some of these models are unknown. Each is asked for once, all at the same time."""
    users: dict[tuple[Upstream, str], list[str]] = {}
    for configured in models:
        users.setdefault((configured.upstream, configured.name), []).append(configured.user)
    certificates = load_certificates({upstream.provider: upstream for upstream, _ in users})
    async with new_client(certificates) as client:
        known = await asyncio.gather(*(_known_instead(client, *asked) for asked in users))
    problems = [
        _problem(upstream, model, names, who)
        for ((upstream, model), who), names in zip(users.items(), known, strict=True)
        if names
    ]
    if problems:
        hint = "Correct `model`, or add it to the key's account. Nothing was run."
        raise ConfigError("MODEL_UNUSABLE", "The configuration", problems, hint=hint)


def _problem(upstream: Upstream, model: str, known: list[str], users: list[str]) -> Problem:
    listed = ", ".join(known[:_MAX_LISTED])
    hint = did_you_mean(_name(upstream, model), known) or f"it knows {listed}"
    return Problem(", ".join(dict.fromkeys(users)), f"{upstream.url} does not know the model {model}", hint)


async def _known_instead(client: aiohttp.ClientSession, upstream: Upstream, model: str) -> list[str]:
    """Return the names that the provider knows, if it does not know this one; else nothing."""
    name = _name(upstream, model)
    try:
        async with asyncio.timeout(_DEADLINE_S):
            if await _ask(client, upstream, name) != _NOT_FOUND:
                return []
            listed = await _list(client, upstream)
            # A proxy may list patterns, such as `anthropic/*`.
            if not listed or any(fnmatchcase(spelling, pattern) for spelling in (name, model) for pattern in listed):
                return []
            return listed if await _ask(client, upstream, listed[0]) == _OK else []
    except (aiohttp.ClientError, OSError, ValueError):
        return []


def _name(upstream: Upstream, model: str) -> str:
    """The model's name for its provider: `claude-x` for `anthropic/claude-x` and for `claude-x[1m]`."""
    name = model.partition("[")[0]
    prefix, _, rest = name.partition("/")
    return rest if PROVIDER_OF_PREFIX.get(prefix) == upstream.provider else name


async def _ask(client: aiohttp.ClientSession, upstream: Upstream, model: str) -> int:
    """Ask for a model, and return the status of the answer."""
    async with _get(client, upstream, f"/{quote(model, safe='')}") as answer:
        return answer.status


async def _list(client: aiohttp.ClientSession, upstream: Upstream) -> list[str]:
    """Ask for the names of all models; none if there is no list."""
    async with _get(client, upstream, PROVIDERS[upstream.provider].all_models) as answer:
        body = as_mapping(loads(await answer.read())) if answer.status == _OK else {}
    rows = as_records(body.get(PROVIDERS[upstream.provider].models_field))
    return [str(row.get("id") or row.get("name", "")).removeprefix("models/") for row in rows]


def _get(
    client: aiohttp.ClientSession, upstream: Upstream, rest: str
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    facts = PROVIDERS[upstream.provider]
    return client.get(
        URL(upstream.full_url(facts.models_path) + rest, encoded=True),
        headers={**upstream.credentials(), **facts.headers, "Accept-Encoding": "identity"},
        allow_redirects=False,
        proxy=proxy_for(upstream.url),
    )
