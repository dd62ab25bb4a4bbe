"""The APIs that the gateway serves: one module for each, listed here. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from youbencha.gateway.access import Provider
from youbencha.gateway.wires.anthropic import ANTHROPIC, AnthropicMessages
from youbencha.gateway.wires.base import Action, KeyHeader, ProviderFacts, RequestSize, Route, Wire, WireName
from youbencha.gateway.wires.chat import OPENAI, OpenAIChat
from youbencha.gateway.wires.gemini import GEMINI, Gemini
from youbencha.gateway.wires.responses import OpenAIResponses

__all__ = [
    "KEY_HEADERS",
    "PROVIDERS",
    "WIRES",
    "Action",
    "KeyHeader",
    "ProviderFacts",
    "RequestSize",
    "Route",
    "Wire",
    "WireName",
    "find_route",
    "lower_names",
    "presented_key",
]

WIRES: Mapping[WireName, Wire] = {
    wire.name: wire for wire in (AnthropicMessages(), OpenAIChat(), OpenAIResponses(), Gemini())
}

PROVIDERS: Mapping[Provider, ProviderFacts] = {"anthropic": ANTHROPIC, "openai": OPENAI, "gemini": GEMINI}

KEY_HEADERS = tuple(dict.fromkeys(header for facts in PROVIDERS.values() for _, header in facts.keys))


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def find_route(method: str, path: str, headers: Mapping[str, str]) -> Route | None:
    """Return the API and the action of a path, whatever prefix a base URL has. `headers` by lower-case names.

    None for a path of another API. Several have the same path for their lists of models: the headers decide.
    """
    routes = _matching(method, path)
    return next((route for route in routes if route.wire.is_from(headers)), routes[0] if routes else None)


@lru_cache(maxsize=256)
def _matching(method: str, path: str) -> tuple[Route, ...]:
    return tuple(
        Route(wire, action, match.group().rstrip("/"))
        for wire in WIRES.values()
        for allowed, pattern, action in wire.routes
        if allowed == method and (match := re.search(f"{pattern}/?$", path))
    )


def presented_key(headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    """Return the key of a request from the header or query of its API. `headers` by lower-case names."""
    bearer = headers.get("authorization", "")
    if bearer[:7].lower() == "bearer ":
        bearer = bearer[7:].strip()
    return headers.get("x-api-key") or bearer or headers.get("x-goog-api-key") or query.get("key") or None
